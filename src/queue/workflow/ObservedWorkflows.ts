import { Context, Effect, Exit, Option, Predicate, Tracer } from "effect"
import { Tally } from "../../telemetry/Tally.js"
import { Tracing } from "../../telemetry/tracing/Tracing.js"
import type { WorkflowTally } from "../../telemetry/WorkflowTally.js"
import type { HeldJob } from "../Queue.js"
import { afterCommit } from "../Transactions.js"
import type { NewStep, StepKind } from "./Execution.js"
import { ofError } from "./Streams.js"
import type { Recorded, Workflows } from "./Workflows.js"

// Counts and traces the recorded steps and signals of executions, for both layers of Workflows.

type Service = typeof Workflows.Service

/** A wait can be older than the run that records its end, so its span belongs to the execution, not to a run. */
const isWait = (kind: StepKind) => kind === "sleep" || kind === "signal" || kind === "message" || kind === "children"

const outermost = (span: Tracer.AnySpan): Tracer.AnySpan =>
  span._tag === "Span" && Option.isSome(span.parent) ? outermost(span.parent.value) : span

/** The name of a stored error. Never its message. */
const errorType = (exit: unknown): string =>
  ofError(exit, (error) => {
    if (Predicate.hasProperty(error, "_tag") && typeof error._tag === "string") return error._tag
    return Predicate.hasProperty(error, "name") && typeof error.name === "string" ? error.name : undefined
  }) ?? "Error"

const trace = (
  tracer: Tracer.Tracer,
  parent: Option.Option<Tracer.AnySpan>,
  step: NewStep,
  { exit, outcome }: Recorded,
  ended: bigint,
  millis: number
) => {
  const above = isWait(step.kind) ? Option.map(parent, outermost) : parent
  const begun = ended - BigInt(Math.max(0, Math.round(millis - step.startedAt))) * 1_000_000n
  const span = tracer.span(`step ${step.name}`, above, Context.empty(), [], begun, "internal")
  span.attribute("nightshift.step.name", step.name)
  span.attribute("nightshift.step.kind", step.kind)
  span.attribute("nightshift.step.attempt", step.attempt)
  span.attribute("nightshift.step.outcome", outcome)
  span.end(ended, outcome === "done" ? Exit.void : Exit.fail({ _tag: errorType(exit) }))
}

const counting =
  (tally: WorkflowTally, record: Service["record"]): Service["record"] =>
  (run: HeldJob, step: NewStep) =>
    Effect.tap(record(run, step), ({ outcome, repeated }) =>
      repeated ? Effect.void : afterCommit(() => tally.recorded(step.kind, outcome))
    )

const tracing = (tracer: Tracer.Tracer | undefined, record: Service["record"]): Service["record"] => {
  if (tracer === undefined) return record
  return (run, step) =>
    Effect.gen(function* () {
      const recorded = yield* record(run, step)
      if (recorded.repeated) return recorded
      const clock = yield* Effect.clock
      const parent = yield* Effect.serviceOption(Tracer.ParentSpan)
      const ended = clock.unsafeCurrentTimeNanos()
      const millis = clock.unsafeCurrentTimeMillis()
      yield* afterCommit(() => trace(tracer, parent, step, recorded, ended, millis))
      return recorded
    })
}

/** A span needs its parent, which only a fiber knows. */
const soon = (
  tracer: Tracer.Tracer | undefined,
  tally: WorkflowTally,
  record: Service["recordSoon"]
): Service["recordSoon"] => {
  if (tracer !== undefined || record === undefined) return undefined
  return (run, step, answer) =>
    record(run, step, (exit) => {
      if (Exit.isSuccess(exit) && !exit.value.repeated) tally.recorded(step.kind, exit.value.outcome)
      answer(exit)
    })
}

/** Adds counters, and spans if the process traces. */
export const observed = (workflows: Service): Effect.Effect<Service> =>
  Effect.gen(function* () {
    const { workflows: tally } = yield* Tally
    const tracer = yield* Tracing
    return {
      ...workflows,
      record: tracing(tracer, counting(tally, workflows.record)),
      recordSoon: soon(tracer, tally, workflows.recordSoon),
      signal: (signal) =>
        Effect.tap(workflows.signal(signal), (outcome) =>
          afterCommit(() => tally.signalled(outcome === "repeated" ? outcome : "delivered"))
        )
    }
  })
