import { TransactionConnection } from "@effect/sql/SqlClient"
import { Cause, type Clock, Data, Duration, Effect, Either, Exit, Option, type Tracer } from "effect"
import type { Backoff } from "../../core/Backoff.js"
import { steadyMillis } from "../../core/ChangeWatch.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import { ownSubject } from "../../core/OwnSubject.js"
import { limits } from "../../core/StoredJob.js"
import { subjectOf } from "../../core/Subject.js"
import * as Thrown from "../../core/Thrown.js"
import { type DatabaseError, DatabaseUnavailable } from "../../database/DatabaseError.js"
import { inHandler } from "../../database/Pools.js"
import { AfterCommit } from "../../database/Transaction.js"
import type { Handler } from "../../handlers/Handler.js"
import type { JobContext, LateSuccess } from "../../handlers/JobContext.js"
import type { Entry, Registry } from "../../handlers/Registry.js"
import type { AttemptEnd, End } from "../../queue/AttemptEnd.js"
import type { JobKind } from "../../queue/Job.js"
import { jsonText } from "../../queue/NewJob.js"
import type { ClaimedExecution, ClaimedJob, Queue } from "../../queue/Queue.js"
import type { Transactions } from "../../queue/Transactions.js"
import { type AttemptLines, type AttemptLogs, RunLog } from "./AttemptLogs.js"
import * as CodeRelease from "./CodeRelease.js"
import * as DatabaseFailure from "./DatabaseFailure.js"
import type { FailureLog } from "./FailureLog.js"
import type { Finalizer } from "./Finalizer.js"
import type { JobMetrics } from "./JobMetrics.js"
import * as Judge from "./Judge.js"
import * as KeptResult from "./KeptResult.js"
import type { LocalQueue } from "./LocalQueue.js"
import { annotated, LoggedJob } from "./LoggedJob.js"
import * as ProcessSpan from "./ProcessSpan.js"

// The steps of a job on a pod: take, decode, run, judge, finalize. A slot is one fiber that runs jobs one after
// another, without a fiber per job. To stop a job, the slot's fiber is interrupted. The exit of the fiber determines
// the job's result, and a new slot replaces this one.

/** The current run of a slot. */
export interface Run {
  readonly job: ClaimedJob
  readonly kind: JobKind<never>
  readonly began: number
  /** On the monotonic clock, so that a clock adjustment cannot time out a run. A heartbeat of a step moves it. */
  deadline: number
  readonly transactional: boolean
  readonly timeoutHint: Handler<unknown>["timeoutHint"]
  /** What the handler has logged, if it has logged anything. */
  lines: AttemptLines | undefined
}

/** Runs one job at a time. */
export class Slot {
  run: Run | undefined
  stop: Judge.StopReason | undefined
  /** The result of a handler that succeeded although it was interrupted. */
  late: LateSuccess | undefined
  /** Takes no further jobs. */
  retired = false
  /** The handler did not stop. The job was finalized without the handler, whose later result is ignored. */
  abandoned = false
}

/** The state that the slots of a queue share. */
export interface SlotContext<R> {
  /** Name of the queue. */
  readonly name: string
  readonly localQueue: LocalQueue
  readonly registry: Registry<R>
  readonly queue: typeof Queue.Service
  readonly transactions: typeof Transactions.Service
  readonly finalizer: typeof Finalizer.Service
  readonly metrics: JobMetrics
  readonly failures: FailureLog
  readonly logs: typeof AttemptLogs.Service
  /** Usually undefined. */
  readonly tracer: Tracer.Tracer | undefined
  readonly clock: Clock.Clock
  /** Random number from 0 to 1. */
  readonly chance: () => number
  /** The queue's backoff, if it has one. */
  readonly curve: () => Backoff | undefined
  /** The releases of the code of a workflow among the pods of this queue. */
  readonly releasesOf: (kind: string) => CodeRelease.CodeRelease
  /** Masks the payload values named by NIGHTSHIFT_MASK in an error text, because every viewer can read errors. */
  readonly maskText: (text: string, payload: unknown) => string
  readonly onBegin: (slot: Slot) => void
  readonly onIdle: () => void
  readonly onTaken: () => void
  /** A job with a key has finished, so the next job with this key may be due. */
  readonly onFreed: () => void
}

