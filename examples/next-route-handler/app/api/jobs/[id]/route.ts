import { JobNotFoundError } from "nightshift/client"
import { shift } from "../../../../lib/shift"

export const runtime = "nodejs"

export async function GET(_: Request, { params }: { params: Promise<{ id: string }> }): Promise<Response> {
  try {
    const { progress, result, state } = await (await shift()).job((await params).id)
    return Response.json({ state, progress, result })
  } catch (error) {
    if (error instanceof JobNotFoundError) return Response.json({ error: error.message }, { status: 404 })
    throw error
  }
}
