import * as PersistedQueue from "@effect/experimental/PersistedQueue"
import { assert, describe, it } from "@effect/vitest"
import { DurableQueue, type Workflow, WorkflowEngine } from "@effect/workflow"
import { Cause, ConfigProvider, Deferred, Effect, Exit, FiberId, Layer, type Redacted, Schedule } from "effect"
import { TestShift } from "../../src/testing/effect.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { races } from "./EffectRaces.js"
import { Held, Labels, Order, Part, partCode, Refused, type Scenario, type World } from "./EffectScenario.js"
import { scenarios as others } from "./EffectScenarios.js"

// What code of @effect/workflow may expect from every engine. The same scenarios run on Effect's own engine in memory, on
// ours in memory and on virtual time, and on ours on PostgreSQL; on ours, the process of those that wait ends meanwhile.

const scenarios: Readonly<Record<string, Scenario>> = { ...others, ...races }
const names = Object.keys(scenarios)
const named = (name: string) => scenarios[name] as Scenario
/** The scenarios whose execution waits, with nothing running, when the scenario acts: their process may restart. */
const suspended = names.filter((name) => named(name).act !== undefined && named(name).from === undefined)
const running = names.filter((name) => !suspended.includes(name))

const workflows = [Part, Order, Held]
const workflowOf = (name: string) => (named(name).workflow ?? Order) as typeof Order

type Worlds = ReadonlyMap<string, World>
const newWorlds = (): Worlds =>
  new Map(names.map((name) => [name, { log: [], gate: Deferred.unsafeMake(FiberId.none) }]))
const worldOf = (worlds: Worlds, name: string) => worlds.get(name) as World

/** The code of all scenarios. The payload names the scenario. */
const codeOf = (worlds: Worlds) => {
  const code = ({ id }: { readonly id: string }) => named(id).code(worldOf(worlds, id))
  return Layer.mergeAll(
    Part.toLayer(partCode as never),
    Order.toLayer(code as never),
    Held.toLayer(code as never),
    DurableQueue.worker(Labels, ({ id }) =>
      id === "broken" ? new Refused({ why: "no paper" }) : Effect.succeed(`label of ${id}`)
    )
  ).pipe(
    Layer.provideMerge(PersistedQueue.layer),
    Layer.provide(PersistedQueue.layerStoreMemory)
  ) as unknown as Layer.Layer<never, never, WorkflowEngine.WorkflowEngine>
}

const plain = (exit: Exit.Exit<unknown, unknown>) => {
  if (Exit.isSuccess(exit)) return exit.value
  if (Cause.isInterruptedOnly(exit.cause)) return "interrupted"
  const error = Cause.squash(exit.cause)
  if (error instanceof Refused) return { failed: error.why }
  return { died: error instanceof Error ? error.message : String(error) }
}

/** Waits until something is reached, which the passing of time may bring. */
type Reach = (isReached: Effect.Effect<boolean>) => Effect.Effect<unknown>

const stateOf = (name: string, id: string) =>
  Effect.map(workflowOf(name).poll(id), (result: Workflow.Result<unknown, unknown> | undefined) => result?._tag)

const isWaiting = (name: string, id: string, { log }: World) => {
  const { from } = named(name)
  return from === undefined
    ? Effect.map(stateOf(name, id), (state) => state !== undefined)
    : Effect.sync(() => log.includes(from))
}

/** Starts the execution from three callers at once, and waits until it waits or has ended. */
const begin = (name: string, world: World, reach: Reach) =>
  Effect.gen(function* () {
    const context = yield* Effect.context<WorkflowEngine.WorkflowEngine>()
    const start = workflowOf(name).execute({ id: name }, { discard: true })
    const ids = yield* Effect.all([start, start, start], { concurrency: "unbounded" })
    assert.strictEqual(new Set(ids).size, 1)
    const id = ids[0]
    if (named(name).act !== undefined) yield* reach(Effect.provide(isWaiting(name, id, world), context))
    return id
  })

