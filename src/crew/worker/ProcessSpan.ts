import { Cause, Context, Effect, Exit, Option, type Tracer } from "effect"
import * as Outcome from "../../core/Outcome.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import * as TraceParent from "../../telemetry/tracing/TraceParent.js"

const outcomeOf = (exit: Exit.Exit<unknown, unknown>): string => {
  if (Exit.isSuccess(exit)) return Outcome.isOutcome(exit.value) ? exit.value._tag.toLowerCase() : "done"
  const thrown = Option.orElse(Cause.failureOption(exit.cause), () => Cause.dieOption(exit.cause))
  if (Option.isNone(thrown)) return "interrupted"
  return Outcome.isOutcome(thrown.value) ? thrown.value._tag.toLowerCase() : "failed"
}

/** Treats a returned failure outcome like a failed effect. */
const seenAs = (exit: Exit.Exit<unknown, unknown>): Exit.Exit<unknown, unknown> =>
  Exit.isSuccess(exit) && Outcome.isOutcome(exit.value) && ["Retry", "Dead"].includes(exit.value._tag)
    ? Exit.fail(exit.value)
    : exit

/**
 * Traces a run as a span in the trace of the enqueue, so that one trace shows all attempts of a job. The span also
 * links to the enqueue span as the message it processes.
 */
export const around = <A, E, R>(
  tracer: Tracer.Tracer,
  job: ClaimedJob,
  attempt: Effect.Effect<A, E, R>
): Effect.Effect<A, E, R> =>
  Effect.clockWith((clock) => {
    const sent = TraceParent.ofMeta(job.meta)
    const links = Option.toArray(sent).map((span): Tracer.SpanLink => ({ _tag: "SpanLink", span, attributes: {} }))
    const begun = clock.unsafeCurrentTimeNanos()
    const span = tracer.span(`process ${job.queue}`, sent, Context.empty(), links, begun, "consumer")
    span.attribute("messaging.system", "nightshift")
    span.attribute("messaging.destination.name", job.queue)
    span.attribute("messaging.operation.name", "process")
    span.attribute("messaging.operation.type", "process")
    span.attribute("messaging.message.id", job.id)
    span.attribute("nightshift.job.kind", job.kind)
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
