import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableClock, Workflow } from "@effect/workflow"
import { Effect, Layer, Option, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"

// Activities whose result the code no longer waits for, on virtual time.

const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  idempotencyKey: ({ id }) => id
})

// biome-ignore lint/suspicious/noExplicitAny: the requirements of workflow code vary
type Code = Effect.Effect<unknown, never, any>

/** Runs the code as a workflow until it ends. Returns its end. */
const ended = (code: Code, options: { readonly allowChanged?: boolean } = {}) => {
  const engine = NightshiftWorkflow.make([Order])
  const layer = Order.toLayer((() => code) as never).pipe(
    Layer.provideMerge(engine.layer),
    Layer.provideMerge(TestShift.layer({ ...options, handlers: engine.handlers }))
  )
  const whole = Effect.gen(function* () {
    const id = (yield* Order.execute({ id: "A" }, { discard: true })) as string
    const { advance, settle } = yield* TestShift
    yield* settle
    for (const by of ["1 second", "1 minute", "1 hour", "1 minute", "1 hour", "1 minute"] as const) yield* advance(by)
    const { lastError, result, state } = yield* Effect.flatMap(Workflows, (workflows) => workflows.show(id))
    return { lastError, result, state }
  })
  return Effect.provide(
    whole as Effect.Effect<Effect.Effect.Success<typeof whole>, unknown>,
    layer as unknown as Layer.Layer<never>
  )
}

const slow = (log: Array<string>) =>
  Activity.make({
    name: "slow",
    success: Schema.String,
    execute: Effect.sync(() => void log.push("slow")).pipe(
      Effect.zipRight(Effect.sleep("30 seconds")),
      Effect.as("paid")
    )
  })

const other = (log: Array<string>, name: string) =>
  Activity.make({ name, success: Schema.String, execute: Effect.sync(() => `${name} ${log.push(name)}`) })

const nap = (name: string) => DurableClock.sleep({ name, duration: "1 hour" })

describe("an activity with a timeout around it", () => {
  it.effect("takes the same path in every run after it timed out", () => {
    const log: Array<string> = []
    const code = slow(log).pipe(
      Effect.timeoutOption("1 second"),
      Effect.flatMap((paid) => other(log, Option.isSome(paid) ? "ship" : "report")),
      Effect.zipLeft(nap("one")),
      Effect.zip(other(log, "close")),
      Effect.zipLeft(nap("two"))
    )
    return Effect.gen(function* () {
      const { lastError, result, state } = yield* ended(code)
      assert.deepStrictEqual([state, lastError], ["done", undefined])
      assert.deepStrictEqual(
        [result, log],
        [
          ["report 2", "close 3"],
          ["slow", "report", "close"]
        ]
      )
    })
  })

  it.effect("is another attempt if the code tries it again, in every run", () => {
    const log: Array<string> = []
    const slowOnce = Activity.make({
      name: "slow",
      success: Schema.String,
      execute: Effect.suspend(() => Effect.as(Effect.sleep(log.push("slow") === 1 ? "30 seconds" : 0), "paid"))
    })
    const code = slowOnce.pipe(
      Effect.timeout("1 second"),
      Effect.retry({ times: 2 }),
      Effect.orDie,
      Effect.zipLeft(nap("one")),
      Effect.zip(other(log, "close")),
      Effect.zipLeft(nap("two"))
    )
    return Effect.gen(function* () {
      const { lastError, result, state } = yield* ended(code)
      assert.deepStrictEqual([state, lastError], ["done", undefined])
      assert.deepStrictEqual(
        [result, log],
        [
          ["paid", "close 3"],
          ["slow", "slow", "close"]
        ]
      )
    })
  })

  it.effect("is changed code if a later run no longer has the timeout", () => {
    const log: Array<string> = []
    let runs = 0
    const code = Effect.suspend(() => {
      runs += 1
      return runs === 1 ? Effect.asVoid(Effect.timeoutOption(slow(log), "1 second")) : Effect.asVoid(slow(log))
    }).pipe(Effect.zipRight(nap("one")))
    return Effect.gen(function* () {
      const { lastError, state } = yield* ended(code, { allowChanged: true })
      assert.strictEqual(state, "changed")
      assert.include(
        lastError,
        'step "slow (interrupted)" is recorded, but its code does "slow (not interrupted)" instead'
      )
    })
  })

  it.effect("gives its result if it is in time", () => {
    const log: Array<string> = []
    const code = slow(log).pipe(
      Effect.timeoutOption("1 minute"),
      Effect.flatMap((paid) => other(log, Option.isSome(paid) ? "ship" : "report")),
      Effect.zipLeft(nap("one")),
      Effect.zip(other(log, "close"))
    )
    return Effect.gen(function* () {
      const { result, state } = yield* ended(code)
      assert.deepStrictEqual([state, result], ["done", ["ship 2", "close 3"]])
    })
  })
})
