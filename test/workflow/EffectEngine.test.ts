import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableClock, DurableDeferred, Workflow } from "@effect/workflow"
import type { WorkflowEngine, WorkflowInstance } from "@effect/workflow/WorkflowEngine"
import { Cause, Deferred, Effect, Exit, Layer, Option, Schema, type Scope } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { type TestServices, TestShift } from "../../src/testing/index.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"

// Workflows of @effect/workflow on virtual time. In idea from the tests of Effect's own engines.

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  error: Refused,
  idempotencyKey: ({ id }) => id
})
const Ship = Workflow.make({
  name: "ship",
  payload: { item: Schema.String },
  success: Schema.String,
  error: Refused,
  idempotencyKey: ({ item }) => item
})
const Approval = DurableDeferred.make("approval", { success: Schema.String })

type Inside = WorkflowEngine | WorkflowInstance | Scope.Scope | Workflow.Execution<"order">
type OrderCode = (payload: { readonly id: string }, executionId: string) => Effect.Effect<unknown, Refused, Inside>
type ShipCode = (payload: { readonly item: string }) => Effect.Effect<string, Refused, Inside>

const shipAtOnce: ShipCode = ({ item }) => Effect.succeed(`parcel of ${item}`)

/** Runs a test on a pod that has the code. */
const on = <A, E>(
  order: OrderCode,
  test: Effect.Effect<A, E, TestServices | WorkflowEngine>,
  ship: ShipCode = shipAtOnce
) => {
  const engine = NightshiftWorkflow.make([Order, Ship])
  const code = Layer.merge(Order.toLayer(order as never), Ship.toLayer(ship as never))
  const layer = code.pipe(
    Layer.provideMerge(engine.layer),
    Layer.provideMerge(TestShift.layer({ handlers: engine.handlers }))
  ) as Layer.Layer<TestServices | WorkflowEngine>
  return Effect.provide(test, layer)
}

