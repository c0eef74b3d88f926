import type * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import { Duration, Effect, Schema } from "effect"
import { Idempotency } from "../../access/Idempotency.js"
import { isUnstorable } from "../../queue/NewJob.js"
import { BadRequest } from "../RequestErrors.js"
import * as WireText from "../WireText.js"

const maxKeyCharacters = 255

/** How long an Idempotency-Key is remembered. */
const remembered = Duration.hours(24)

/** The header that makes a request safe to retry. */
export const headers = Schema.Struct({
  "idempotency-key": WireText.optional(
    Schema.String.annotations({
      description: "Makes the request safe to retry for 24 hours: the same key and body return the same response."
    })
  )
})

/** The Idempotency-Key of a request. */
export const keyOf = ({
  headers
}: HttpServerRequest.HttpServerRequest): Effect.Effect<string | undefined, BadRequest> => {
  const key = headers["idempotency-key"]
  if (key === undefined) return Effect.succeed(undefined)
  if (key.length > 0 && key.length <= maxKeyCharacters && !isUnstorable(key)) return Effect.succeed(key)
  const message = `Idempotency-Key must have 1 to ${maxKeyCharacters} characters.`
  return new BadRequest({ message, field: "Idempotency-Key" })
}

/** Runs `act` once per key. Repeated requests with the same content get its stored result, which is JSON. */
export const run = <E, R>(key: string, content: string, act: (firstSeen: number) => Effect.Effect<unknown, E, R>) =>
  Effect.flatMap(Idempotency, ({ once }) => once({ key, content, remembered }, act))
