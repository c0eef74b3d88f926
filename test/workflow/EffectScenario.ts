import { Activity, DurableClock, DurableDeferred, DurableQueue, Workflow, type WorkflowEngine } from "@effect/workflow"
import { type Deferred, Effect, Schema } from "effect"

// What the scenarios of EffectContract.test.ts share: the workflows, their waits, and the form of a scenario.

export class Refused extends Schema.TaggedError<Refused>()("Refused", { why: Schema.String }) {}

const settings = {
  payload: { id: Schema.String },
  success: Schema.Unknown,
  error: Refused,
  idempotencyKey: ({ id }: { readonly id: string }) => id
}

export const Order = Workflow.make({ name: "order", ...settings })
/** Waits instead of failing. */
export const Held = Workflow.make({ name: "held", ...settings }).annotate(Workflow.SuspendOnFailure, true)
/** A child. If its id starts with "signed", it waits for the approval. */
export const Part = Workflow.make({ name: "part", ...settings, success: Schema.String })

export const Approval = DurableDeferred.make("approval", { success: Schema.String })
export const Second = DurableDeferred.make("second", { success: Schema.String })
export const Verdict = DurableDeferred.make("verdict", { success: Schema.String, error: Refused })

export const Labels = DurableQueue.make({
  name: "labels",
  payload: { id: Schema.String },
  success: Schema.String,
  error: Refused,
  idempotencyKey: ({ id }) => id
})

/** What a scenario's code writes and reads outside the engine. */
export interface World {
  readonly log: Array<string>
  /** Opened by the scenario. */
  readonly gate: Deferred.Deferred<void>
}

/** What a scenario does while its execution waits or runs. */
export interface Acting extends World {
  readonly id: string
  /** Waits until this is true. */
  readonly until: (isReached: Effect.Effect<boolean>) => Effect.Effect<void>
  /** Waits for the end of the execution. */
  readonly ended: Effect.Effect<void>
}

// biome-ignore lint/suspicious/noExplicitAny: the requirements of workflow code vary
export type Code = Effect.Effect<unknown, Refused, any>

export interface Scenario {
  readonly workflow?: typeof Order | typeof Held
  readonly code: (world: World) => Code
  /** Done when the execution waits, or when `from` is in the log. */
  readonly act?: (acting: Acting) => Effect.Effect<void, never, WorkflowEngine.WorkflowEngine>
  readonly from?: string
  /** How the execution ends: its value, `failed` or `died` with the reason, or `interrupted`. */
  readonly ends: unknown
  readonly log: ReadonlyArray<string>
  /** Why Effect's engine in memory does not pass. */
  readonly notOnEffect?: string
}

export type Scenarios = Readonly<Record<string, Scenario>>

/** Says something once. */
export const say = (log: Array<string>, text: string) => Effect.sync(() => void log.push(text))

/** An activity that counts what was said. */
export const said = (log: Array<string>, name: string) =>
  Activity.make({ name, success: Schema.String, execute: Effect.sync(() => `${name} ${log.push(name)}`) })

export const nap = (name: string, duration: "150 millis" | "1 hour" | "2 hours" = "150 millis") =>
  DurableClock.sleep({ name, duration, inMemoryThreshold: "1 millis" })

/** Completes a deferred of an execution from outside. */
export const complete = (deferred: typeof Approval, id: string, value: string, workflow: Workflow.Any = Order) =>
  DurableDeferred.succeed(deferred, {
    token: DurableDeferred.tokenFromExecutionId(deferred, { workflow, executionId: id }),
    value
  })

/** Says that the approval comes, and sends it. */
export const approve = ({ id, log }: Acting) => Effect.zipRight(say(log, "approved"), complete(Approval, id, "ada"))

export const partCode = ({ id }: { readonly id: string }) =>
  Effect.gen(function* () {
    if (id.startsWith("signed")) return `part ${id} for ${yield* DurableDeferred.await(Approval)}`
    yield* nap("make")
    return id === "broken" ? yield* new Refused({ why: "in transit" }) : `part ${id}`
  })
