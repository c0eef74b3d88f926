import type { Tracer } from "effect"
import type { JobId, Lease } from "../../core/Ids.js"
import type { DeadReason } from "../../core/StoredJob.js"
import type { AttemptEnd, End, NextStatus } from "../../queue/AttemptEnd.js"
import type { ClaimedJob } from "../../queue/Queue.js"
import type { KindTally } from "../../telemetry/KindTally.js"
import type { Tally } from "../../telemetry/Tally.js"
import type { ExecutionEnd } from "../../telemetry/WorkflowTally.js"
import * as ProcessSpan from "./ProcessSpan.js"

/** Start and end of a run. */
interface Span {
  readonly began: number
  readonly over: number
}

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

/**
 * The result of an attempt, which is counted only when it is written: the lease may have been lost, and a job to be
 * retried may have been cancelled in the meantime. A class for speed, because one object is created per job.
 */
class CountedEnd implements AttemptEnd {
  readonly id: JobId
  readonly lease: Lease
  readonly queue: string
  readonly key: string | undefined
  readonly linked: boolean | undefined
  private counted = false

  constructor(
    private readonly job: ClaimedJob,
    readonly end: End,
    private readonly span: Span | undefined,
    private readonly tally: KindTally,
    private readonly onExecution: OnExecution,
    private readonly onEnd: ((end: WrittenEnd) => void) | undefined,
    readonly unanswered?: ReadonlyArray<AttemptEnd>
  ) {
    this.id = job.id
    this.lease = job.lease
    this.queue = job.queue
    this.key = job.key
    this.linked = job.linked
  }

  written(became: NextStatus, now: number, reason?: DeadReason): void {
    if (this.counted) return
    this.counted = true
    const { end, span, tally } = this
    // Waiting is neither a result nor a retry.
    if (end._tag === "Suspended") return
    if (span !== undefined) tally.ran(span.over - span.began, span.over - this.job.runAt, now)
    const why = reason ?? (end._tag === "Dead" ? end.reason : "cancelled")
    if (became === "done") tally.completed(now)
    else if (became === "dead") tally.died(1, why, now)
    else if (span !== undefined) tally.retried(now)
    if (this.job.execution !== undefined && became !== "pending")
      this.onExecution(this.job, executionEnd(became, why), now)
    if (this.onEnd !== undefined) {
      const took = span === undefined ? undefined : span.over - span.began
      this.onEnd({ job: this.job, end, became, reason: became === "dead" ? why : undefined, took })
    }
  }
}

/** Counts the runs of one queue. Counters are looked up once per kind, because this runs for every job. */
export const make = (
  tally: typeof Tally.Service,
  queue: string,
  tracer: Tracer.Tracer | undefined,
  onEnd: ((end: WrittenEnd) => void) | undefined
) => {
  const kinds = new Map<string, KindTally>()

  const onExecution: OnExecution = (job, end, now) => {
    tally.workflows.ended(job.kind, end)
    if (tracer !== undefined) ProcessSpan.ofExecution(tracer, job, end, now)
  }

  const of = (kind: string): KindTally => {
    const known = kinds.get(kind)
    if (known !== undefined) return known
    const found = tally.of(queue, kind)
    kinds.set(kind, found)
    return found
  }

  return {
    began: (job: ClaimedJob, now: number): void => of(job.kind).started(Math.max(0, now - job.runAt), now),

    ended: (
      job: ClaimedJob,
      end: End,
      began: number,
      over: number,
      unanswered?: ReadonlyArray<AttemptEnd>
    ): AttemptEnd => new CountedEnd(job, end, { began, over }, of(job.kind), onExecution, onEnd, unanswered),

    /** The result of a job that was claimed and never started. */
    unstarted: (job: ClaimedJob, end: End): AttemptEnd =>
      new CountedEnd(job, end, undefined, of(job.kind), onExecution, onEnd)
  }
}

export type JobMetrics = ReturnType<typeof make>
