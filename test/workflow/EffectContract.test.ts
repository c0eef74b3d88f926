import * as PersistedQueue from "@effect/experimental/PersistedQueue"
import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableClock, DurableDeferred, DurableQueue, Workflow, WorkflowEngine } from "@effect/workflow"
import { Cause, ConfigProvider, Effect, Exit, Layer, Schedule, Schema } from "effect"
import { TestShift } from "../../src/testing/effect.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import * as TestDatabase from "../support/TestDatabase.js"

// What code of @effect/workflow may expect from every engine. The same scenarios run on Effect's own engine in memory, on
// ours in memory and on virtual time, and on ours on PostgreSQL.

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

const Part = Workflow.make({
  name: "part",
  payload: { id: Schema.String },
  success: Schema.String,
  error: Refused,
  idempotencyKey: ({ id }) => id
})
const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  error: Refused,
  idempotencyKey: ({ id }) => id
})
const Held = Workflow.make({
  name: "held",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  error: Refused,
  idempotencyKey: ({ id }) => id
}).annotate(Workflow.SuspendOnFailure, true)
const Approval = DurableDeferred.make("approval", { success: Schema.String })
const Labels = DurableQueue.make({
  name: "labels",
  payload: { id: Schema.String },
  success: Schema.String,
  idempotencyKey: ({ id }) => id
})

const nap = (name: string) => DurableClock.sleep({ name, duration: "150 millis", inMemoryThreshold: "1 millis" })

// biome-ignore lint/suspicious/noExplicitAny: the requirements of workflow code vary
type Code = Effect.Effect<unknown, Refused, any>

interface Scenario {
  readonly workflow?: typeof Order | typeof Held
  readonly code: (log: Array<string>) => Code
  /** Done when the execution waits, or has ended. */
  readonly act?: (id: string, log: Array<string>) => Effect.Effect<void, never, WorkflowEngine.WorkflowEngine>
  readonly exit: Exit.Exit<unknown, Refused> | "interrupted"
  readonly log: ReadonlyArray<string>
  /** Effect's engine in memory loses a deferred that is completed while the execution is suspending. */
  readonly isLostByEffect?: boolean
}

const said = (log: Array<string>, name: string) =>
  Activity.make({ name, success: Schema.String, execute: Effect.sync(() => `${name} ${log.push(name)}`) })

const approve = (id: string) =>
  DurableDeferred.succeed(Approval, {
    token: DurableDeferred.tokenFromExecutionId(Approval, { workflow: Order, executionId: id }),
    value: "ada"
  })

