import { Clock, Duration, Effect, Layer, Option } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId, type JobId } from "../../core/Ids.js"
import { storableText } from "../../core/Storable.js"
import { type StoredJob, stateOf } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { JobAdmin, undoFor } from "../JobAdmin.js"
import type { DedupeKeyHeld, JobNotFound, JobNotInState, UndoRefused } from "../JobErrors.js"
import { isExecution } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import { matches } from "../search/JobMatch.js"
import { isFor } from "./OperationScope.js"
import {
  batchLimits,
  isUndoable,
  type NewOperation,
  type Operation,
  OperationNotFound,
  OperationNotUndoable,
  Operations,
  operationTopic,
  whyNotUndoable
} from "./Operations.js"
import * as Rehearsal from "./Rehearsal.js"

interface Row {
  readonly operation: Operation
  readonly ids: ReadonlyArray<JobId> | undefined
  readonly lastId: string
  readonly reached: string
}

/** An operation that has done nothing yet. */
const begun = (
  id: string,
  { reason, who, ...more }: Pick<Operation, "action" | "reason" | "total" | "who"> & Partial<Operation>,
  now: number
): Operation => ({
  id,
  undoes: undefined,
  undoable: false,
  status: "running",
  who: storableText(who, 200),
  reason: reason === undefined ? undefined : storableText(reason, 1_000),
  filter: undefined,
  createdAt: now,
  updatedAt: now,
  finishedAt: undefined,
  done: 0,
  skipped: {},
  failed: 0,
  rehearsal: undefined,
  error: undefined,
  ...more
})

