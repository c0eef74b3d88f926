import { Clock, Duration, Effect, Fiber, Scope } from "effect"

export interface OnDemandOptions {
  readonly name: string
  /** Does the work. Whatever it learns, it keeps; when it fails, what was known before stays. */
  readonly work: Effect.Effect<void, unknown>
  /** How long what was learned is good enough. */
  readonly freshFor: Duration.DurationInput
  /** How long to leave things alone after a failure. */
  readonly restAfterFailure: Duration.DurationInput
  /** The longest that somebody waits; after that they get what was known before, and the work goes on. */
  readonly patience: Duration.DurationInput
}

export interface OnDemand {
  /** Does the work unless it was done a moment ago: once, however many ask. */
  readonly refresh: Effect.Effect<void>
  /** How long ago it was last done, in milliseconds; absent before the first time. */
  readonly age: Effect.Effect<number | undefined>
}

/** Work that costs something, done only while somebody wants its result, and not too often. */
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
          Effect.logWarning(`${options.name}: not known, keeping what was`, cause)
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
        yield* Effect.timeoutOption(Fiber.await(working), options.patience)
      }),
      age: Effect.map(Clock.currentTimeMillis, (now) => (doneAt === undefined ? undefined : now - doneAt))
    }
  })
