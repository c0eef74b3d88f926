import { Context, Effect, Exit, type Option, Tracer } from "effect"
import { limits } from "../../core/StoredJob.js"
import * as ExecutionTrace from "../../telemetry/tracing/ExecutionTrace.js"
import * as TraceParent from "../../telemetry/tracing/TraceParent.js"
import type { NewJob } from "../NewJob.js"
import type { Enqueued } from "../Queue.js"

type Enqueue<E> = (jobs: ReadonlyArray<NewJob>) => Effect.Effect<ReadonlyArray<Enqueued>, E>

/** The trace context must not push the job's meta over its size limit. */
const maxMetaBytes = limits.resultBytes - 1_024

const roomFor = ({ meta }: NewJob): boolean =>
  meta === undefined || (!(TraceParent.key in meta) && Buffer.byteLength(JSON.stringify(meta)) < maxMetaBytes)

const marked = (job: NewJob, span: Tracer.Span): NewJob =>
  roomFor(job) ? { ...job, meta: { ...job.meta, [TraceParent.key]: TraceParent.format(span) } } : job

/** Collectors drop links beyond this many. */
const maxLinks = 128

/** Links to the traces of the executions that were started. */
const linksOf = (jobs: ReadonlyArray<NewJob>, answers: ReadonlyArray<Enqueued>): ReadonlyArray<Tracer.SpanLink> =>
  answers
    .filter((_, place) => jobs[place]?.isExecution === true)
    .slice(0, maxLinks)
    .map(({ id }) => ExecutionTrace.link(ExecutionTrace.of(id)))

const begin = (
  tracer: Tracer.Tracer,
  queue: string,
  jobs: ReadonlyArray<NewJob>,
  parent: Option.Option<Tracer.AnySpan>,
  now: bigint
) => {
  const span = tracer.span(`send ${queue}`, parent, Context.empty(), [], now, "producer")
  span.attribute("messaging.system", "nightshift")
  span.attribute("messaging.destination.name", queue)
  span.attribute("messaging.operation.name", "send")
  span.attribute("messaging.operation.type", "send")
  const own = jobs.filter((job) => job.queue === queue)
  if (own.length > 1) span.attribute("messaging.batch.message_count", own.length)
  const kinds = new Set(own.map(({ kind }) => kind))
  if (kinds.size === 1) span.attribute("nightshift.job.kind", own[0]?.kind)
  return span
}

/** Records a send span per queue and adds its trace context to each job. */
export const around = <E>(tracer: Tracer.Tracer | undefined, enqueue: Enqueue<E>): Enqueue<E> => {
  if (tracer === undefined) return enqueue
  return (jobs) =>
    Effect.gen(function* () {
      const clock = yield* Effect.clock
      const parent = Context.getOption(yield* Effect.context<never>(), Tracer.ParentSpan)
      const now = clock.unsafeCurrentTimeNanos()
      const queues = [...new Set(jobs.map(({ queue }) => queue))]
      const spans = new Map(queues.map((queue) => [queue, begin(tracer, queue, jobs, parent, now)]))
      const sent = jobs.map((job) => {
        const span = spans.get(job.queue)
        return span === undefined ? job : marked(job, span)
      })
      return yield* Effect.onExit(enqueue(sent), (exit) =>
        Effect.sync(() => {
          const then = clock.unsafeCurrentTimeNanos()
          for (const [queue, span] of spans) {
            const answers = Exit.isSuccess(exit) ? exit.value.filter((_, place) => jobs[place]?.queue === queue) : []
            const own = jobs.filter((job) => job.queue === queue)
            if (own.some(({ isExecution }) => isExecution === true)) span.addLinks(linksOf(own, answers))
            const [only] = answers
            if (only !== undefined && answers.length === 1) {
              span.attribute("messaging.message.id", only.id)
              if (only.outcome === "deduplicated") span.attribute("nightshift.job.deduplicated", true)
            }
            span.end(then, exit)
          }
        })
      )
    })
}
