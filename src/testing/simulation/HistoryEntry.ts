import type { JobId, UploadId } from "../../core/Ids.js"
import type { AttemptEnd } from "../../queue/AttemptEnd.js"
import type { JobRow } from "../../queue/JobRowMemory.js"
import type { Step } from "../../queue/workflow/Execution.js"
import type { JobCounts } from "../../telemetry/BucketCount.js"

// What a history consists of: operations, the changes of rows that they made, runs of handlers, and the end.

/** An operation that reached the database. */
export interface Call {
  /** Name of the process that made the call. */
  readonly who: string
  /** Operation name, such as `Queue.claim`. */
  readonly call: string
  /** What the process passed to the operation. */
  readonly args: ReadonlyArray<unknown>
  /** Epoch milliseconds: true time (`at`) and the caller's clock (`local`). */
  readonly at: number
  /** The caller's clock, in epoch milliseconds. */
  readonly local: number
}

/** A row change. `call` is undefined for a rollback. */
export interface Change {
  /** Operation that changed the row. */
  readonly call: Call | undefined
  /** True time in epoch milliseconds. */
  readonly at: number
  /** The row before. Undefined if it is new. */
  readonly before: JobRow | undefined
  /** The row after. Undefined if it was deleted. */
  readonly after: JobRow | undefined
}

/** One run of a handler, from its start to its result. */
export interface Run {
  /** Name of the process that runs the handler. */
  readonly who: string
  /** Job that the handler runs. */
  readonly job: JobId
  /** True time of the start, in epoch milliseconds. */
  readonly began: number
  /** Result; undefined while it runs. */
  how: string | undefined
}

/** Final state of the cluster. */
export interface Ending {
  /** How long the cluster took or was given to drain after the last fault, in milliseconds. */
  readonly waited: number
  /** Descriptions of anything that stopped pods left behind. */
  readonly leftovers: ReadonlyArray<string>
  /** Files in the inbox. */
  readonly inbox: ReadonlySet<UploadId>
  /** Totals of all pods, as shown in charts. */
  readonly charted: JobCounts
  /** Complete streams of executions, by the execution's job. */
  readonly streams: ReadonlyMap<JobId, ReadonlyArray<unknown>>
  /** What readers see of executions, by the execution's job. */
  readonly executions: ReadonlyMap<
    JobId,
    {
      /** The last value of each name that it has set. */
      readonly values: Readonly<Record<string, unknown>>
      /** Its tags. */
      readonly tags: Readonly<Record<string, string>>
      /** Its journal. */
      readonly steps: ReadonlyArray<Step>
      /** Number of its waits, signals, heartbeats and streams. */
      readonly others: number
    }
  >
}

/**
 * Returns the reported end of this run. A finalize call may also contain the end of an earlier run of the same job, and
 * may change jobs that do not run: it wakes the executions that wait for a job that ends.
 */
export const endOf = (call: Call, { id, run }: JobRow): AttemptEnd | undefined =>
  (call.args[0] as ReadonlyArray<AttemptEnd>).find((end) => end.id === id && end.lease === run?.lease)

/** Whether a change gave a job to a pod: by a claim, or by storing it for a free slot of the pod. */
export const isClaim = ({ call, after, before }: Change): boolean =>
  after?.run !== undefined &&
  ((call?.call === "Queue.claim" && before !== undefined) || call?.call === "Queue.insertClaimed")
