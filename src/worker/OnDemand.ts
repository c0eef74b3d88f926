import { Clock, Duration, Effect, Fiber, Scope } from "effect"
import { isConnectionLost } from "../core/Loop.js"

export interface OnDemandOptions {
  readonly name: string
  /** Does the work and stores the result itself. On failure the previous result must stay. */
  readonly work: Effect.Effect<void, unknown>
  /** How long a result counts as fresh. */
  readonly freshFor: Duration.DurationInput
  /** Minimum delay after a failure. */
  readonly restAfterFailure: Duration.DurationInput
  /** Maximum time that a caller waits. After that it gets the previous result while the work continues. */
  readonly timeout: Duration.DurationInput
}

export interface OnDemand {
  /** Does the work unless the result is fresh. Concurrent callers share one run. */
  readonly refresh: Effect.Effect<void>
  /** Milliseconds since the last success; undefined before the first one. */
  readonly age: Effect.Effect<number | undefined>
}

/** Expensive work that runs only on request and at a limited rate. */
export const make = (options: OnDemandOptions): Effect.Effect<OnDemand, never, Scope.Scope> =>
  Effect.gen(function* () {
    const scope = yield* Scope.Scope
    let doneAt: number | undefined
    let notBefore = Number.NEGATIVE_INFINITY
    let working: Fiber.Fiber<void> | undefined

    const rest = (duration: Duration.DurationInput) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        notBefore = now + Duration.toMillis(duration)
        return now
      })

    const work = options.work.pipe(
      Effect.zipRight(rest(options.freshFor)),
      Effect.andThen((now) => {
        doneAt = now
      }),
      Effect.catchAllCause((cause) =>
        Effect.zipRight(
          rest(options.restAfterFailure),
          (isConnectionLost(cause) ? Effect.logDebug : Effect.logWarning)(
            `could not refresh ${options.name}, keeping the previous value`,
            cause
          )
        )
      ),
      Effect.ensuring(
        Effect.sync(() => {
          working = undefined
        })
      )
    )

    return {
      refresh: Effect.gen(function* () {
        if (working === undefined) {
          if ((yield* Clock.currentTimeMillis) < notBefore) return
          working = yield* Effect.forkIn(work, scope)
        }
        yield* Effect.timeoutOption(Fiber.await(working), options.timeout)
      }),
      age: Effect.map(Clock.currentTimeMillis, (now) => (doneAt === undefined ? undefined : now - doneAt))
    }
  })
