import type { Tracer } from "effect"
import type { JobId, Lease } from "../../core/Ids.js"
import type { DeadReason } from "../../core/StoredJob.js"
import type { AttemptEnd, End, NextStatus } from "../../queue/AttemptEnd.js"
import type { AttemptLog } from "../../queue/logs/JobLogs.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import type { KindTally } from "../../telemetry/KindTally.js"
import type { Tally } from "../../telemetry/Tally.js"
import type { ExecutionEnd } from "../../telemetry/WorkflowTally.js"
import * as ProcessSpan from "./ProcessSpan.js"

/** The end of an attempt that is written. */
export interface WrittenEnd {
  readonly job: ClaimedJob
  readonly end: End
  readonly became: NextStatus
  /** Why the job is dead. */
  readonly reason: DeadReason | undefined
  /** How long the attempt ran, in milliseconds. Absent if it did not start. */
  readonly took: number | undefined
}

/** Called when the end of a workflow execution is written. */
type OnExecution = (job: ClaimedJob, end: ExecutionEnd, now: number) => void

const executionEnd = (became: NextStatus, reason: DeadReason | undefined): ExecutionEnd => {
  if (became === "done") return "completed"
  return reason === "cancelled" ? "cancelled" : "failed"
}

/** What all attempts of a queue share. */
interface Listeners {
  readonly onExecution: OnExecution
  readonly onEnd: ((end: WrittenEnd) => void) | undefined
}

/**
 * The result of an attempt, which is counted only when it is written: the lease may have been lost, and a job to be
 * retried may have been cancelled in the meantime. A class for speed, because one object is created per job. The object
 * does not keep the job, whose payload may be large, unless a listener needs the job: thousands of results can wait to
 * be written.
 */
class CountedEnd implements AttemptEnd {
  readonly id: JobId
  readonly lease: Lease
  readonly queue: string
  readonly key: string | undefined
  readonly kind: string
  readonly linked: boolean | undefined
  readonly isChild: boolean | undefined
  private readonly job: ClaimedJob | undefined
  private counted = false

  constructor(
    job: ClaimedJob,
    readonly end: End,
    /** How long the attempt ran, in milliseconds. Absent if it did not start. */
    private readonly took: number | undefined,
    /** Time from when the job was due until the attempt ended, in milliseconds. */
    private readonly sinceDue: number,
    private readonly tally: KindTally,
    private readonly listeners: Listeners,
    readonly unanswered?: ReadonlyArray<AttemptEnd>,
    readonly log?: AttemptLog
  ) {
    this.id = job.id
    this.lease = job.lease
    this.queue = job.queue
    this.key = job.key
    this.kind = job.kind
    this.linked = job.linked
    this.isChild = job.isChild
    this.job = listeners.onEnd !== undefined || job.execution !== undefined ? job : undefined
  }

  written(became: NextStatus, now: number, reason?: DeadReason): void {
    if (this.counted) return
    this.counted = true
    const { end, job, took, tally } = this
    // Waiting is neither a result nor a retry.
    if (end._tag === "Suspended") return
    if (took !== undefined) tally.ran(took, this.sinceDue, now)
    const why = reason ?? (end._tag === "Dead" ? end.reason : "cancelled")
    if (became === "done") tally.completed(now)
    else if (became === "dead") tally.died(1, why, now)
    else if (took !== undefined) tally.retried(now)
    if (job === undefined) return
    if (job.execution !== undefined && became !== "pending")
      this.listeners.onExecution(job, executionEnd(became, why), now)
    this.listeners.onEnd?.({ job, end, became, reason: became === "dead" ? why : undefined, took })
  }
}

/** Counts the runs of one queue. Counters are looked up once per kind, because this runs for every job. */
export const make = (
  tally: typeof Tally.Service,
  queue: string,
  tracer: Tracer.Tracer | undefined,
  onEnd: ((end: WrittenEnd) => void) | undefined
) => {
  const onExecution: OnExecution = (job, end, now) => {
    tally.workflows.ended(job.kind, end)
    if (tracer !== undefined) ProcessSpan.ofExecution(tracer, job, end, now)
  }

  const listeners: Listeners = { onExecution, onEnd }

  const of = (kind: string): KindTally => tally.of(queue, kind)

  return {
    began: (job: ClaimedJob, now: number): void => of(job.kind).started(Math.max(0, now - job.runAt), now),

    ended: (
      job: ClaimedJob,
      end: End,
      began: number,
      over: number,
      unanswered?: ReadonlyArray<AttemptEnd>,
      log?: AttemptLog
    ): AttemptEnd => new CountedEnd(job, end, over - began, over - job.runAt, of(job.kind), listeners, unanswered, log),

    /** The result of a job that was claimed and never started. */
    unstarted: (job: ClaimedJob, end: End): AttemptEnd =>
      new CountedEnd(job, end, undefined, 0, of(job.kind), listeners)
  }
}

export type JobMetrics = ReturnType<typeof make>
