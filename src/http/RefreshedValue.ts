import { Clock, Duration, Effect } from "effect"

/** A value, and when its query started, in epoch milliseconds. */
export interface Taken<A> {
  readonly value: A
  readonly at: number
}

/** Default maximum age of a value. */
const longest = Duration.minutes(1)

/** A value is kept for this multiple of its query time, so queries take at most a twentieth of the time. */
export const timesCost = 20

/** If the query fails, the previous value is returned up to this age, in milliseconds. */
const staleLimit = Duration.toMillis("5 minutes")

/** Shares the result of an expensive query between all callers and refreshes it at most once per `least`. */
export const make = <A, E, R>(
  look: Effect.Effect<A, E, R>,
  least: Duration.DurationInput,
  most: Duration.DurationInput = longest
): Effect.Effect<Effect.Effect<Taken<A>, E, R>> =>
  Effect.map(Effect.makeSemaphore(1), (turn) => {
    let taken: Taken<A> | undefined
    let again = 0
    const found = (now: number) => (taken !== undefined && now < again ? taken : undefined)

    const take = Effect.gen(function* () {
      const at = yield* Clock.currentTimeMillis
      const known = found(at)
      if (known !== undefined) return known
      const value = yield* look
      const cost = (yield* Clock.currentTimeMillis) - at
      taken = { value, at }
      again = at + Math.min(Duration.toMillis(most), Math.max(Duration.toMillis(least), cost * timesCost))
      return taken
    })

    /** Concurrent callers wait for the running query and share its result. */
    const read = Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const known = found(now)
      return known === undefined ? turn.withPermits(1)(take) : Effect.succeed(known)
    })

    return Effect.catchAll(read, (error) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        taken !== undefined && now - taken.at < staleLimit ? Effect.succeed(taken) : Effect.fail(error)
      )
    )
  })
