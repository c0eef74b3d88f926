import { Activity, DurableClock, DurableDeferred, Workflow } from "@effect/workflow"
import type { WorkflowEngine, WorkflowInstance } from "@effect/workflow/WorkflowEngine"
import { Effect, Layer, Schema, type Scope } from "effect"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { type TestServices, TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"

// Fixtures for workflows of @effect/workflow on virtual time. The tests follow those of Effect's own engines.

export class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

export const Order = Workflow.make({
  name: "order",
  payload: { id: Schema.String },
  success: Schema.Unknown,
  error: Refused,
  idempotencyKey: ({ id }) => id
})
export const Ship = Workflow.make({
  name: "ship",
  payload: { item: Schema.String },
  success: Schema.String,
  error: Refused,
  idempotencyKey: ({ item }) => item
})
export const Approval = DurableDeferred.make("approval", { success: Schema.String })

export type Inside = WorkflowEngine | WorkflowInstance | Scope.Scope | Workflow.Execution<"order"> | Workflows
export type OrderCode = (
  payload: { readonly id: string },
  executionId: string
) => Effect.Effect<unknown, Refused, Inside>
export type ShipCode = (payload: { readonly item: string }) => Effect.Effect<string, Refused, Inside>

export const shipAtOnce: ShipCode = ({ item }) => Effect.succeed(`parcel of ${item}`)

/** Runs a test on a pod that has the code. */
export const on = <A, E>(
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

export const start = (id = "A") => Order.execute({ id }, { discard: true })
export const shift = <A, E, R>(use: (shift: typeof TestShift.Service) => Effect.Effect<A, E, R>) =>
  Effect.flatMap(TestShift, use)
export const settle = shift(({ settle }) => settle)
export const drain = shift(({ drain }) => drain)
export const crash = shift(({ crashPod }) => crashPod)
export const advance = (duration: "1 minute" | "1 hour") => shift(({ advance }) => advance(duration))

export const show = (execution: string) => Effect.flatMap(Workflows, (workflows) => workflows.show(execution))
export const exitOf = (execution: string) =>
  Effect.map(Order.poll(execution), (result) => (result?._tag === "Complete" ? result.exit : undefined))
export const approve = (execution: string, value: string) =>
  DurableDeferred.succeed(Approval, {
    token: DurableDeferred.tokenFromExecutionId(Approval, { workflow: Order, executionId: execution }),
    value
  })

/** An activity that counts its runs. */
export const counted = (name: string, log: Array<string>) =>
  Activity.make({ name, success: Schema.String, execute: Effect.sync(() => `${name} ${log.push(name)}`) })
export const failing = (name: string, log: Array<string>) =>
  Activity.make({
    name,
    error: Refused,
    execute: Effect.suspend(() => new Refused({ why: `${name} ${log.push(name)}` }))
  })
export const nap = (name: string, duration: "30 seconds" | "1 hour" | "1 day" = "1 hour") =>
  DurableClock.sleep({ name, duration })