/** Acts, waits for the end, and compares it. */
const finish = (name: string, world: World, reach: Reach) =>
  Effect.gen(function* () {
    const { act, ends, log } = named(name)
    const workflow = workflowOf(name)
    const context = yield* Effect.context<WorkflowEngine.WorkflowEngine>()
    const id = yield* workflow.executionId({ id: name })
    const isOver = Effect.map(stateOf(name, id), (state) => state === "Complete").pipe(Effect.provide(context))
    const ended = Effect.asVoid(reach(isOver))
    if (act !== undefined) yield* act({ ...world, id, until: (isReached) => Effect.asVoid(reach(isReached)), ended })
    yield* ended
    const result = yield* workflow.poll(id)
    assert.deepStrictEqual(result?._tag === "Complete" ? plain(result.exit) : result, ends, name)
    // A caller that comes later gets the same end, and runs nothing.
    const again = yield* Effect.exit(workflow.execute({ id: name }))
    assert.deepStrictEqual(plain(again), ends, name)
    assert.deepStrictEqual(world.log, [...log], name)
  })

const check = (name: string, world: World, reach: Reach) =>
  Effect.zipRight(begin(name, world, reach), finish(name, world, reach))

/** Waits in real time. */
const live: Reach = (isReached) =>
  Effect.repeat(isReached, { until: (reached) => reached, schedule: Schedule.spaced("10 millis") })

const all = <A, E, R>(given: ReadonlyArray<string>, each: (name: string) => Effect.Effect<A, E, R>) =>
  Effect.forEach(given, each, { concurrency: "unbounded", discard: true })

it.live("the scenarios hold on the engine of Effect", () => {
  const worlds = newWorlds()
  const kept = names.filter((name) => named(name).notOnEffect === undefined)
  const checks = all(kept, (name) => check(name, worldOf(worlds, name), live))
  return Effect.provide(checks, Layer.provideMerge(codeOf(worlds), WorkflowEngine.layerMemory))
})

describe("on PostgreSQL", () => {
  const settings = Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["QUEUE_POLL", "50ms"]])))

  /** A process on this database. */
  const processOn = (databaseUrl: Redacted.Redacted, worlds: Worlds) => {
    const { handlers, layer } = NightshiftWorkflow.make(workflows)
    const shift = Nightshift.layer({ handlers, queues: { default: { workers: 64 } }, databaseUrl })
    return codeOf(worlds).pipe(Layer.provideMerge(layer), Layer.provideMerge(shift), Layer.provide(settings))
  }

  it.scopedLive("the scenarios hold that never wait, or run when something happens to them", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* TestDatabase.migrated
      const worlds = newWorlds()
      const checks = all(running, (name) => check(name, worldOf(worlds, name), live))
      yield* Effect.provide(checks, processOn(databaseUrl, worlds))
    })
  )

  it.scopedLive("the scenarios that wait hold, although every process restarts meanwhile", () =>
    Effect.gen(function* () {
      const databaseUrl = yield* TestDatabase.migrated
      const worlds = newWorlds()
      const begun = all(suspended, (name) => begin(name, worldOf(worlds, name), live))
      yield* Effect.provide(begun, processOn(databaseUrl, worlds))
      const finished = all(suspended, (name) => finish(name, worldOf(worlds, name), live))
      yield* Effect.provide(finished, processOn(databaseUrl, worlds))
    })
  )
})

describe("in memory, on virtual time", () => {
  /** Runs a scenario in a pod. A pass of `reach` settles, and then lets a second pass. */
  const inMemory = (name: string, between: (shift: typeof TestShift.Service) => Effect.Effect<void>) => {
    const { handlers, layer } = NightshiftWorkflow.make(workflows)
    const worlds = newWorlds()
    const world = worldOf(worlds, name)
    const shift = TestShift.layer({ allowChanged: true, handlers })
    const engine = codeOf(worlds).pipe(Layer.provideMerge(layer), Layer.provideMerge(shift))
    const whole = Effect.gen(function* () {
      const test = yield* TestShift
      const reach: Reach = (isReached) =>
        Effect.gen(function* () {
          yield* test.settle
          for (let second = 0; !(yield* isReached); second += 1) {
            assert.isBelow(second, 100, `${name}: ${world.log.join(", ")}`)
            yield* test.advance("1 second")
          }
        })
      yield* begin(name, world, reach)
      yield* between(test)
      yield* finish(name, world, reach)
    })
    return Effect.provide(whole, engine)
  }

  it.live.each(running)("%s", (name) => inMemory(name, () => Effect.void))
  it.live.each(suspended)("%s, although its process is killed while it waits", (name) =>
    inMemory(name, ({ crashPod }) => crashPod)
  )
})
