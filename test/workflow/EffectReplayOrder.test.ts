import { assert, describe, it } from "@effect/vitest"
import { Activity } from "@effect/workflow"
import { Effect, Schema } from "effect"
import { advance, drain, nap, Order, on, Refused, show, start } from "./EffectOrder.js"

// A replay gives results to the code in the order in which it got them, and waits for fibers that await something of their own.

const turn = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** What a fiber awaits of its own in later runs. */
const own = (runs: number) => (runs === 1 ? Effect.void : Effect.repeatN(turn, 20))

/** An activity of a second, which may fail. */
const slow = (name: string, log: Array<string>, end: Effect.Effect<string, Refused> = Effect.succeed(name)) =>
  Activity.make({
    name,
    success: Schema.String,
    error: Refused,
    execute: Effect.sleep("1 second").pipe(
      Effect.zipRight(Effect.sync(() => void log.push(name))),
      Effect.zipRight(end)
    )
  })

describe("a fiber that awaits something of its own before its activity, which is recorded", () => {
  const order = (log: Array<string>, own: Effect.Effect<void>, end: Effect.Effect<unknown, Refused, never>) => {
    const undoable = (name: string, wait: Effect.Effect<void> = Effect.void) =>
      slow(name, log).pipe(
        Order.withCompensation(() =>
          Effect.zipRight(
            wait,
            Effect.sync(() => void log.push(`undo ${name}`))
          )
        )
      )
    return Effect.all(
      [
        Effect.zipRight(own, undoable("a")),
        Effect.zipRight(undoable("b", nap("before the undo") as Effect.Effect<void>), end)
      ],
      { concurrency: "unbounded" }
    )
  }
  const undone = ["undo b", "undo a"]

  it.effect("is undone after an undo that waits", () => {
    const log: Array<string> = []
    let runs = 0
    return on(
      () => {
        runs += 1
        return order(log, own(runs), slow("c", log, new Refused({ why: "c" })) as never)
      },
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual([runs > 1, log], [true, ["a", "b", "c", ...undone]])
        assert.strictEqual((yield* show(id)).state, "failed")
      })
    )
  })

  it.effect("is undone when the execution is cancelled", () => {
    const log: Array<string> = []
    let runs = 0
    return on(
      () => {
        runs += 1
        return order(log, own(runs), nap("night") as never)
      },
      Effect.gen(function* () {
        const id = yield* start()
        yield* advance("1 minute")
        yield* Order.interrupt(id)
        yield* drain
        assert.deepStrictEqual([runs > 1, log], [true, ["a", "b", ...undone]])
        assert.strictEqual((yield* show(id)).state, "cancelled")
      })
    )
  })
})

/** The same through other fibers: its result needs time to arrive. */
const nested = <R>(effect: Effect.Effect<string, never, R>): Effect.Effect<string, never, R> =>
  Array.from({ length: 8 }).reduce<Effect.Effect<string, never, R>>(
    (inner) => Effect.map(Effect.all([inner, Effect.void], { concurrency: "unbounded" }), ([result]) => result),
    effect
  )

it.effect("two activities that both ended have the same winner in a replay", () => {
  const gates = { a: Effect.unsafeMakeLatch(), b: Effect.unsafeMakeLatch() }
  const winners: Array<string> = []
  const gated = (name: "a" | "b") =>
    Activity.make({ name, success: Schema.String, execute: Effect.as(gates[name].await, name) })
  let runs = 0
  return on(
    () =>
      Effect.gen(function* () {
        runs += 1
        // Begins later than the other: it cannot contain that.
        const later = Effect.zipRight(runs === 1 ? Effect.sleep("1 second") : Effect.void, gated("a"))
        const earlier = nested(Effect.zipRight(own(runs), gated("b")))
        winners.push(yield* Effect.raceFirst(later, earlier))
        yield* nap("a while")
      }),
    Effect.gen(function* () {
      const id = yield* start()
      yield* advance("1 minute")
      yield* Effect.zipRight(gates.b.open, gates.a.open)
      yield* drain
      const { steps } = yield* show(id)
      assert.deepStrictEqual(
        steps.slice(0, 2).map(({ name, outcome }) => [name, outcome]),
        [
          ["b", "done"],
          ["a", "done"]
        ]
      )
      assert.deepStrictEqual(winners, ["b", "b"])
    })
  )
})

it.effect("four hundred results at a time do not make a fiber that waits for them count as changed", () => {
  let runs = 0
  const one = (_: unknown, place: number) =>
    Activity.make({ name: `one ${place}`, success: Schema.Number, execute: Effect.succeed(place) })
  return on(
    () => {
      runs += 1
      const many = Effect.all(Array.from({ length: 400 }, one), { concurrency: "unbounded" })
      const last = Activity.make({ name: "last", success: Schema.Number, execute: Effect.succeed(1) })
      return Effect.all([Effect.zipRight(Effect.zipRight(many, last), nap("after")), nap("beside")], {
        concurrency: "unbounded"
      })
    },
    Effect.gen(function* () {
      const id = yield* start()
      yield* drain
      assert.deepStrictEqual([runs > 1, (yield* show(id)).state], [true, "done"])
    })
  )
})
