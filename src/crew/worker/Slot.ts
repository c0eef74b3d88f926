import { Cause, type Clock, Data, Duration, Effect, Exit, Option, type Tracer } from "effect"
import type { Backoff } from "../../core/Backoff.js"
import { steadyMillis } from "../../core/ChangeWatch.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import { limits } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { inHandler } from "../../database/Pools.js"
import type { JobContext } from "../../handlers/JobContext.js"
import type { Entry, Registry } from "../../handlers/Registry.js"
import type { AttemptEnd, End } from "../../queue/AttemptEnd.js"
import { jsonText } from "../../queue/enqueue/NewJob.js"
import type { JobKind } from "../../queue/Job.js"
import type { ClaimedJob, Queue } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as DatabaseFailure from "./DatabaseFailure.js"
import type { Finalizer } from "./Finalizer.js"
import type { JobMetrics } from "./JobMetrics.js"
import * as Judge from "./Judge.js"
import type { LocalQueue } from "./LocalQueue.js"
import { LoggedJob } from "./LoggedJob.js"
import * as ProcessSpan from "./ProcessSpan.js"

// The life of a job in a pod, as text: take, decode, run, judge, hand over. A slot runs jobs in place, one after another,
// without a fiber per job. To stop a job, its slot's fiber is interrupted; the fiber's end then decides what becomes of the
// job, and the supervisor puts a fresh slot in its place.

/** What a slot is doing. */
export interface Run {
  readonly job: ClaimedJob
  readonly kind: JobKind<never>
  readonly began: number
  /** On the steady clock: a clock that is set must not end a run. */
  readonly deadline: number
}

/** One place where a job runs. */
export class Slot {
  run: Run | undefined
  stop: Judge.StopReason | undefined
  /** Takes no further job. */
  retired = false
  /** Its handler would not stop: its job was ended without it, and whatever it still does is ignored. */
  abandoned = false
}

/** What the slots of a queue share. */
export interface SlotContext<R> {
  /** The queue's name. */
  readonly name: string
  readonly localQueue: LocalQueue
  readonly registry: Registry<R>
  readonly queue: typeof Queue.Service
  readonly transactions: typeof Transactions.Service
  readonly finalizer: typeof Finalizer.Service
  readonly metrics: JobMetrics
  /** Who hears of runs; nobody, as a rule. */
  readonly tracer: Tracer.Tracer | undefined
  readonly clock: Clock.Clock
  /** From 0 to 1. */
  readonly chance: () => number
  /** How the queue spaces retries, where it says so itself. */
  readonly curve: () => Backoff | undefined
  /** Hides in an error's text what NIGHTSHIFT_MASK names of the payload: the text is shown to viewers wherever it is shown. */
  readonly maskText: (text: string, payload: unknown) => string
  readonly onBegin: (slot: Slot) => void
  readonly onIdle: () => void
  readonly onTaken: () => void
  /** A key has become free. */
  readonly onFreed: () => void
}

/** The lease went to somebody else while a transactional handler ran: its transaction is undone. */
class LeaseLost extends Data.TaggedError("LeaseLost") {}

/** A transactional handler ended in something else than success: its transaction is undone, and this is what it meant. */
class EndedOtherwise extends Data.TaggedError("EndedOtherwise")<{ readonly end: End }> {}

/** Works until it is retired. */
export const work = <R>(slot: Slot, context: SlotContext<R>): Effect.Effect<void, never, R> =>
  Effect.whileLoop({ while: () => !slot.retired, body: () => turn(slot, context), step: () => {} }).pipe(
    Effect.annotateLogs("job", new LoggedJob(slot)),
    Effect.locally(inHandler, true)
  )

const turn = <R>(slot: Slot, context: SlotContext<R>): Effect.Effect<void, never, R> => {
  const job = context.localQueue.take()
  if (job === undefined) return context.localQueue.somethingToDo(context.onIdle)
  context.onTaken()
  const entry = context.registry.get(job.kind)
  if (entry === undefined) {
    return handOver(context, job, Judge.ofUnknown(`no handler for the kind "${job.kind}" on this pod`, at(context)))
  }
  const decoded = entry.decode(job.payload, job.version)
  switch (decoded._tag) {
    case "TooNew":
      return handOver(
        context,
        job,
        Judge.ofUnknown(`its payload has version ${decoded.version}, newer than this pod's code`, at(context))
      )
    case "Unreadable":
      return handOver(context, job, Judge.ofUnreadable(decoded.reason))
    case "Ready":
      return runJob(slot, context, job, entry, decoded.payload)
  }
}

export const at = <R>(context: SlotContext<R>) => ({
  now: context.clock.unsafeCurrentTimeMillis(),
  chance: context.chance(),
  curve: context.curve
})

