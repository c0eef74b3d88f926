import { Duration, Effect, Schema } from "effect"
import * as Outcome from "../core/Outcome.js"
import * as Job from "../queue/Job.js"
import * as Handler from "./Handler.js"

/** A kind for demos and tests: sleeps, fails, throttles or returns a message as its payload says. */
export const NoopEcho = Job.make("noop_echo", {
  payload: Schema.Struct({
    sleep_ms: Schema.optional(Schema.NonNegativeInt),
    /** The error message, or true for a default one. */
    fail: Schema.optional(Schema.Union(Schema.String, Schema.Boolean)),
    /** How long the throttled queue pauses. */
    throttle_ms: Schema.optional(Schema.NonNegativeInt),
    /** The job's result. */
    message: Schema.optional(Schema.Unknown)
  })
})

export const handler: Handler.Handler<never> = Handler.make(NoopEcho, ({ fail, message, sleep_ms, throttle_ms }) =>
  Effect.gen(function* () {
    if (sleep_ms !== undefined) yield* Effect.sleep(Duration.millis(sleep_ms))
    if (throttle_ms !== undefined) return Outcome.throttled({ after: Duration.millis(throttle_ms) })
    if (fail !== undefined && fail !== false)
      return Outcome.retry(fail === true ? "failed because the payload sets fail" : fail)
    return message
  })
)