/** The lease was lost while a transactional handler ran. Rolls back its transaction. */
class LeaseLost extends Data.TaggedError("LeaseLost") {}

/** A transactional handler did not succeed. Rolls back its transaction and carries the result. */
class EndedOtherwise extends Data.TaggedError("EndedOtherwise")<{ readonly end: End }> {}

/** Runs jobs until the slot is retired or stopped. */
export const work = <R>(slot: Slot, context: SlotContext<R>): Effect.Effect<void, never, R> =>
  Effect.suspend(() => {
    const { leave, somethingToDo } = context.localQueue.waiter(context.onIdle)
    const body = () => turn(slot, context, somethingToDo)
    // The interrupt of a stop arrives a moment later. By then the handler may have ended, and the next job must not get it.
    const goesOn = () => !slot.retired && slot.stop === undefined
    return Effect.ensuring(Effect.whileLoop({ while: goesOn, body, step: () => {} }), leave)
  }).pipe(annotated(new LoggedJob(slot)), context.logs.keeping(slot), Effect.locally(inHandler, true), guarded)

/** What a handler throws must not end the process. */
const guarded = <R>(effect: Effect.Effect<void, never, R>) =>
  Effect.tracerWith((tracer) => Effect.withTracer(effect, Thrown.guarded(tracer)))

const turn = <R>(
  slot: Slot,
  context: SlotContext<R>,
  somethingToDo: Effect.Effect<void>
): Effect.Effect<void, never, R> => {
  const job = context.localQueue.take()
  if (job === undefined) return somethingToDo
  context.onTaken()
  const entry = context.registry.get(job.kind)
  if (entry === undefined) {
    return handOver(
      context,
      job,
      Judge.ofUnknown(`this process has no handler for the kind "${job.kind}"`, at(context))
    )
  }
  // Before the payload is decoded: another release may have written it.
  const back = job.execution && heldBack(context, job.kind, job.execution)
  if (back !== undefined) return handOver(context, job, back)
  const decoded = entry.decode(job.payload, job.version)
  switch (decoded._tag) {
    case "TooNew":
      return handOver(
        context,
        job,
        Judge.ofUnknown(
          `its payload has version ${decoded.version}, which is newer than this process's code`,
          at(context)
        )
      )
    case "Unreadable":
      return handOver(context, job, Judge.ofUnreadable(job, decoded.reason, at(context).now))
    case "Sealed":
      return handOver(context, job, Judge.ofSealed(job, decoded.unopened, at(context)))
    case "Ready":
      return runJob(slot, context, job, entry, decoded.payload)
  }
}

/** The end of an execution that another release should run. Otherwise tells the run the release of this process. */
const heldBack = <R>(context: SlotContext<R>, kind: string, execution: ClaimedExecution): End | undefined => {
  const releases = context.releasesOf(kind)
  execution.state.release = releases.own
  return CodeRelease.handBack(execution, releases, at(context).now)
}

export const at = (context: Pick<EndWriter, "clock" | "chance" | "curve">): Judge.EndContext => ({
  now: context.clock.unsafeCurrentTimeMillis(),
  chance: context.chance(),
  curve: context.curve
})

const runJob = <R>(slot: Slot, context: SlotContext<R>, job: ClaimedJob, entry: Entry<R>, payload: never) => {
  const { handler } = entry
  const began = context.clock.unsafeCurrentTimeMillis()
  const deadline = steadyMillis(context.clock) + timeoutMillis(handler.kind)
  const { kind, timeoutHint, transactional } = handler
  const run: Run = { job, kind, began, deadline, transactional, timeoutHint, lines: undefined }
  slot.run = run
  job.execution?.state.onExtend((millis = timeoutMillis(kind)) => {
    run.deadline = Math.max(run.deadline, steadyMillis(context.clock) + millis)
  })
  context.metrics.began(job, began)
  context.onBegin(slot)
  const handled = Effect.suspend(() => {
    const running = new RunningJob(context, job, slot, run)
    const effect = KeptResult.around(handler.run(payload, running), running)
    const subject = subjectOf(job.meta)
    return subject === undefined ? effect : Effect.locally(effect, ownSubject, subject)
  })
  const attempt =
    context.tracer === undefined
      ? handled
      : ProcessSpan.around(context.tracer, job, Effect.mapErrorCause(handled, Thrown.plainCause))
  return handler.transactional ? runTransactional(slot, context, run, attempt) : runPlain(slot, context, run, attempt)
}

