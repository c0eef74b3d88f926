import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableClock, DurableDeferred, Workflow } from "@effect/workflow"
import { Effect, Layer, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"

// Executions of @effect/workflow whose code changes while they wait, on virtual time.

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  error: Refused,
  idempotencyKey: ({ id }) => id
})
const Approval = DurableDeferred.make("approval", { success: Schema.String })

// biome-ignore lint/suspicious/noExplicitAny: the requirements of workflow code vary
type Code = Effect.Effect<unknown, Refused, any>

/** Runs a test with code that it can replace. */
const on = <A, E>(
  first: Code,
  test: (deploy: (code: Code) => void) => Effect.Effect<A, E, TestShift | Workflows | never>
) => {
  let current = first
  const engine = NightshiftWorkflow.make([Order])
  const layer = Order.toLayer((() => Effect.suspend(() => current)) as never).pipe(
    Layer.provideMerge(engine.layer),
    Layer.provideMerge(TestShift.layer({ allowChanged: true, handlers: engine.handlers }))
  )
  const whole = test((code) => {
    current = code
  })
  return Effect.provide(whole as Effect.Effect<A, E>, layer as unknown as Layer.Layer<never>)
}

const start = Order.execute({ id: "A" }, { discard: true }) as Effect.Effect<string>
const drain = Effect.flatMap(TestShift, ({ drain }) => drain)
const settle = Effect.flatMap(TestShift, ({ settle }) => settle)
const advance = (by: "1 hour" | "10 minutes") => Effect.flatMap(TestShift, ({ advance }) => advance(by))
const show = (id: string) => Effect.flatMap(Workflows, (workflows) => workflows.show(id))
const counted = (name: string, log: Array<string>) =>
  Activity.make({ name, success: Schema.String, execute: Effect.sync(() => `${name} ${log.push(name)}`) })
const failing = (name: string) => Activity.make({ name, error: Refused, execute: new Refused({ why: name }) })
const nap = (name: string) => DurableClock.sleep({ name, duration: "1 hour" })

describe("changed code", () => {
  it.effect("suspends the execution with the reason changed, names the step, and loses nothing", () => {
    const log: Array<string> = []
    const old = counted("charge", log).pipe(Effect.zipLeft(nap("cool off")), Effect.zip(counted("ship", log)))
    const renamed = counted("pay", log).pipe(Effect.zipLeft(nap("cool off")), Effect.zip(counted("ship", log)))
    return on(old, (deploy) =>
      Effect.gen(function* () {
        const id = yield* start
        yield* settle
        deploy(renamed)
        yield* advance("1 hour")
        const { lastError, state, waits } = yield* show(id)
        const named = waits.map(({ kind, name }) => `${kind} ${name}`)
        assert.deepStrictEqual([state, named], ["changed", ["sleep DurableClock/cool off", "changed charge"]])
        assert.include(lastError, 'step "charge" is recorded, but its code does "pay" instead')
        deploy(old)
        yield* advance("10 minutes")
        const done = yield* show(id)
        assert.deepStrictEqual([done.state, done.result, log], ["done", ["charge 1", "ship 2"], ["charge", "ship"]])
      })
    )
  })

  it.effect("is noticed when the code ends without a recorded step, or waits instead", () => {
    const log: Array<string> = []
    return on(counted("charge", log).pipe(Effect.zipLeft(nap("cool off"))), (deploy) =>
      Effect.gen(function* () {
        const id = yield* start
        yield* settle
        deploy(Effect.succeed("nothing to do"))
        yield* advance("1 hour")
        assert.include((yield* show(id)).lastError, 'step "charge" is recorded, but its code ended without it')
        deploy(new Refused({ why: "never" }))
        yield* advance("10 minutes")
        assert.strictEqual((yield* show(id)).state, "changed")
        deploy(DurableDeferred.await(Approval))
        yield* advance("10 minutes")
        assert.include((yield* show(id)).lastError, 'its code does "approval" instead')
        deploy(nap("nap"))
        yield* advance("10 minutes")
        assert.include((yield* show(id)).lastError, 'its code does "DurableClock/nap" instead')
      })
    )
  })

  it.effect("is noticed when a name has another kind", () => {
    const log: Array<string> = []
    return on(counted("approval", log).pipe(Effect.zipLeft(nap("cool off"))), (deploy) =>
      Effect.gen(function* () {
        const id = yield* start
        yield* settle
        deploy(DurableDeferred.await(Approval))
        yield* advance("1 hour")
        assert.include((yield* show(id)).lastError, 'step "approval (run)" is recorded')
      })
    )
  })

  it.effect("does not cancel an execution whose compensations it does not know", () => {
    const log: Array<string> = []
    const old = Order.withCompensation(counted("charge", log), () => Effect.sync(() => void log.push("refund"))).pipe(
      Effect.zipRight(nap("cool off"))
    )
    return on(old as Code, (deploy) =>
      Effect.gen(function* () {
        const id = yield* start
        yield* settle
        deploy(counted("pay", log))
        yield* Order.interrupt(id) as Effect.Effect<void>
        yield* settle
        assert.deepStrictEqual([(yield* show(id)).state, log], ["changed", ["charge"]])
        deploy(old as Code)
        yield* advance("10 minutes")
        assert.deepStrictEqual([(yield* show(id)).state, log], ["cancelled", ["charge", "refund"]])
      })
    )
  })
})

