import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableDeferred } from "@effect/workflow"
import { Cause, Deferred, Effect, Exit, Layer, Option, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import {
  Approval,
  advance,
  approve,
  counted,
  crash,
  drain,
  exitOf,
  type Inside,
  nap,
  Order,
  on,
  Refused,
  Ship,
  type ShipCode,
  settle,
  show,
  start
} from "./EffectOrder.js"

describe("an execution", () => {
  it.effect("runs, suspends, resumes and keeps the results of its activities", () => {
    const log: Array<string> = []
    const code = () =>
      Effect.gen(function* () {
        const first = yield* counted("charge", log)
        yield* nap("cool off")
        return [first, yield* DurableDeferred.await(Approval)]
      })
    return on(
      code,
      Effect.gen(function* () {
        const id = yield* start()
        assert.strictEqual(yield* start(), id)
        yield* settle
        assert.deepStrictEqual([(yield* Order.poll(id))?._tag, (yield* show(id)).state], ["Suspended", "sleeping"])
        yield* advance("1 hour")
        assert.strictEqual((yield* show(id)).state, "waiting")
        yield* approve(id, "yes")
        yield* approve(id, "no")
        yield* settle
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed(["charge 1", "yes"]))
        assert.deepStrictEqual(log, ["charge"])
        assert.deepStrictEqual(
          (yield* show(id)).steps.map(({ kind, name }) => `${kind} ${name}`),
          ["run charge", "sleep DurableClock/cool off", "signal approval"]
        )
        assert.isUndefined(yield* Order.poll("never started"))
      })
    )
  })

  it.effect("sets its tags once, and invalid ones are an error of the code", () =>
    on(
      () =>
        Effect.gen(function* () {
          yield* NightshiftWorkflow.tag({ customer: "42" })
          const refused = yield* Effect.flip(NightshiftWorkflow.tag({ customer: "" }, { name: "wrong" }))
          yield* nap("cool off")
          return refused.message
        }).pipe(Effect.orDieWith(String)),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.deepStrictEqual((yield* show(id)).tags, { customer: "42" })
        const { tag } = yield* Workflows
        yield* tag(id, { customer: null })
        yield* drain
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed('The tag "customer" must not be empty.'))
        assert.deepStrictEqual((yield* show(id)).tags, {})
      })
    )
  )

  it.effect("accepts a plain value for a deferred, as the API sends it", () =>
    on(
      () => DurableDeferred.await(Approval),
      Effect.gen(function* () {
        const id = yield* start()
        yield* Effect.flatMap(Workflows, (service) =>
          service.signal({ execution: id, name: "approval", value: "plain" })
        )
        yield* drain
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed("plain"))
      })
    )
  )

  it.effect("fails with its typed error, and a defect is a defect", () =>
    on(
      ({ id }) => (id === "A" ? new Refused({ why: "no stock" }) : Effect.dieMessage("broken")),
      Effect.gen(function* () {
        const failed = yield* start("A")
        const died = yield* start("B")
        yield* drain
        assert.deepStrictEqual(yield* exitOf(failed), Exit.fail(new Refused({ why: "no stock" })))
        const exit = yield* exitOf(died)
        assert.isTrue(exit !== undefined && Exit.isFailure(exit) && Option.isSome(Cause.dieOption(exit.cause)))
        assert.strictEqual((yield* show(died)).lastError, "broken")
        assert.strictEqual((yield* Effect.flip(Order.execute({ id: "A" }))).why, "no stock")
      })
    )
  )

  it.effect("continues after a crash during a sleep", () => {
    const log: Array<string> = []
    return on(
      () => counted("charge", log).pipe(Effect.zipLeft(nap("night"))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* crash
        yield* drain
        assert.deepStrictEqual([yield* exitOf(id), log], [Exit.succeed("charge 1"), ["charge"]])
      })
    )
  })
})

describe("the code of a workflow", () => {
  it.effect("may be removed and registered again while an execution runs: it is suspended and continues", () => {
    const log: Array<string> = []
    let hangs = true
    const slow = Activity.make({ name: "slow", execute: Effect.suspend(() => (hangs ? Effect.never : Effect.void)) })
    const code = () =>
      Order.withCompensation(counted("charge", log), () => Effect.sync(() => void log.push("refund"))).pipe(
        Effect.zipLeft(slow)
      )
    const engine = NightshiftWorkflow.make([Order])
    const register = Layer.build(Order.toLayer(code))
    return Effect.gen(function* () {
      const id = yield* start()
      yield* Effect.scoped(Effect.zipRight(register, settle))
      yield* settle
      assert.deepStrictEqual([log, (yield* show(id)).steps.map(({ name }) => name)], [["charge"], ["charge"]])
      hangs = false
      yield* register
      yield* drain
      assert.deepStrictEqual([yield* exitOf(id), log], [Exit.succeed("charge 1"), ["charge"]])
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.provideMerge(engine.layer, TestShift.layer({ handlers: engine.handlers })))
    )
  })
})

