import { Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Status } from "../../core/StoredJob.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import * as SqlArrays from "../SqlArrays.js"
import * as TreeLockSql from "./TreeLockSql.js"
import * as WorkflowSql from "./WorkflowSql.js"

/** A job below a cancelled execution. Pending plain jobs are dead; for all others, cancellation was requested. */
export interface CancelledBelow {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly status: Status
}

/**
 * Effects of the end or requeue of a job on the executions that wait for it or that it started. The caller runs each in the
 * transaction that ends or requeues the jobs, after the statement that does so: only a newer snapshot shows links that were
 * added while that statement waited.
 */
export interface CountedEnds {
  /** Locks the jobs that an action on these jobs reaches, in descending order of their ids. The first statement of the action. */
  readonly lock: (action: "requeue" | "end", ids: ReadonlyArray<JobId>) => Effect.Effect<void, DatabaseError>
  /** Completes the errors of executions that ended without undoing all of their steps. */
  readonly nameNotUndone: (ids: ReadonlyArray<JobId>) => Effect.Effect<void, DatabaseError>
  /** Counts ended or deleted jobs. Returns the queues of executions that woke up. */
  readonly count: (ids: ReadonlyArray<JobId>, now: number) => Effect.Effect<ReadonlyArray<string>, DatabaseError>
  /** Cancels the jobs that these executions started and wait for. Saves their previous state as `requeueBelow` does. */
  readonly cancelBelow: (
    ids: ReadonlyArray<JobId>,
    now: number,
    act: string | null
  ) => Effect.Effect<ReadonlyArray<CancelledBelow>, DatabaseError>
  /**
   * Requeues the dead children of requeued executions, at any depth, and makes their parents wait for them again, and for
   * children that were requeued before. The previous state of the children is saved under the action's id, if it has one.
   */
  readonly requeueBelow: (
    ids: ReadonlyArray<JobId>,
    now: number,
    act: string | null
  ) => Effect.Effect<ReadonlyArray<{ readonly id: JobId; readonly queue: string }>, DatabaseError>
  /**
   * Connects restored jobs with their parents and children again: a parent that has not used the end of a child waits for
   * it again, and waits that ended meanwhile are completed. `later` are jobs that the same undo restores after these.
   * Returns the queues of executions that woke up.
   */
  readonly reconnect: (
    restored: ReadonlyArray<JobId>,
    now: number,
    later: { readonly act: string; readonly after: string }
  ) => Effect.Effect<ReadonlyArray<string>, DatabaseError>
}

export const make = ({ schema, sql }: typeof Database.Service): CountedEnds => {
  const statements = WorkflowSql.make(schema)
  const locks = TreeLockSql.make(schema)

  const count: CountedEnds["count"] = (ids, now) =>
    ids.length === 0
      ? Effect.succeed([])
      : Effect.map(
          mapErrors(sql.unsafe<{ queue: string }>(statements.countEnds, [SqlArrays.ofPlain(ids), now])),
          (rows) => rows.map(({ queue }) => queue)
        )

  return {
    lock: (action, ids) =>
      Effect.asVoid(
        mapErrors(sql.unsafe(action === "end" ? locks.lockToEnd : locks.lockToRequeue, [SqlArrays.ofPlain(ids)]))
      ),
    count,
    nameNotUndone: (ids) =>
      ids.length === 0
        ? Effect.void
        : Effect.asVoid(mapErrors(sql.unsafe(statements.nameNotUndone, [SqlArrays.ofPlain(ids)]))),
    cancelBelow: (ids, now, act) =>
      mapErrors(sql.unsafe<CancelledBelow>(statements.cancelBelow, [SqlArrays.ofPlain(ids), now, act])),
    requeueBelow: (ids, now, act) =>
      Effect.gen(function* () {
        if (ids.length === 0) return []
        const below = yield* mapErrors(
          sql.unsafe<{ id: JobId; queue: string }>(statements.requeueBelow, [SqlArrays.ofPlain(ids), now, act])
        )
        // A second statement: it must see the requeued children, and those that another transaction has just requeued.
        const parents = [...ids, ...below.map(({ id }) => id)]
        yield* mapErrors(sql.unsafe(statements.awaitAgain, [SqlArrays.ofPlain(parents), now]))
        return below
      }),
    reconnect: (restored, now, { act, after }) =>
      Effect.gen(function* () {
        if (restored.length === 0) return []
        const ids = SqlArrays.ofPlain(restored)
        yield* mapErrors(sql.unsafe(statements.awaitRestored, [ids, now]))
        const open = yield* mapErrors(sql.unsafe<{ child: JobId }>(statements.openChildren, [ids, act, after]))
        const woken = yield* count([...restored, ...open.map(({ child }) => child)], now)
        const due = yield* mapErrors(sql.unsafe<{ queue: string }>(statements.wakeRestored, [ids, now]))
        return [...woken, ...due.map(({ queue }) => queue)]
      })
  }
}