const runPlain = <R>(slot: Slot, context: SlotContext<R>, run: Run, attempt: Effect.Effect<unknown, unknown, R>) => {
  const ended = (exit: Exit.Exit<unknown, unknown>) => {
    const concluded = conclude(context, run, Judge.ofExit(run.job, run.kind, exit, at(context)))
    slot.run = undefined
    slot.late = undefined
    return concluded
  }
  return Effect.matchCauseEffect(attempt, {
    onFailure: (cause) => ended(Exit.failCause(cause)),
    onSuccess: (result) => ended(Exit.succeed(result))
  })
}

/**
 * Commits the handler's writes and the job's result in one transaction. The result is written last and fenced by the
 * lease.
 */
const runTransactional = <R>(
  slot: Slot,
  context: SlotContext<R>,
  run: Run,
  attempt: Effect.Effect<unknown, unknown, R>
) => {
  const { job, kind } = run
  let begun = false
  let ended: End | undefined
  let finalized: ReadonlyArray<AttemptEnd> | undefined
  let isCompleted = false
  const complete = (end: End) => {
    if (isCompleted) return
    isCompleted = true
    slot.run = undefined
    const { now } = at(context)
    context.metrics.ended(job, end, run.began, now).written?.("done", now)
    // The key is free only after the commit.
    if (job.key !== undefined) context.onFreed()
  }
  const whole = Effect.gen(function* () {
    begun = true
    ended = undefined
    finalized = undefined
    const exit = yield* Effect.exit(Effect.mapErrorCause(attempt, Thrown.plainCause))
    const conflict = DatabaseFailure.contentionIn(exit)
    if (conflict !== undefined) return yield* conflict
    const end = Judge.ofExit(job, kind, exit, at(context))
    if (end._tag !== "Done") {
      // An outcome that the handler returned is kept even if the connection breaks during the rollback.
      if (Exit.isSuccess(exit)) ended = end
      return yield* new EndedOtherwise({ end })
    }
    const { id, isChild, key, lease, linked, queue } = job
    finalized = [{ id, lease, end, queue, key, linked, isChild, log: run.lines?.final() }]
    const movedOn = yield* context.queue.finalize(finalized)
    if (movedOn.length > 0) return yield* new LeaseLost()
    // A heartbeat may find the job done and interrupt this fiber before it reads the reply to COMMIT.
    const afterCommit = yield* Effect.serviceOption(AfterCommit)
    if (Option.isSome(afterCommit)) afterCommit.value.push(() => complete(end))
    return end
  })
  const patient = DatabaseFailure.retrying(context.transactions.runHandler(whole), {
    begun: () => begun,
    timeoutMillis: timeoutMillis(kind)
  })
  return Effect.flatMap(Effect.exit(patient), (exit) => {
    if (Exit.isSuccess(exit)) return Effect.sync(() => complete(exit.value))
    slot.run = undefined
    const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
    if (failure instanceof LeaseLost) return Effect.void
    const otherwise = failure instanceof EndedOtherwise ? failure.end : ended
    const back = DatabaseFailure.isOurs(failure)
      ? DatabaseFailure.returnToQueue(job, failure, begun, at(context))
      : undefined
    const isUnanswered = failure instanceof DatabaseUnavailable && !failure.nothingWritten
    return conclude(
      context,
      run,
      otherwise ?? back ?? Judge.ofExit(job, kind, exit, at(context)),
      isUnanswered ? finalized : undefined
    )
  })
}

/** What writes the results of attempts. */
export type EndWriter = Pick<
  SlotContext<unknown>,
  "clock" | "failures" | "finalizer" | "maskText" | "metrics" | "releasesOf" | "chance" | "curve"
> & { readonly registry: { readonly get: (kind: string) => Pick<Entry<never>, "followUp"> | undefined } }

