import { Context, type Duration, type Effect, Schema } from "effect"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { Range } from "./TimeGrid.js"

// What kept the due jobs of a queue from starting. Stored per queue and only when it changes, by the leader: a reason per
// job would cost a write for every job that waits.

export const WaitReason = Schema.Literal(
  "paused",
  "no_pod",
  "cooling_down",
  "rate_limited",
  "key_busy",
  "waiting_for_slot"
)
export type WaitReason = typeof WaitReason.Type

/** A time in which due jobs of a queue waited for one reason. Times are epoch milliseconds. */
export interface QueueWait {
  readonly queue: string
  readonly reason: WaitReason
  readonly since: number
  /** Undefined if the wait has not ended. */
  readonly until: number | undefined
}

/** Maximum number of waits that `during` returns. */
export const maxWaits = 100

/** When queues had due jobs that no slot could run, and why. */
export class QueueWaits extends Context.Tag("nightshift/history/QueueWaits")<
  QueueWaits,
  {
    /** The waits that have not ended, by queue. */
    readonly open: Effect.Effect<ReadonlyArray<QueueWait>, DatabaseError>

    /** Ends the open waits of these queues now, and starts new ones where there is a reason. */
    readonly change: (
      changes: ReadonlyArray<{
        /** Name of the queue whose jobs wait, or no longer wait. */
        readonly queue: string
        /** Why its due jobs wait now. Undefined if they do not wait. */
        readonly reason: WaitReason | undefined
      }>
    ) => Effect.Effect<void, DatabaseError>

    /** Waits of a queue that overlap a range, oldest first. If there are too many, only the latest. */
    readonly during: (queue: string, range: Range) => Effect.Effect<ReadonlyArray<QueueWait>, DatabaseError>

    /** Deletes waits that ended longer ago than this. Returns the number of rows deleted. */
    readonly purge: (olderThan: Duration.Duration) => Effect.Effect<number, DatabaseError>
  }
>() {}