describe("code that differs from what the execution waits for", () => {
  const steps: Record<string, (log: Array<string>) => Code> = {
    "does something new first": (log) => Effect.zipRight(counted("report tax", log), nap("cool off")),
    "waits for something else": () => DurableDeferred.await(Approval),
    ends: () => Effect.void
  }
  for (const [name, next] of Object.entries(steps)) {
    it.effect(`is changed, however often it is tried: ${name}`, () => {
      const log: Array<string> = []
      const charge = counted("charge", log)
      const before = Effect.zipRight(charge, nap("cool off"))
      return on(before, (deploy) =>
        Effect.gen(function* () {
          const id = yield* start
          yield* settle
          deploy(Effect.zipRight(charge, next(log)))
          yield* advance("1 hour")
          for (let turn = 0; turn < 2; turn += 1) {
            const { lastError, state } = yield* show(id)
            assert.deepStrictEqual([state, log], ["changed", ["charge"]])
            assert.include(lastError, 'it waits for "DurableClock/cool off", but its code')
            yield* advance("10 minutes")
          }
          deploy(before)
          yield* advance("10 minutes")
          assert.strictEqual((yield* show(id)).state, "done")
        })
      )
    })
  }
})

describe("code that has not changed", () => {
  const cases: Record<string, (log: Array<string>) => Code> = {
    "a race of activities": (log) => Effect.race(counted("a", log), counted("b", log)),
    "a race of many": (log) =>
      Activity.raceAll("race", [counted("a", log), counted("b", log)]).pipe(Effect.zipLeft(counted("c", log))),
    "activities side by side": (log) =>
      Effect.all([counted("a", log), counted("b", log).pipe(Effect.zipRight(counted("c", log)))], { concurrency: 2 }),
    "a failure beside an activity": (log) =>
      Effect.all([failing("x"), counted("a", log)], { concurrency: 2 }).pipe(Effect.either),
    "a failure that is tried again": (log) =>
      failing("x").pipe(Effect.retry({ times: 2 }), Effect.either, Effect.zipRight(counted("a", log))),
    "waits side by side": (log) =>
      Effect.all(
        [
          Effect.zipRight(nap("left"), counted("a", log)),
          Effect.zipRight(DurableDeferred.await(Approval), counted("b", log)),
          nap("right").pipe(Effect.zipRight(nap("right again")), Effect.zipRight(counted("c", log)))
        ],
        { concurrency: "unbounded" }
      ),
    "a race of waits": (log) =>
      Effect.race(nap("slow"), DurableDeferred.await(Approval)).pipe(Effect.zipRight(counted("a", log))),
    "a race of a wait and an activity": (log) => Effect.race(DurableDeferred.await(Approval), counted("a", log)),
    "a wait inside an activity": (log) =>
      Activity.make({
        name: "outer",
        success: Schema.String,
        execute: DurableDeferred.await(Approval) as Effect.Effect<string>
      }).pipe(Effect.zipLeft(counted("a", log)))
  }
  for (const [name, make] of Object.entries(cases)) {
    it.effect(`is not taken for changed: ${name}`, () => {
      const log: Array<string> = []
      const code = make(log).pipe(
        Effect.zipRight(nap("one")),
        Effect.zipRight(counted("z", log)),
        Effect.zipLeft(nap("two"))
      )
      return on(code, () =>
        Effect.gen(function* () {
          const id = yield* start
          yield* settle
          yield* Effect.flatMap(Workflows, (workflows) =>
            workflows.signal({ execution: id, name: "approval", value: "yes" })
          )
          yield* drain
          const { lastError, state } = yield* show(id)
          assert.deepStrictEqual([state, lastError], ["done", undefined])
          assert.deepStrictEqual(new Set(log).size, log.length)
        })
      )
    })
  }
})
