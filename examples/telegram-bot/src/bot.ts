import { job, Outcome } from "nightshift/client"
import { z } from "zod"

/** The part of a Telegram update that this bot reads. Updates of other types are acknowledged and dropped. */
const Update = z.object({
  message: z.object({ chat: z.object({ id: z.number() }), text: z.string().optional() })
})

export const track = job("track", { payload: Update, attempts: 3, backoff: "5s" })

/** Asks the carrier. */
export type Lookup = (parcel: string, signal: AbortSignal) => Promise<string | undefined>

/** The handler's return value is the reply to the chat. */
export const handlersWith = (lookup: Lookup) => [
  track.handle(async ({ message }, { signal }) => {
    const [command, parcel] = (message.text ?? "").trim().split(/\s+/)
    if (command !== "/track" || parcel === undefined) return "Send /track followed by the number of your parcel."
    const status = await lookup(parcel, signal)
    if (status === undefined) return `Parcel ${parcel} is unknown.`
    // Runs again later without using an attempt. The reply is sent once the status is known.
    if (status === "pending") return Outcome.snooze("10m")
    return `Parcel ${parcel}: ${status}`
  })
]

const parcels: Readonly<Record<string, string>> = { "17": "arrives today", "18": "arrives tomorrow" }

/** `nightshift serve --app ./src/bot.ts` runs these. */
export const handlers = handlersWith(async (parcel) => parcels[parcel])
