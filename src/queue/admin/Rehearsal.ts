import { Duration, Schema } from "effect"
import { headline } from "../../core/ErrorText.js"
import { JobId } from "../../core/Ids.js"
import type { Status } from "../../core/StoredJob.js"
import type { RehearsalFields } from "./OperationFields.js"

// A bulk requeue may rehearse: it requeues a few jobs, waits until they end, and continues with the others only if all of
// them succeed. Both stores take these steps one by one, in `Operations.step`, so that any process can continue.

/** How many jobs a rehearsal may have. */
export const rehearsalLimits = { min: 1, max: 100 } as const

/** How long a rehearsal waits for the next of its jobs to end. */
export const rehearsalTimeout = Duration.minutes(15)

/** A rehearsal and its progress. */
export interface Rehearsal extends RehearsalFields {
  /** Ids of the jobs that were requeued. */
  readonly ids: ReadonlyArray<JobId>
}

/** A rehearsal as stored with its operation. */
export const Rehearsal = Schema.Struct({
  jobs: Schema.Int,
  ids: Schema.Array(JobId),
  succeeded: Schema.Int,
  verdict: Schema.Literal("open", "passed", "failed")
})

export const begin = (jobs: number): Rehearsal => ({ jobs, ids: [], succeeded: 0, verdict: "open" })

/** How many more jobs to requeue for the rehearsal; 0 if it has all of its jobs. */
export const missing = ({ ids, jobs }: Rehearsal): number => Math.max(0, jobs - ids.length)

/** Whether the operation waits for the rehearsed jobs to end. */
export const isWaiting = (rehearsal: Rehearsal | undefined): rehearsal is Rehearsal =>
  rehearsal?.verdict === "open" && missing(rehearsal) === 0

/** A rehearsed job. One that was deleted is left out. */
export interface RehearsedJob {
  readonly status: Status
  readonly lastError: string | undefined
  readonly attempt: number
  readonly crashCount: number
  /** Whether an execution undoes its steps before it dies. */
  readonly isDying: boolean
  /** Whether the job is an execution whose last run was neither cut off nor returned unstarted: its error is that of a step. */
  readonly isOfStep: boolean
}

/**
 * A requeue clears the error and the counts: a job that has them has failed again, even if it runs meanwhile. A job that was only
 * returned, by a process without its handler or its database, has an error and got its attempt back.
 */
const hasFailed = ({ attempt, crashCount, isDying, isOfStep, lastError, status }: RehearsedJob) => {
  if (status === "done" || status === "dead") return status === "dead"
  const failures = attempt - (status === "running" ? 1 : 0)
  return lastError !== undefined && (failures > 0 || crashCount > 0 || isDying || isOfStep)
}

export interface Judged {
  readonly rehearsal: Rehearsal
  /** Why the operation stops. */
  readonly error?: string
}

/**
 * Judges a rehearsal by its jobs. One failure ends it. A job that no longer exists counts as succeeded: done jobs may be
 * deleted at once. `waited` is the time in milliseconds since the last of them ended.
 */
export const judge = (rehearsal: Rehearsal, jobs: ReadonlyArray<RehearsedJob>, waited: number): Judged => {
  const of = rehearsal.ids.length
  const failed = jobs.filter(hasFailed)
  const succeeded = of - jobs.filter(({ status }) => status !== "done").length
  const [first] = failed
  if (first !== undefined) {
    const why = first.lastError === undefined ? "" : `: ${headline(first.lastError).slice(0, 200)}`
    const error = `${failed.length} of ${of} rehearsed jobs failed again${why}. The others were not requeued.`
    return { rehearsal: { ...rehearsal, succeeded, verdict: "failed" }, error }
  }
  if (succeeded === of) return { rehearsal: { ...rehearsal, succeeded, verdict: "passed" } }
  if (waited < Duration.toMillis(rehearsalTimeout)) return { rehearsal: { ...rehearsal, succeeded } }
  const error = `${of - succeeded} of ${of} rehearsed jobs have not ended, and none ended in the last 15 minutes. The others were not requeued. Check that a process serves their queue, then requeue again.`
  return { rehearsal: { ...rehearsal, succeeded, verdict: "failed" }, error }
}
