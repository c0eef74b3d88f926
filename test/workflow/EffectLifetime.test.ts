import { assert, describe, it } from "@effect/vitest"
import { Workflow } from "@effect/workflow"
import { Effect, Exit, Layer, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import { counted, nap } from "./EffectOrder.js"

// New journals, schedules and pins of workflows of @effect/workflow, on virtual time.

const Billing = Workflow.make({
  name: "billing",
  payload: { id: Schema.String, round: Schema.NumberFromString },
  success: Schema.Number,
  idempotencyKey: ({ id }) => id
})

/** Bills four times, each time in a new journal. */
const onBilling = (log: Array<string>, test: Effect.Effect<void, unknown, never>) => {
  const engine = NightshiftWorkflow.make([Billing], { pin: true })
  const code = Billing.toLayer(({ id, round }) =>
    Effect.gen(function* () {
      yield* Billing.withCompensation(counted("bill", log), () => Effect.sync(() => void log.push(`undo ${round}`)))
      yield* nap("a day", "1 day")
      return round === 3 ? round : yield* NightshiftWorkflow.continueAs(Billing, { id, round: round + 1 })
    })
  )
  const hourly = engine.schedule(Billing, "hourly", {
    payload: { id: "ada", round: 3 },
    cron: "0 0 1 * *",
    paused: true
  })
  const layer = code.pipe(
    Layer.provideMerge(engine.layer),
    Layer.provideMerge(TestShift.layer({ handlers: engine.handlers, schedules: [hourly] }))
  )
  return Effect.provide(test as Effect.Effect<void, unknown, never>, layer as Layer.Layer<never>)
}

describe("workflows of @effect/workflow", () => {
  it.effect("continue with a new journal under the same id, and are pinned again", () => {
    const log: Array<string> = []
    return onBilling(
      log,
      Effect.gen(function* () {
        const workflows = yield* Workflows
        const shift = yield* TestShift
        const id = yield* Billing.execute({ id: "ada", round: 0 }, { discard: true })
        yield* shift.settle
        const first = yield* workflows.show(id)
        assert.deepStrictEqual([first.continued, first.pinned?.length], [0, 12])
        yield* shift.crashPod
        yield* shift.drain
        const last = yield* workflows.show(id)
        assert.deepStrictEqual([last.state, last.continued, last.payload], ["done", 3, { id: "ada", round: "3" }])
        assert.deepStrictEqual(last.pinned, first.pinned)
        assert.strictEqual(last.steps.length, 2)
        assert.deepStrictEqual(log, ["bill", "bill", "bill", "bill"])
        const result = yield* Billing.poll(id)
        assert.deepStrictEqual(result?._tag === "Complete" ? result.exit : undefined, Exit.succeed(3))
      }) as Effect.Effect<void>
    )
  })

  it.effect("undo only the steps of the last journal when they are cancelled", () => {
    const log: Array<string> = []
    return onBilling(
      log,
      Effect.gen(function* () {
        const workflows = yield* Workflows
        const shift = yield* TestShift
        const id = yield* Billing.execute({ id: "ada", round: 0 }, { discard: true })
        yield* shift.advance("25 hours")
        yield* workflows.cancel(id)
        yield* shift.drain
        assert.deepStrictEqual(log, ["bill", "bill", "undo 1"])
      }) as Effect.Effect<void>
    )
  })

  it.effect("are started by a schedule", () => {
    const log: Array<string> = []
    return onBilling(
      log,
      Effect.gen(function* () {
        const { trigger } = yield* Effect.promise(() => import("../../src/schedule/ScheduledJobs.js"))
        const workflows = yield* Workflows
        const shift = yield* TestShift
        const { lastJobId = "" } = yield* trigger("hourly")
        yield* shift.drain
        const shown = yield* workflows.show(lastJobId)
        assert.match(shown.execution, /^billing\/hourly\/triggered\//)
        assert.deepStrictEqual([shown.state, shown.result], ["done", 3])
      }) as unknown as Effect.Effect<void>
    )
  })
})
