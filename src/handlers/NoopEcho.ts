import { Duration, Effect, Schema } from "effect"
import * as Outcome from "../core/Outcome.js"
import * as Job from "../queue/Job.js"
import * as Handler from "./Handler.js"

/** A job that does nothing but what it is told, for demonstrations and tests. */
export const NoopEcho = Job.make("noop_echo", {
  payload: Schema.Struct({
    /** How long it takes. */
    sleep_ms: Schema.optional(Schema.NonNegativeInt),
    /** The error it fails with, or whether it fails. */
    fail: Schema.optional(Schema.Union(Schema.String, Schema.Boolean)),
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
    if (fail !== undefined && fail !== false) return Outcome.retry(fail === true ? "told to fail" : fail)
    return message
  })
)
