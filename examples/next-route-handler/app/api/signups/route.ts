import { InvalidPayloadError, QueueFullError } from "nightshift/client"
import { welcome } from "../../../lib/jobs"
import { shift } from "../../../lib/shift"

export const runtime = "nodejs"

/** One welcome mail per address and day, however often the form is sent. */
export async function POST(request: Request): Promise<Response> {
  const payload = await request.json()
  try {
    const queue = await shift()
    const { id, outcome } = await queue.enqueue(welcome, payload, {
      dedupe: { key: `welcome:${payload.email}`, scope: "retained", window: "24h" }
    })
    return Response.json({ job: id, outcome }, { status: 202 })
  } catch (error) {
    if (error instanceof InvalidPayloadError) {
      return Response.json({ error: error.message, issues: error.issues }, { status: 400 })
    }
    if (error instanceof QueueFullError) return Response.json({ error: "Try again in a minute." }, { status: 503 })
    throw error
  }
}
