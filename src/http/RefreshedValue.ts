import { Clock, Duration, Effect } from "effect"

/** What was found, and when somebody began to look; epoch milliseconds. */
export interface Taken<A> {
  readonly value: A
  readonly at: number
}

/** What took long to find is good for this long at most. */
const longest = Duration.minutes(1)

/** What was found is worth so many times what it cost: looking never takes more than a twentieth of the time. */
export const timesCost = 20

/** Where looking fails, what was found before is still worth having, for so long. */
const useful = Duration.toMillis("5 minutes")

/** A look at the database that costs something, taken once for everybody who asks and not before it is `least` old. */
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

    /** Who comes while others look waits for them, and finds what they found. */
    const read = Effect.flatMap(Clock.currentTimeMillis, (now) => {
      const known = found(now)
      return known === undefined ? turn.withPermits(1)(take) : Effect.succeed(known)
    })

    return Effect.catchAll(read, (error) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) =>
        taken !== undefined && now - taken.at < useful ? Effect.succeed(taken) : Effect.fail(error)
      )
    )
  })
