import { assert, it } from "@effect/vitest"
import { Activity, DurableClock, DurableDeferred, Workflow } from "@effect/workflow"
import { ConfigProvider, Effect, Either, Layer, Schedule, Schema } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Workflows of @effect/workflow on PostgreSQL.

class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

const Ship = Workflow.make({
  name: "ship",
  payload: { item: Schema.String },
  success: Schema.String,
  error: Refused,
  idempotencyKey: ({ item }) => item
})
const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String, items: Schema.Array(Schema.String) },
  success: Schema.Array(Schema.String),
  error: Refused,
  idempotencyKey: ({ id }) => id,
  suspendedRetrySchedule: Schedule.spaced("20 millis")
})
const Approval = DurableDeferred.make("approval", { success: Schema.String })

const log: Array<string> = []
const done = (name: string) => Activity.make({ name, execute: Effect.sync(() => void log.push(name)) })

const ShipLive = Ship.toLayer(({ item }) =>
  Effect.zipRight(
    DurableClock.sleep({ name: "transport", duration: "200 millis" }),
    item === "broken" ? new Refused({ why: "broken in transit" }) : Effect.succeed(`parcel of ${item}`)
  )
)
const OrderLive = Order.toLayer(({ id, items }) =>
  Effect.gen(function* () {
    yield* Order.withCompensation(done(`charge ${id}`), () => Effect.sync(() => void log.push(`refund ${id}`)))
    const by = yield* DurableDeferred.await(Approval)
    const parcels = yield* Effect.forEach(items, (item) => Ship.execute({ item }), { concurrency: "unbounded" })
    return [by, ...parcels]
  })
)

it.scopedLive("orders wait for an approval and for their children; a failed one is compensated once", () =>
  Effect.gen(function* () {
    const databaseUrl = yield* TestDatabase.migrated
    const engine = NightshiftWorkflow.make([Order, Ship])
    const layer = Layer.merge(OrderLive, ShipLive).pipe(
      Layer.provideMerge(engine.layer),
      Layer.provideMerge(Nightshift.layer({ handlers: engine.handlers, queues: ["default"], databaseUrl }))
    )
    yield* Effect.gen(function* () {
      const orders = [
        { id: "A", items: ["book", "pen"] },
        { id: "B", items: ["pen", "broken"] }
      ]
      const approve = (order: (typeof orders)[number]) =>
        Effect.flatMap(DurableDeferred.tokenFromPayload(Approval, { workflow: Order, payload: order }), (token) =>
          DurableDeferred.succeed(Approval, { token, value: "ada" })
        )
      // One approval comes before the start, the other one after it.
      yield* Effect.forEach(orders.slice(0, 1), approve)
      yield* Effect.forEach(orders, (order) => Order.execute(order, { discard: true }))
      yield* Effect.forEach(orders.slice(1), approve)
      const results = yield* Effect.forEach(orders, (order) => Effect.either(Order.execute(order)), { concurrency: 2 })
      assert.deepStrictEqual(results, [
        Either.right(["ada", "parcel of book", "parcel of pen"]),
        Either.left(new Refused({ why: "broken in transit" }))
      ])
      assert.deepStrictEqual(log.sort(), ["charge A", "charge B", "refund B"])
      const workflows = yield* Workflows
      const failed = yield* workflows.show(yield* Order.executionId(orders[1] as (typeof orders)[number]))
      assert.strictEqual(failed.state, "failed")
      assert.include(failed.lastError, "broken in transit")
    }).pipe(
      Effect.provide(layer),
      Effect.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["QUEUE_POLL", "100ms"]]))))
    )
  })
)
