import { Cause, Context, Effect, Exit, Option, type Tracer } from "effect"
import * as Outcome from "../../core/Outcome.js"
import * as Suspension from "../../core/Suspension.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import * as ExecutionTrace from "../../telemetry/tracing/ExecutionTrace.js"
import * as TraceParent from "../../telemetry/tracing/TraceParent.js"
import type { ExecutionEnd } from "../../telemetry/WorkflowTally.js"

const outcomeOf = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) {
    if (Suspension.isSuspension(exit.value)) return "suspended"
    return Outcome.isOutcome(exit.value) ? exit.value._tag.toLowerCase() : "done"
  }
  const thrown = Option.orElse(Cause.failureOption(exit.cause), () => Cause.dieOption(exit.cause))
  if (Option.isNone(thrown)) return "interrupted"
  return Outcome.isOutcome(thrown.value) ? thrown.value._tag.toLowerCase() : "failed"
}

/** Treats a returned failure outcome like a failed effect. */
const seenAs = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> =>
  Exit.isSuccess(exit) && Outcome.isOutcome(exit.value) && ["Retry", "Dead"].includes(exit.value._tag)
    ? Exit.fail(exit.value)
    : exit

const about = (span: Tracer.Span, job: ClaimedJob) => {
  span.attribute("messaging.system", "nightshift")
  span.attribute("messaging.destination.name", job.queue)
  span.attribute("messaging.message.id", job.id)
  span.attribute("nightshift.job.kind", job.kind)
  if (job.execution !== undefined) span.attribute("nightshift.execution.id", job.execution.id)
}

const sender = (job: ClaimedJob) => Option.toArray(TraceParent.ofMeta(job.meta)).map(ExecutionTrace.link)

/**
 * Traces a run as a span in the trace of the enqueue, so that one trace shows all attempts of a job. The span also
 * links to the enqueue span as the message it processes. A run of a workflow execution is a span of the execution's own
 * trace.
 */
export const around = <A, E, R>(
  tracer: Tracer.Tracer,
  job: ClaimedJob,
  attempt: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.clockWith((clock) => {
    const parent = job.execution === undefined ? TraceParent.ofMeta(job.meta) : Option.some(ExecutionTrace.ofJob(job))
    const begun = clock.unsafeCurrentTimeNanos()
    const span = tracer.span(`process ${job.queue}`, parent, Context.empty(), sender(job), begun, "consumer")
    about(span, job)
    span.attribute("messaging.operation.name", "process")
    span.attribute("messaging.operation.type", "process")
    span.attribute("nightshift.job.attempt", job.attempt)
    return attempt.pipe(
      Effect.withParentSpan(span),
      Effect.withTracer(tracer),
      Effect.onExit((exit) =>
        Effect.sync(() => {
          span.attribute("nightshift.job.outcome", outcomeOf(exit))
          span.end(clock.unsafeCurrentTimeNanos(), seenAs(exit))
        })
      )
    )
  })

/** Traces a whole execution, once its end is written. The span is the root of the execution's trace. */
export const ofExecution = (tracer: Tracer.Tracer, job: ClaimedJob, end: ExecutionEnd, now: number): void => {
  const root = Option.some(ExecutionTrace.ofJob(job))
  const context = Context.make(ExecutionTrace.IsRoot, true) as Context.Context<never>
  const span = tracer.span(`execute ${job.kind}`, root, context, sender(job), nanos(job.createdAt), "internal")
  about(span, job)
  span.attribute("nightshift.execution.outcome", end)
  span.end(nanos(now), end === "failed" ? Exit.fail(Outcome.dead("")) : Exit.void)
}

const nanos = (millis: number): bigint => BigInt(Math.round(millis)) * 1_000_000n