const scenarios: Readonly<Record<string, Scenario>> = {
  "activities keep their results over a clock and a deferred": {
    code: (log) =>
      Effect.gen(function* () {
        const charged = yield* said(log, "charge")
        yield* nap("cool off")
        const by = yield* DurableDeferred.await(Approval)
        return [charged, by, yield* said(log, "ship")]
      }),
    act: approve,
    exit: Exit.succeed(["charge 1", "ada", "ship 2"]),
    log: ["charge", "ship"]
  },
  "an activity is retried and sees its attempt": {
    code: (log) =>
      Activity.make({
        name: "charge",
        success: Schema.Number,
        error: Refused,
        execute: Effect.flatMap(Activity.CurrentAttempt, (attempt) => {
          log.push(`try ${attempt}`)
          return attempt < 3 ? new Refused({ why: "busy" }) : Effect.succeed(attempt)
        })
      }).pipe(Activity.retry({ times: 5 })),
    exit: Exit.succeed(3),
    log: ["try 1", "try 2", "try 3"]
  },
  "a typed failure is the result, and compensates the last step first": {
    code: (log) =>
      Effect.gen(function* () {
        yield* Order.withCompensation(said(log, "reserve"), () => Effect.sync(() => void log.push("release")))
        yield* Order.withCompensation(said(log, "charge"), () => Effect.sync(() => void log.push("refund")))
        yield* nap("cool off")
        return yield* new Refused({ why: "no stock" })
      }),
    exit: Exit.fail(new Refused({ why: "no stock" })),
    log: ["reserve", "charge", "refund", "release"]
  },
  "an interruption ends an execution that waits, and compensates it": {
    code: (log) =>
      Effect.gen(function* () {
        yield* Order.withCompensation(said(log, "charge"), () => Effect.sync(() => void log.push("refund")))
        return yield* DurableDeferred.await(Approval)
      }),
    act: (id) => Order.interrupt(id),
    exit: "interrupted",
    log: ["charge", "refund"]
  },
  "an execution that suspends on failure goes on when it is resumed": {
    workflow: Held,
    code: (log) =>
      Effect.gen(function* () {
        yield* said(log, "charge")
        return log.includes("fixed") ? yield* said(log, "ship") : yield* new Refused({ why: "no stock" })
      }),
    act: (id, log) =>
      Effect.zipRight(
        Effect.sync(() => void log.push("fixed")),
        Held.resume(id)
      ),
    exit: Exit.succeed("ship 3"),
    log: ["charge", "fixed", "ship"]
  },
  "children run side by side, and their failure is that of the call": {
    code: () =>
      Effect.forEach(["a", "b", "broken"], (id) => Effect.either(Part.execute({ id })), {
        concurrency: "unbounded"
      }).pipe(Effect.map((parts) => parts.map((part) => (part._tag === "Right" ? part.right : part.left.why)))),
    exit: Exit.succeed(["part a", "part b", "in transit"]),
    log: []
  },
  "children run side by side inside an activity": {
    code: (log) =>
      Activity.make({
        name: "parts",
        success: Schema.Array(Schema.String),
        error: Refused,
        execute: Effect.forEach(["c", "d", "e"], (id) => Part.execute({ id }), { concurrency: "unbounded" }) as never
      }).pipe(Effect.zipLeft(said(log, "ship"))),
    exit: Exit.succeed(["part c", "part d", "part e"]),
    log: ["ship"]
  },
  "a deferred takes the result of an effect, once": {
    code: (log) => {
      const into = DurableDeferred.into(said(log, "sign"), Approval)
      return Effect.gen(function* () {
        const first = yield* into
        yield* nap("a while")
        return [first, yield* DurableDeferred.await(Approval)]
      })
    },
    exit: Exit.succeed(["sign 1", "sign 1"]),
    log: ["sign"]
  },
  "a race has one winner in every run": {
    code: (log) =>
      Effect.gen(function* () {
        const winner = yield* Activity.raceAll("race", [
          said(log, "fast"),
          Activity.make({ name: "slow", success: Schema.String, execute: Effect.never })
        ])
        yield* nap("a while")
        return winner
      }),
    exit: Exit.succeed("fast 1"),
    log: ["fast"]
  },
  "a durable queue passes work to a worker and its result back": {
    code: () => DurableQueue.process(Labels, { id: "p" }) as Code,
    exit: Exit.succeed("label of p"),
    log: [],
    isLostByEffect: true
  }
}

/** Waits until the execution waits or has ended; with `end`, until it has ended. */
type Reach = (poll: Effect.Effect<string>, end: boolean) => Effect.Effect<unknown>

/** The code of all scenarios. The payload names the scenario, and `logs` has a log for each. */
const codeOf = (logs: ReadonlyMap<string, Array<string>>) => {
  const code = ({ id }: { readonly id: string }) => (scenarios[id] as Scenario).code(logs.get(id) as Array<string>)
  return Layer.mergeAll(
    Part.toLayer(({ id }) =>
      Effect.zipRight(nap("make"), id === "broken" ? new Refused({ why: "in transit" }) : Effect.succeed(`part ${id}`))
    ),
    Order.toLayer(code as never),
    Held.toLayer(code as never),
    DurableQueue.worker(Labels, ({ id }) => Effect.succeed(`label of ${id}`))
  ).pipe(
    Layer.provideMerge(PersistedQueue.layer),
    Layer.provide(PersistedQueue.layerStoreMemory)
  ) as unknown as Layer.Layer<never, never, WorkflowEngine.WorkflowEngine>
}

