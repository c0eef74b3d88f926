import { assert, describe, it } from "@effect/vitest"
import { Activity, DurableClock, Workflow } from "@effect/workflow"
import { Effect, Layer, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { TestShift } from "../../src/testing/index.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"

const Part = Workflow.make({
  name: "part",
  payload: { id: Schema.String },
  success: Schema.String,
  idempotencyKey: ({ id }) => id
})
const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  idempotencyKey: ({ id }) => id
})

describe("children", () => {
  it.effect("started side by side inside an activity finish, and so does the activity", () => {
    const engine = NightshiftWorkflow.make([Part, Order])
    const code = Layer.mergeAll(
      Part.toLayer(({ id }) => Effect.as(DurableClock.sleep({ name: "make", duration: "1 hour" }), `part ${id}`)),
      Order.toLayer(() =>
        Activity.make({
          name: "parts",
          success: Schema.Array(Schema.String),
          execute: Effect.forEach(["a", "b", "c"], (id) => Part.execute({ id }), { concurrency: "unbounded" })
        })
      )
    )
    const layer = code.pipe(
      Layer.provideMerge(engine.layer),
      Layer.provideMerge(TestShift.layer({ handlers: engine.handlers }))
    )
    return Effect.gen(function* () {
      const id = yield* Order.execute({ id: "A" }, { discard: true })
      yield* (yield* TestShift).drain
      const { lastError, result, status } = yield* (yield* Workflows).show(id)
      assert.deepStrictEqual([status, lastError, result], ["done", undefined, ["part a", "part b", "part c"]])
    }).pipe(Effect.provide(layer as never)) as Effect.Effect<void>
  })
})
