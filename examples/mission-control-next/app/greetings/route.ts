import { greet } from "../../lib/jobs"
import { shift } from "../../lib/shift"

export const POST = async (request: Request) => {
  const { id } = await (await shift()).enqueue(greet, await request.json())
  return Response.json({ job: id }, { status: 202 })
}