const make = Effect.gen(function* () {
  const table = yield* JobTable
  const jobAdmin = yield* JobAdmin
  const hints = yield* Hints
  const rows = new Map<string, Row>()
  /** The jobs that each operation changed and that can be restored. */
  const keptJobs = new Map<string, Array<JobId>>()
  const turn = yield* Effect.makeSemaphore(1)

  /** The jobs that the operation has not visited yet, by id. */
  const left = ({ ids, lastId, operation, reached }: Row, now: number): ReadonlyArray<JobId> =>
    (
      ids ??
      [...table.rows()]
        .filter((row) => row.id <= lastId && row.createdAt <= operation.createdAt)
        .filter((row) => matches(row, operation.filter ?? {}, now))
        .map(({ id }) => id)
        .sort()
    ).filter((id) => id > reached)

  const act = (
    { action, id: operation, undoable, undoes = "" }: Operation,
    id: JobId
  ): Effect.Effect<StoredJob, JobNotFound | JobNotInState | DedupeKeyHeld | UndoRefused | DatabaseError> => {
    const admin = undoable ? jobAdmin.recordingUndo(operation) : jobAdmin
    switch (action) {
      case "cancel":
        return admin.cancel(id)
      case "requeue":
        return admin.requeue(id)
      case "run-now":
        return admin.runNow(id)
      case "delete":
        return admin.remove(id)
      case "undo":
        return jobAdmin.undo(id, undoes)
    }
  }

  /** Returns undefined on success, otherwise the reason for skipping. */
  const skipReasonOf = (operation: Operation, id: JobId, now: number): Effect.Effect<string | undefined> => {
    const row = table.get(id)
    const { action } = operation
    if (action !== "undo") {
      if (row === undefined) return Effect.succeed("not_found")
      if (!isFor(action, stateOf(row, now))) return Effect.succeed(row.status)
    }
    const wasRunning = row?.status === "running"
    return act(operation, id).pipe(
      Effect.map(() => {
        if (operation.undoable && !wasRunning) {
          const kept = keptJobs.get(operation.id) ?? []
          kept.push(id)
          keptJobs.set(operation.id, kept)
        }
        return undefined
      }),
      Effect.catchTag("DedupeKeyHeld", () => Effect.succeed(action === "undo" ? "changed" : "dedupe_key_held")),
      Effect.catchTag("UndoRefused", () => Effect.succeed("changed")),
      Effect.catchTag("JobNotInState", ({ erasedAt, state }) =>
        Effect.succeed(erasedAt === undefined ? state : "erased")
      ),
      Effect.orDie
    )
  }

  /** A requeue takes the newest first: of several jobs with the same key the newest gets it. */
  const runBatch = (operation: Operation, ids: ReadonlyArray<JobId>, now: number) =>
    Effect.forEach(operation.action === "requeue" ? ids.toReversed() : ids, (id) => skipReasonOf(operation, id, now))

  const runNextBatch = (row: Row, now: number) =>
    Effect.gen(function* () {
      const { rehearsal } = row.operation
      const missing = rehearsal === undefined ? 0 : Rehearsal.missing(rehearsal)
      const size = missing || batchLimits.jobs
      const ids = left(row, now).slice(0, size)
      const skipReasons = yield* runBatch(row.operation, ids, now)
      const taken = row.operation.action === "requeue" ? ids.toReversed() : ids
      const changed = taken.filter((_, place) => skipReasons[place] === undefined)
      const skipped: Record<string, number> = { ...row.operation.skipped }
      for (const why of skipReasons) if (why !== undefined) skipped[why] = (skipped[why] ?? 0) + 1
      const isLast = ids.length < size
      const operation: Operation = {
        ...row.operation,
        done: row.operation.done + skipReasons.filter((why) => why === undefined).length,
        skipped,
        rehearsal:
          rehearsal === undefined || missing === 0 ? rehearsal : { ...rehearsal, ids: [...rehearsal.ids, ...changed] },
        updatedAt: now,
        status: isLast ? "done" : "running",
        finishedAt: isLast ? now : undefined
      }
      rows.set(operation.id, { ...row, operation, reached: ids.at(-1) ?? row.reached })
      return operation
    })

  /** Looks at the jobs of a rehearsal. Returns undefined if nothing has changed since the last look. */
  const judgeRehearsal = (row: Row, rehearsal: Rehearsal.Rehearsal, now: number): Operation | undefined => {
    const { operation } = row
    const judged = Rehearsal.judge(
      rehearsal,
      rehearsal.ids.flatMap((id) => {
        const job = table.get(id)
        if (job === undefined) return []
        const isOfStep = isExecution(job) && job.unknownSince === undefined && !job.cut
        return { ...job, isDying: job.dying !== undefined, isOfStep }
      }),
      now - operation.updatedAt
    )
    if (judged.error === undefined && JSON.stringify(judged.rehearsal) === JSON.stringify(rehearsal)) return undefined
    const next: Operation = {
      ...operation,
      rehearsal: judged.rehearsal,
      updatedAt: now,
      ...(judged.error === undefined ? {} : { status: "failed", finishedAt: now, error: judged.error })
    }
    rows.set(operation.id, { ...row, operation: next })
    return next
  }

  const begin = ({ action, reason, rehearse, target, who }: NewOperation) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const id = table.ids.plain(now)
      const ids = target.ids === undefined ? undefined : [...new Set(target.ids)].sort()
      const count = ids?.length ?? [...table.rows()].filter((row) => matches(row, target.filter ?? {}, now)).length
      const total = { count, exact: true }
      const undoable = isUndoable(action, total)
      const rehearsal = rehearse === undefined ? undefined : Rehearsal.begin(rehearse)
      const operation = begun(id, { action, reason, who, undoable, filter: target.filter, total, rehearsal }, now)
      const lastId = [...table.rows()].reduce((last, row) => (row.id > last ? row.id : last), "")
      rows.set(id, { operation, ids, lastId, reached: "" })
      yield* hints.publish(operationTopic, id)
      return operation
    })

  const undo: typeof Operations.Service.undo = (source, { reason, who }) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const row = rows.get(source)
      if (row === undefined) return yield* new OperationNotFound({ id: source })
      const isUndone = [...rows.values()].some(
        ({ operation }) => operation.undoes === source && ["running", "done"].includes(operation.status)
      )
      const isExpired = now - (row.operation.finishedAt ?? now) > Duration.toMillis(undoFor)
      const jobs = isExpired ? [] : (keptJobs.get(source) ?? []).toSorted()
      const why = whyNotUndoable(row.operation, { isUndone, kept: jobs.length, now })
      if (why !== undefined) return yield* new OperationNotUndoable({ id: source, why })
      const id = table.ids.plain(now)
      const total = { count: jobs.length, exact: true }
      const operation = begun(id, { action: "undo", reason, who, undoes: source, total }, now)
      rows.set(id, { operation, ids: jobs, lastId: jobs.at(-1) ?? "", reached: "" })
      yield* hints.publish(operationTopic, id)
      return operation
    })

  const get = (id: string) => {
    const row = rows.get(id)
    return row === undefined ? new OperationNotFound({ id }) : Effect.succeed(row.operation)
  }

  return Operations.of({
    begin,
    undo,
    step: (id) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const open = [...rows.values()].filter(
          ({ operation }) => operation.status === "running" && (id === undefined || operation.id === id)
        )
        for (const row of open.sort((a, b) => a.operation.updatedAt - b.operation.updatedAt)) {
          if (!Rehearsal.isWaiting(row.operation.rehearsal)) return Option.some(yield* runNextBatch(row, now))
          const judged = judgeRehearsal(row, row.operation.rehearsal, now)
          if (judged !== undefined) return Option.some(judged)
        }
        return Option.none()
      }).pipe(turn.withPermits(1)),
    get: (id) => Effect.suspend(() => get(id)),
    list: ({ cursor, limit }) =>
      Effect.suspend(() => {
        if (cursor !== undefined && !isId(cursor)) return new BadCursor({ cursor })
        const found = [...rows.values()]
          .map(({ operation }) => operation)
          .filter(({ id }) => cursor === undefined || id < cursor)
          .sort((a, b) => (a.id < b.id ? 1 : -1))
        const operations = found.slice(0, limit)
        return Effect.succeed({ operations, next: found.length > limit ? operations.at(-1)?.id : undefined })
      }),
    cancel: (id) =>
      Effect.flatMap(Clock.currentTimeMillis, (now) => {
        const row = rows.get(id)
        if (row?.operation.status === "running") {
          rows.set(id, {
            ...row,
            operation: { ...row.operation, status: "cancelled", updatedAt: now, finishedAt: now }
          })
        }
        return get(id)
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const before = now - Duration.toMillis(olderThan)
        const old = [...rows.values()].filter(({ operation }) => (operation.finishedAt ?? now) < before)
        for (const { operation } of old) {
          rows.delete(operation.id)
          keptJobs.delete(operation.id)
        }
        return old.length
      })
  })
})

export const layer: Layer.Layer<Operations, never, JobTable | JobAdmin | Hints> = Layer.effect(Operations, make)