/** Passes the result of a run to the finalizer. */
export const conclude = (
  context: EndWriter,
  run: Pick<Run, "job" | "began" | "lines">,
  end: End,
  unanswered?: ReadonlyArray<AttemptEnd>
): Effect.Effect<void> => {
  const over = context.clock.unsafeCurrentTimeMillis()
  const shown = masked(context, run.job, released(context, run.job, followed(context, run.job, end)))
  const log = run.lines?.final()
  const written = write(context, context.metrics.ended(run.job, shown, run.began, over, unanswered, log))
  return end._tag === "Done" ? written : Effect.zipLeft(written, context.failures.of(run.job, shown, over))
}

/** Passes the result of an unstarted job to the finalizer. */
export const handOver = (context: EndWriter, job: ClaimedJob, end: End): Effect.Effect<void> => {
  const shown = masked(context, job, released(context, job, followed(context, job, end)))
  const written = write(context, context.metrics.unstarted(job, shown))
  return Effect.zipLeft(written, context.failures.of(job, shown, context.clock.unsafeCurrentTimeMillis()))
}

/** Adds the release to a suspension. */
const released = (context: EndWriter, { execution, kind }: ClaimedJob, end: End): End =>
  end._tag === "Suspended" && execution !== undefined
    ? CodeRelease.suspended(end, execution, context.releasesOf(kind), at(context).now)
    : end

const masked = ({ maskText }: EndWriter, { payload }: ClaimedJob, end: End): End =>
  end._tag === "Done" || end.error === undefined ? end : { ...end, error: maskText(end.error, payload) }

/** Adds the follow-up of a job that dies, if the code of its kind computes it. */
const followed = ({ registry }: EndWriter, { kind, payload, version }: ClaimedJob, end: End): End => {
  if (end._tag !== "Dead" || end.reason === "cancelled") return end
  const made = registry.get(kind)?.followUp?.(payload, version)
  return made === undefined || Either.isLeft(made) ? end : { ...end, followUp: made.right }
}

/**
 * Waits only when the finalizer is full, which applies backpressure. Uninterruptible: an interrupt that arrives after the
 * end of the run would withdraw its result.
 */
const write = (context: EndWriter, end: AttemptEnd): Effect.Effect<void> =>
  context.finalizer.offer(end) ? Effect.void : Effect.uninterruptible(context.finalizer.submit(end))

const timeouts = new WeakMap<JobKind<never>, number>()
const timeoutMillis = (kind: JobKind<never>): number => {
  const known = timeouts.get(kind)
  if (known !== undefined) return known
  const millis = Duration.toMillis(kind.timeout)
  timeouts.set(kind, millis)
  return millis
}

/**
 * The context passed to the handler. A class with getters for speed, because one object is created per job and most
 * handlers use few of its fields.
 */
class RunningJob<R> implements JobContext {
  constructor(
    private readonly context: SlotContext<R>,
    private readonly job: ClaimedJob,
    private readonly slot: Slot,
    private readonly run: Run
  ) {}

  succeededLate(late: LateSuccess) {
    // The result of a transactional handler counts only if its transaction commits.
    if (this.slot.run === this.run && !this.run.transactional) this.slot.late = late
  }

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
  get attempts() {
    return this.job.attempts
  }
  get meta() {
    return this.job.meta
  }
  get execution() {
    return this.job.execution
  }
  get attemptLog() {
    return new RunLog(this.context.logs, this.slot, this.run)
  }

  progress(value: unknown): Effect.Effect<void, InvalidJob | DatabaseError> {
    const text = jsonText(value, limits.resultBytes)
    if (text._tag === "Left") return new InvalidJob({ index: 0, field: "progress", reason: text.left })
    const stored = Effect.asVoid(this.context.queue.progress(this.job, text.right))
    // Progress is for people: outside a transaction the handler continues while the database is unavailable.
    return Effect.catchIf(stored, DatabaseFailure.isOurs, (error) =>
      Effect.flatMap(Effect.serviceOption(TransactionConnection), (outer) =>
        Option.isSome(outer) ? Effect.fail(error) : Effect.logDebug("could not store the progress of a job", error)
      )
    )
  }
}