const runJob = <R>(slot: Slot, context: SlotContext<R>, job: ClaimedJob, entry: Entry<R>, payload: never) => {
  const { handler } = entry
  const began = context.clock.unsafeCurrentTimeMillis()
  const deadline = steadyMillis(context.clock) + timeoutMillis(handler.kind)
  const run: Run = { job, kind: handler.kind, began, deadline }
  slot.run = run
  context.metrics.began(job, began)
  context.onBegin(slot)
  const handled = Effect.suspend(() => handler.run(payload, new RunningJob(context, job)))
  const attempt = context.tracer === undefined ? handled : ProcessSpan.around(context.tracer, job, handled)
  return handler.transactional ? runTransactional(slot, context, run, attempt) : runPlain(slot, context, run, attempt)
}

const runPlain = <R>(slot: Slot, context: SlotContext<R>, run: Run, attempt: Effect.Effect<unknown, unknown, R>) =>
  Effect.flatMap(Effect.exit(attempt), (exit) => {
    slot.run = undefined
    return conclude(context, run, Judge.ofExit(run.job, run.kind, exit, at(context)))
  })

/** The handler's writes and the job's end are one transaction; the end comes last, fenced by the lease. */
const runTransactional = <R>(
  slot: Slot,
  context: SlotContext<R>,
  run: Run,
  attempt: Effect.Effect<unknown, unknown, R>
) => {
  const { job, kind } = run
  let begun = false
  let ended: End | undefined
  const whole = Effect.gen(function* () {
    begun = true
    ended = undefined
    const exit = yield* Effect.exit(attempt)
    const conflict = DatabaseFailure.contentionIn(exit)
    if (conflict !== undefined) return yield* conflict
    const end = Judge.ofExit(job, kind, exit, at(context))
    if (end._tag !== "Done") {
      // What the handler said itself holds, even if the connection breaks while its transaction is undone.
      if (Exit.isSuccess(exit)) ended = end
      return yield* new EndedOtherwise({ end })
    }
    const movedOn = yield* context.queue.finalize([
      { id: job.id, lease: job.lease, end, queue: job.queue, key: job.key }
    ])
    return movedOn.length === 0 ? end : yield* new LeaseLost()
  })
  const patient = DatabaseFailure.retrying(context.transactions.runHandler(whole), {
    begun: () => begun,
    timeoutMillis: timeoutMillis(kind)
  })
  return Effect.flatMap(Effect.exit(patient), (exit) => {
    slot.run = undefined
    if (Exit.isSuccess(exit)) {
      const { now } = at(context)
      context.metrics.ended(job, exit.value, run.began, now).written?.("done", now)
      // The end stands only now, so only now is its key free for another.
      if (job.key !== undefined) context.onFreed()
      return Effect.void
    }
    const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
    if (failure instanceof LeaseLost) return Effect.void
    const otherwise = failure instanceof EndedOtherwise ? failure.end : ended
    const back = DatabaseFailure.isOurs(failure)
      ? DatabaseFailure.giveBack(job, failure, begun, at(context))
      : undefined
    return conclude(context, run, otherwise ?? back ?? Judge.ofExit(job, kind, exit, at(context)))
  })
}

/** Hands over how a run ended. */
export const conclude = <R>(context: SlotContext<R>, run: Run, end: End): Effect.Effect<void> =>
  write(
    context,
    context.metrics.ended(run.job, masked(context, run.job, end), run.began, context.clock.unsafeCurrentTimeMillis())
  )

/** The same for a job that was taken and never begun. */
export const handOver = <R>(context: SlotContext<R>, job: ClaimedJob, end: End): Effect.Effect<void> =>
  write(context, context.metrics.unstarted(job, masked(context, job, end)))

const masked = <R>({ maskText }: SlotContext<R>, { payload }: ClaimedJob, end: End): End =>
  end._tag === "Done" || end.error === undefined ? end : { ...end, error: maskText(end.error, payload) }

/** Does not wait, unless so much waits to be written that the next job must not begin. */
const write = <R>(context: SlotContext<R>, end: AttemptEnd): Effect.Effect<void> =>
  context.finalizer.offer(end) ? Effect.void : context.finalizer.submit(end)

const timeouts = new WeakMap<JobKind<never>, number>()
const timeoutMillis = (kind: JobKind<never>): number => {
  const known = timeouts.get(kind)
  if (known !== undefined) return known
  const millis = Duration.toMillis(kind.timeout)
  timeouts.set(kind, millis)
  return millis
}

/** What the handler sees. A class: its objects are made for every job, and most handlers use little of them. */
class RunningJob<R> implements JobContext {
  constructor(
    private readonly context: SlotContext<R>,
    private readonly job: ClaimedJob
  ) {}

  get id() {
    return this.job.id
  }
  get kind() {
    return this.job.kind
  }
  get queue() {
    return this.job.queue
  }
  get key() {
    return this.job.key
  }
  get attempt() {
    return this.job.attempt
  }
  get maxAttempts() {
    return this.job.maxAttempts
  }
  get meta() {
    return this.job.meta
  }

  progress(value: unknown): Effect.Effect<void, InvalidJob | DatabaseError> {
    const text = jsonText(value, limits.resultBytes)
    if (text._tag === "Left") return new InvalidJob({ index: 0, field: "progress", reason: text.left })
    return Effect.asVoid(this.context.queue.progress(this.job, text.right))
  }
}