/** The exit without the spans of its failure. */
const plain = (exit: Exit.Exit<unknown, unknown>) =>
  Exit.isSuccess(exit) ? exit.value : { failed: (Cause.squash(exit.cause) as Refused).why }

const check = (name: string, log: Array<string>, reach: Reach) =>
  Effect.gen(function* () {
    const scenario = scenarios[name] as Scenario
    const workflow = (scenario.workflow ?? Order) as typeof Order
    const context = yield* Effect.context<WorkflowEngine.WorkflowEngine>()
    const id = yield* workflow.execute({ id: name }, { discard: true })
    const poll = workflow.poll(id).pipe(
      Effect.map((result) => result?._tag ?? "running"),
      Effect.provide(context)
    )
    yield* reach(poll, scenario.act === undefined)
    if (scenario.act !== undefined) yield* scenario.act(id, log)
    yield* reach(poll, true)
    const result = yield* workflow.poll(id)
    const exit = result?._tag === "Complete" ? result.exit : undefined
    if (scenario.exit === "interrupted")
      assert.isTrue(exit !== undefined && Exit.isFailure(exit) && Cause.isInterrupted(exit.cause), name)
    else assert.deepStrictEqual(exit === undefined ? exit : plain(exit), plain(scenario.exit), name)
    assert.deepStrictEqual(log, [...scenario.log], name)
  })

const workflows = [Part, Order, Held]

/** Waits in real time. */
const reachLive: Reach = (poll, end) =>
  Effect.repeat(poll, {
    until: (state) => state === "Complete" || (!end && state === "Suspended"),
    schedule: Schedule.spaced("10 millis")
  })

/** All scenarios at once, in real time. */
const checkAll = (names: ReadonlyArray<string>, logs: ReadonlyMap<string, Array<string>>) =>
  Effect.forEach(names, (name) => check(name, logs.get(name) as Array<string>, reachLive), {
    concurrency: "unbounded",
    discard: true
  })

const names = Object.keys(scenarios)
const newLogs = () => new Map(names.map((name) => [name, [] as string[]]))

it.live("the scenarios hold on the engine of Effect", () => {
  const logs = newLogs()
  const kept = names.filter((name) => scenarios[name]?.isLostByEffect !== true)
  return Effect.provide(checkAll(kept, logs), Layer.provideMerge(codeOf(logs), WorkflowEngine.layerMemory))
})

it.scopedLive("the scenarios hold on PostgreSQL", () =>
  Effect.gen(function* () {
    const databaseUrl = yield* TestDatabase.migrated
    const { handlers, layer } = NightshiftWorkflow.make(workflows)
    const shift = Nightshift.layer({ handlers, queues: ["default"], databaseUrl })
    const settings = Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["QUEUE_POLL", "50ms"]])))
    const logs = newLogs()
    const engine = codeOf(logs).pipe(Layer.provideMerge(layer), Layer.provideMerge(shift), Layer.provide(settings))
    yield* Effect.provide(checkAll(names, logs), engine)
  })
)

describe("in memory, on virtual time", () => {
  it.live.each(names)("%s", (name) => {
    const { handlers, layer } = NightshiftWorkflow.make(workflows)
    const logs = newLogs()
    const shift = TestShift.layer({ allowChanged: true, handlers })
    const engine = codeOf(logs).pipe(Layer.provideMerge(layer), Layer.provideMerge(shift))
    const whole = Effect.flatMap(TestShift, (test) =>
      check(name, logs.get(name) as Array<string>, (_, end) => Effect.orDie(end ? test.drain : test.settle))
    )
    return Effect.provide(whole, engine)
  })
})