describe("concurrent steps", () => {
  const race = (effects: readonly [Effect.Effect<string, never, Inside>, Effect.Effect<string, never, Inside>]) =>
    DurableDeferred.raceAll({ name: "race", success: Schema.String, error: Schema.Never, effects })

  it.effect("trap 1: a deferred completed while an activity runs is not lost", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const slow = Activity.make({ name: "slow", execute: Deferred.await(gate) })
      yield* on(
        () => Effect.all([DurableDeferred.await(Approval), slow], { concurrency: 2 }),
        Effect.gen(function* () {
          const id = yield* start()
          yield* settle
          yield* approve(id, "yes")
          yield* Deferred.succeed(gate, undefined)
          yield* settle
          assert.deepStrictEqual(yield* exitOf(id), Exit.succeed(["yes", null]))
        })
      )
    })
  )

  it.effect("trap 3: an activity beside a sleep is neither interrupted nor recorded as failed", () =>
    Effect.gen(function* () {
      const gate = yield* Deferred.make<void>()
      const slow = Activity.make({ name: "slow", execute: Deferred.await(gate) })
      yield* on(
        () => Effect.all([nap("nap"), slow], { concurrency: 2 }),
        Effect.gen(function* () {
          const id = yield* start()
          yield* settle
          yield* Deferred.succeed(gate, undefined)
          yield* drain
          const { state, steps } = yield* show(id)
          assert.deepStrictEqual(
            [state, steps.map(({ name, outcome }) => `${name} ${outcome}`)],
            ["done", ["slow done", "DurableClock/nap done"]]
          )
        })
      )
    })
  )

  it.effect("a clock wins a race against an activity that hangs, and a replay keeps the winner", () => {
    const hangs = Activity.make({ name: "hangs", success: Schema.String, execute: Effect.never })
    const late = Effect.as(nap("patience", "30 seconds"), "too late")
    return on(
      () => race([hangs, late]).pipe(Effect.zipLeft(nap("after"))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed("too late"))
      })
    )
  })

  it.effect("a deferred wins a race against a clock", () =>
    on(
      () => race([DurableDeferred.await(Approval), Effect.as(nap("patience", "1 day"), "too late")]),
      Effect.gen(function* () {
        const id = yield* start()
        yield* advance("1 hour")
        yield* approve(id, "in time")
        yield* settle
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed("in time"))
      })
    )
  )
})

describe("retries and sleeps", () => {
  const third = (log: Array<string>) =>
    Activity.make({
      name: "flaky",
      success: Schema.Number,
      error: Refused,
      execute: Effect.suspend(() => (log.push("try") < 3 ? new Refused({ why: "busy" }) : Effect.succeed(log.length)))
    })

  it.effect("trap 6: Effect.retry around an activity retries it", () => {
    const log: Array<string> = []
    return on(
      () => third(log).pipe(Effect.retry({ times: 5 }), Effect.zipLeft(nap("nap"))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual([yield* exitOf(id), log.length], [Exit.succeed(3), 3])
        assert.deepStrictEqual(
          (yield* show(id)).steps.map(({ attempt }) => attempt),
          [1, 2, 3, 1]
        )
      })
    )
  })

  it.effect("trap 6: delays between attempts are durable", () => {
    const log: Array<string> = []
    return on(
      () => NightshiftWorkflow.retry(third(log), { attempts: 6, delay: "1 hour" }),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.strictEqual((yield* show(id)).state, "sleeping")
        yield* crash
        yield* drain
        assert.deepStrictEqual([yield* exitOf(id), log.length], [Exit.succeed(3), 3])
      })
    )
  })

  it.effect("trap 8: a sleep under Effect's threshold of a minute takes no slot", () =>
    on(
      () => nap("short", "30 seconds"),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.strictEqual((yield* show(id)).state, "sleeping")
        yield* drain
        assert.strictEqual((yield* show(id)).state, "done")
      })
    )
  )
})

describe("children", () => {
  const slowShip: ShipCode = ({ item }) =>
    Effect.zipRight(
      nap("transport"),
      item === "broken" ? new Refused({ why: item }) : Effect.succeed(`parcel of ${item}`)
    )

  it.effect("trap 4: a child of two parents wakes both, and passes on its result or error", () =>
    on(
      ({ id }) =>
        Effect.all([Ship.execute({ item: "book" }), Effect.flip(Ship.execute({ item: "broken" }))]).pipe(
          Effect.map(([parcel, error]) => [id, parcel, error instanceof Refused ? error.why : ""]),
          Effect.orDie
        ),
      Effect.gen(function* () {
        const [a, b] = [yield* start("A"), yield* start("B")]
        yield* drain
        assert.deepStrictEqual(
          [yield* exitOf(a), yield* exitOf(b)],
          [Exit.succeed(["A", "parcel of book", "broken"]), Exit.succeed(["B", "parcel of book", "broken"])]
        )
      }),
      slowShip
    )
  )

  it.effect("trap 10: a discarded child is not interrupted with its parent, an awaited one is", () =>
    on(
      () => Ship.execute({ item: "gift" }, { discard: true }).pipe(Effect.zipRight(Ship.execute({ item: "book" }))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* Order.interrupt(id)
        yield* drain
        const executions = [yield* Ship.executionId({ item: "gift" }), yield* Ship.executionId({ item: "book" }), id]
        const states = yield* Effect.forEach(executions, (each) => Effect.map(show(each), ({ state }) => state))
        assert.deepStrictEqual(states, ["done", "cancelled", "cancelled"])
        // It knows who started it, although that one does not wait for it.
        assert.deepStrictEqual((yield* show(executions[0] as string)).parents, [id])
      }),
      slowShip
    )
  )
})