const start = (id = "A") => Order.execute({ id }, { discard: true })
const shift = <A, E, R>(use: (shift: typeof TestShift.Service) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(TestShift, use)
const settle = shift(({ settle }) => settle)
const drain = shift(({ drain }) => drain)
const crash = shift(({ crashPod }) => crashPod)
const advance = (duration: "1 minute" | "1 hour") => shift(({ advance }) => advance(duration))

const show = (execution: string) => Effect.flatMap(Workflows, (workflows) => workflows.show(execution))
const exitOf = (execution: string) =>
  Effect.map(Order.poll(execution), (result) => (result?._tag === "Complete" ? result.exit : undefined))
const approve = (execution: string, value: string) =>
  DurableDeferred.succeed(Approval, {
    token: DurableDeferred.tokenFromExecutionId(Approval, { workflow: Order, executionId: execution }),
    value
  })

/** An activity that counts its runs. */
const counted = (name: string, log: Array<string>) =>
  Activity.make({ name, success: Schema.String, execute: Effect.sync(() => `${name} ${log.push(name)}`) })
const failing = (name: string, log: Array<string>) =>
  Activity.make({
    name,
    error: Refused,
    execute: Effect.suspend(() => new Refused({ why: `${name} ${log.push(name)}` }))
  })
const nap = (name: string, duration: "30 seconds" | "1 hour" | "1 day" = "1 hour") =>
  DurableClock.sleep({ name, duration })

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
        assert.deepStrictEqual([(yield* Order.poll(id))?._tag, (yield* show(id)).status], ["Suspended", "sleeping"])
        yield* advance("1 hour")
        assert.strictEqual((yield* show(id)).status, "waiting")
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

  it.effect("takes a plain value for a deferred, from a door that does not know Effect", () =>
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

  it.effect("goes on after a crash during a sleep", () => {
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
  it.effect("may be removed and registered again while an execution runs: it is suspended and goes on", () => {
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

describe("compensation", () => {
  const compensated = (log: Array<string>, name: string) =>
    Order.withCompensation(counted(name, log), () => Effect.sync(() => void log.push(`undo ${name}`)))

  it.effect("runs in reverse order when the workflow fails", () => {
    const log: Array<string> = []
    return on(
      () =>
        compensated(log, "reserve").pipe(
          Effect.zipRight(compensated(log, "charge")),
          Effect.zipRight(nap("cool off")),
          Effect.zipRight(failing("ship", log))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual(log, ["reserve", "charge", "ship", "undo charge", "undo reserve"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.fail(new Refused({ why: "ship 3" })))
        yield* Effect.flatMap(Workflows, (service) => service.retry(id))
        yield* drain
        assert.deepStrictEqual(log.slice(5), ["reserve", "charge", "ship", "undo charge", "undo reserve"])
      })
    )
  })

  it.effect("runs when an execution is interrupted while it is asleep, over a restart", () => {
    const log: Array<string> = []
    return on(
      () => compensated(log, "charge").pipe(Effect.zipRight(nap("night")), Effect.zipRight(counted("ship", log))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        yield* crash
        yield* Order.interrupt(id)
        yield* Order.interrupt(id)
        yield* drain
        const exit = yield* exitOf(id)
        assert.isTrue(exit !== undefined && Exit.isInterrupted(exit))
        assert.deepStrictEqual([log, (yield* show(id)).status], [["charge", "undo charge"], "cancelled"])
      })
    )
  })

  it.effect("trap 2: does not run because a pod stops", () => {
    const log: Array<string> = []
    return on(
      () => compensated(log, "charge").pipe(Effect.zipRight(Activity.make({ name: "hangs", execute: Effect.never }))),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        const shift = yield* TestShift
        yield* Effect.fork(shift.stopPod)
        yield* advance("1 minute")
        assert.deepStrictEqual([log, (yield* show(id)).steps.map(({ name }) => name)], [["charge"], ["charge"]])
      })
    )
  })

  it.effect("trap 7: may wait, and goes on where it was", () => {
    const log: Array<string> = []
    const refund = Effect.gen(function* () {
      yield* counted("ask bank", log)
      yield* nap("bank hour")
      log.push(`refund ${yield* DurableDeferred.await(Approval)}`)
    })
    return on(
      () =>
        compensated(log, "reserve").pipe(
          Effect.zipRight(Order.withCompensation(counted("charge", log), () => refund as Effect.Effect<void>)),
          Effect.zipRight(failing("ship", log))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.deepStrictEqual(log, ["reserve", "charge", "ship", "ask bank"])
        yield* crash
        yield* advance("1 hour")
        yield* approve(id, "ok")
        yield* drain
        assert.deepStrictEqual(log.slice(4), ["refund ok", "undo reserve"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.fail(new Refused({ why: "ship 3" })))
      })
    )
  })
})

describe("a retry of a failed execution", () => {
  const retry = (id: string) => Effect.flatMap(Workflows, (service) => service.retry(id))
  const unlessBroken = (name: string, log: Array<string>, isBroken: () => boolean) =>
    Activity.make({
      name,
      success: Schema.String,
      error: Refused,
      execute: Effect.suspend(() => {
        log.push(name)
        return isBroken() ? new Refused({ why: `${name} broke` }) : Effect.succeed(name)
      })
    })

  it.effect("runs failed and compensated activities again, and keeps those between them", () => {
    const log: Array<string> = []
    let isBroken = true
    return on(
      () =>
        Order.withCompensation(counted("charge", log), () => Effect.sync(() => void log.push("refund"))).pipe(
          Effect.zipRight(counted("price", log)),
          Effect.zipRight(unlessBroken("card", log, () => isBroken).pipe(Effect.retry({ times: 1 }), Effect.either)),
          Effect.zipRight(nap("cool off")),
          Effect.zipRight(unlessBroken("ship", log, () => isBroken)),
          Effect.zipLeft(nap("after"))
        ),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.deepStrictEqual(log, ["charge", "price", "card", "card", "ship", "refund"])
        yield* retry(id)
        yield* drain
        assert.deepStrictEqual(log.slice(6), ["charge", "card", "card", "ship", "refund"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.fail(new Refused({ why: "ship broke" })))
        isBroken = false
        yield* retry(id)
        yield* drain
        assert.deepStrictEqual(log.slice(11), ["charge", "card", "ship"])
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed("ship"))
      })
    )
  })

  it.effect("retries the child that failed, and keeps the others", () => {
    const log: Array<string> = []
    let isBroken = true
    return on(
      () => Effect.forEach(["a", "b", "c"], (item) => Ship.execute({ item }), { concurrency: "unbounded" }),
      Effect.gen(function* () {
        const id = yield* start()
        yield* drain
        assert.include((yield* show(id)).lastError, "send b broke")
        isBroken = false
        yield* retry(id)
        yield* drain
        assert.deepStrictEqual(yield* exitOf(id), Exit.succeed(["parcel of a", "parcel of b", "parcel of c"]))
        assert.deepStrictEqual(log.filter((name) => name === "label b").length, 1)
        assert.deepStrictEqual(log.filter((name) => name === "send a").length, 1)
      }),
      ({ item }) =>
        counted(`label ${item}`, log).pipe(
          Effect.zipRight(unlessBroken(`send ${item}`, log, () => isBroken && item === "b")),
          Effect.as(`parcel of ${item}`)
        )
    )
  })
})

describe("side by side", () => {
  const race = (effects: readonly [Effect.Effect<string, never, Inside>, Effect.Effect<string, never, Inside>]) =>
    DurableDeferred.raceAll({ name: "race", success: Schema.String, error: Schema.Never, effects })

  it.effect("trap 1: a deferred completed while an activity runs is not forgotten", () =>
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
          const { status, steps } = yield* show(id)
          assert.deepStrictEqual(
            [status, steps.map(({ name, outcome }) => `${name} ${outcome}`)],
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

  it.effect("trap 6: Effect.retry around an activity tries again", () => {
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
      () => NightshiftWorkflow.retry(third(log), { times: 5, delay: "1 hour" }),
      Effect.gen(function* () {
        const id = yield* start()
        yield* settle
        assert.strictEqual((yield* show(id)).status, "sleeping")
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
        assert.strictEqual((yield* show(id)).status, "sleeping")
        yield* drain
        assert.strictEqual((yield* show(id)).status, "done")
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

  it.effect("trap 4: a child of two parents wakes both, and hands on its result or error", () =>
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
        const statuses = yield* Effect.forEach(executions, (each) => Effect.map(show(each), ({ status }) => status))
        assert.deepStrictEqual(statuses, ["done", "cancelled", "cancelled"])
      }),
      slowShip
    )
  )
})
