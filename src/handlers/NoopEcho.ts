import { Duration, Effect, Schema } from "effect"
import * as Outcome from "../core/Outcome.js"
import * as Job from "../queue/Job.js"
import * as Handler from "./Handler.js"

/** A job that does nothing but what it is told, for demonstrations and tests. */
export const NoopEcho = Job.make("noop_echo", {
  payload: Schema.Struct({
    /** How long it takes. */
    sleep_ms: Schema.optional(Schema.NonNegativeInt),
    /** The error it fails with. */
    fail: Schema.optional(Schema.String),
    /** How long it asks its queue to pause. */
    throttle_ms: Schema.optional(Schema.NonNegativeInt),
    /** What it returns. */
    message: Schema.optional(Schema.Unknown)
  })
})

export const handler: Handler.Handler<never> = Handler.make(NoopEcho, ({ fail, message, sleep_ms, throttle_ms }) =>
  Effect.gen(function* () {
    if (sleep_ms !== undefined) yield* Effect.sleep(Duration.millis(sleep_ms))
    if (throttle_ms !== undefined) return Outcome.throttled({ after: Duration.millis(throttle_ms) })
    if (fail !== undefined) return Outcome.retry(fail)
    return message
  })
)
