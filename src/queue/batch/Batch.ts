import type { BatchId, JobId } from "../../core/Id.js"
import type { FollowUp } from "../../core/StoredJob.js"

// Types without Effect: the views of programs that use promises are made from them.

/** Number of jobs of a batch by outcome. */
export interface BatchCounts {
  readonly unfinished: number
  readonly done: number
  readonly dead: number
  readonly cancelled: number
  /** Jobs whose rows no longer exist: an operator deleted them, or their retention expired. */
  readonly deleted: number
}

/**
 * Jobs that were stored together, and the follow-up that is enqueued once when all of them have ended. Instants are epoch
 * milliseconds.
 */
export interface Batch {
  /** UUID that was generated, or chosen by the caller. */
  readonly id: BatchId
  /** Name that lists show. */
  readonly name: string | undefined
  /** When the batch was stored. */
  readonly createdAt: number
  /** When all jobs had ended; the counts are those of that moment. */
  readonly closedAt: number | undefined
  /** Number of jobs that the batch has had, including deleted ones. */
  readonly total: number
  /** Number of jobs by outcome. */
  readonly counts: BatchCounts
  readonly followUp: FollowUp | undefined
  /** The job that was enqueued when the batch was closed. */
  readonly followUpId: string | undefined
}

/** A batch whose follow-up has the fields that callers see. */
export interface DescribedBatch extends Omit<Batch, "followUp" | "followUpId"> {
  /** Job to enqueue once all jobs of the batch have ended. */
  readonly followUp:
    | {
        /** Kind of the follow-up. */
        readonly kind: string
        /** Queue that the follow-up waits in. */
        readonly queue: string
        /** Id of its job, once it is enqueued. */
        readonly id: JobId | undefined
      }
    | undefined
}
