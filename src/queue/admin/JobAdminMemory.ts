import { Clock, Duration, Effect, Either, Layer } from "effect"
import type { JobId } from "../../core/Ids.js"
import { type State, type Status, type StoredJob, stateOf, waitingStates } from "../../core/StoredJob.js"
import { erasedAtOf, subjectOf } from "../../core/Subject.js"
import { Hints } from "../../database/Hints.js"
import { cancelTopic, type JobActions, JobAdmin, type JobEdit, startedPayload } from "../JobAdmin.js"
import { DedupeKeyHeld, JobNotFound, JobNotInState, UndoRefused } from "../JobErrors.js"
import { blank, isExecution, type JobRow, toStored } from "../JobRowMemory.js"
import { JobTable } from "../JobTableMemory.js"
import { LogTable } from "../logs/JobLogsMemory.js"
import { admit } from "../NewJob.js"
import type { ExecutionRecords } from "../workflow/ExecutionRecords.js"
import { WorkflowTable } from "../workflow/WorkflowTableMemory.js"

type Table = typeof JobTable.Service
type Workflows = typeof WorkflowTable.Service
type Logs = typeof LogTable.Service

const states: Readonly<Record<Status, ReadonlyArray<State>>> = {
  pending: waitingStates,
  running: ["running"],
  done: ["done"],
  dead: ["dead", "cancelled"]
}

/** Applies a change to a job that exists and is in one of the allowed statuses. */
const act =
  (table: Table, name: string, allowed: ReadonlyArray<Status>) =>
  <E>(id: JobId, change: (row: JobRow, now: number) => Either.Either<JobRow, E>) =>
    Effect.flatten(
      table.atomically((now): Either.Either<StoredJob, E | JobNotFound | JobNotInState> => {
        const row = table.get(id)
        if (row === undefined) return Either.left(new JobNotFound({ id }))
        if (!allowed.includes(row.status)) {
          const refusal = { id, act: name, state: stateOf(row, now), allowed: allowed.flatMap((each) => states[each]) }
          return Either.left(new JobNotInState(refusal))
        }
        return Either.map(change(row, now), (changed) => toStored(changed, now))
      })
    )

const stored = (table: Table, row: JobRow) => {
  table.put(row)
  return Either.right(row)
}

const cancelOne = (table: Table, workflows: Workflows, row: JobRow, now: number): JobRow => {
  if (row.finishedAt !== undefined || row.cancelRequestedAt !== undefined) return row
  const next = workflows.cancelled(row, now)
  if (next.status === "dead") {
    table.putDead(next, now)
    table.tally.of(row.queue, row.kind).died(1, "cancelled", now)
  } else table.put(next)
  return next
}

type OnBelow = (before: JobRow, after: JobRow) => void

/** Cancels a job and, if it is an execution, its children. */
const cancelled = (table: Table, workflows: Workflows, row: JobRow, now: number, onBelow: OnBelow): JobRow => {
  const next = cancelOne(table, workflows, row, now)
  for (const child of workflows.below(row)) {
    const after = cancelOne(table, workflows, child, now)
    if (after !== child) onBelow(child, after)
  }
  return next
}

const requeued = (
  table: Table,
  workflows: Workflows,
  row: JobRow,
  now: number,
  onBelow: OnBelow
): Either.Either<JobRow, DedupeKeyHeld | JobNotInState> => {
  const erasedAt = row.meta === undefined ? undefined : erasedAtOf(JSON.parse(row.meta))
  if (erasedAt !== undefined) {
    const { id } = row
    return Either.left(new JobNotInState({ id, act: "requeue", state: stateOf(row, now), allowed: [], erasedAt }))
  }
  const holder = row.dedupe === undefined ? undefined : table.holderOf(row.dedupe.key)
  if (holder !== undefined && holder.id !== row.id) {
    return Either.left(new DedupeKeyHeld({ id: row.id, holder: holder.id }))
  }
  const { batch, deathCount, history } = row
  workflows.reopenFailed(row, now)
  const woken = isExecution(row) ? (row.woken ?? 0) + 1 : row.woken
  const next = stored(table, { ...row, ...blank, batch, deathCount, history, woken, runAt: now, updatedAt: now })
  workflows.requeueBelow(row, now, (child) => {
    const after = requeued(table, workflows, child, now, onBelow)
    if (Either.isRight(after)) onBelow(child, after.right)
  })
  return next
}

const edited = (table: Table, workflows: Workflows, row: JobRow, edit: JobEdit, now: number) => {
  const hasStarted = isExecution(row) && (row.woken !== 0 || workflows.stepsOf(row.id).length > 0)
  if (edit.payload !== undefined && hasStarted) return Either.left(startedPayload)
  const { id, kind, attempts, queue, version } = row
  const whole = {
    id,
    kind,
    attempts,
    queue,
    version,
    payload: edit.payload === undefined ? JSON.parse(row.payload) : edit.payload,
    priority: edit.priority ?? row.priority,
    runAt: edit.runAt ?? row.runAt
  }
  return Either.flatMap(admit(whole, { ids: table.ids, now }), ({ payload, priority, runAt }) =>
    stored(table, { ...row, payload, priority, runAt, updatedAt: now })
  )
}

/** A job before and after an action; without `after` if the action deleted it. */
interface UndoRecord {
  readonly before: JobRow
  readonly after: JobRow | undefined
  readonly at: number
  /** The job was requeued or cancelled with its parent, and is restored with it. */
  readonly below: boolean
  /** The state of a deleted execution. */
  readonly execution?: ExecutionRecords | undefined
  /** The logs of a deleted job. */
  readonly logs?: ReturnType<Logs["of"]> | undefined
}

/** The records of one act, and the jobs whose restore was refused. */
interface ActRecords {
  readonly jobs: Map<JobId, UndoRecord>
  readonly refused: Set<JobId>
}

/** Whether the job is as the action left it. A wake-up is no change. */
const isUnchanged = (row: JobRow | undefined, after: JobRow | undefined) =>
  row === after || (row?.updatedAt === after?.updatedAt && row?.status === after?.status)

/** Restores the job if it has not changed since the action. */
const restored = (
  table: Table,
  id: JobId,
  kept: UndoRecord | undefined,
  now: number
): Either.Either<JobRow, UndoRefused | DedupeKeyHeld> => {
  const row = table.get(id)
  if (kept === undefined) return Either.left(new UndoRefused({ id, why: "forgotten" }))
  if (!isUnchanged(row, kept.after)) return Either.left(new UndoRefused({ id, why: "changed" }))
  const { dedupe } = kept.before
  const holder = dedupe === undefined ? undefined : table.holderOf(dedupe.key)
  const isHeld = holder !== undefined && holder.id !== id
  if (isHeld && (dedupe?.scope === "retained" || kept.before.finishedAt === undefined)) {
    return Either.left(new DedupeKeyHeld({ id, holder: holder.id }))
  }
  return stored(table, row === undefined ? kept.before : { ...kept.before, woken: row.woken, updatedAt: now })
}

/**
 * Restores the children that were requeued or cancelled with a restored parent, and the children of those. A requeued
 * child stays if another execution waits for it.
 */
const restoreBelow = (
  table: Table,
  workflows: Workflows,
  parent: JobRow,
  jobs: Map<JobId, UndoRecord>,
  now: number
): void => {
  const execution = isExecution(parent) ? parent.dedupe?.key : undefined
  if (execution === undefined) return
  for (const { child } of workflows.linksOf(execution)) {
    const kept = jobs.get(child)
    const row = table.get(child)
    if (kept?.below !== true || row === undefined || !isUnchanged(row, kept.after)) continue
    if (kept.before.finishedAt !== undefined && workflows.isAwaited(child)) continue
    const before = { ...kept.before, woken: row.woken, updatedAt: now }
    table.put(before)
    jobs.delete(child)
    restoreBelow(table, workflows, before, jobs, now)
    workflows.reconnect(before, (id) => jobs.has(id), now)
  }
}

const make = (table: Table, workflows: Workflows, logs: Logs, hints: typeof Hints.Service): typeof JobAdmin.Service => {
  const cancel = act(table, "cancel", ["pending", "running", "dead"])
  const requeue = act(table, "requeue", ["done", "dead"])
  const runNow = act(table, "run now", ["pending"])
  const edit = act(table, "edit", ["pending"])
  const remove = act(table, "remove", ["pending", "done", "dead"])
  const acts = new Map<string, ActRecords>()
  const recordsOf = (act: string): ActRecords => acts.get(act) ?? { jobs: new Map(), refused: new Set() }

  const keep = (act: string, kept: UndoRecord) => {
    const records = recordsOf(act)
    acts.set(act, records)
    const { jobs } = records
    const known = jobs.get(kept.before.id)
    if (known === undefined) jobs.set(kept.before.id, kept)
    // One act reached the job twice, as a child and by its own id, and nothing changed it in between.
    else if (isUnchanged(kept.before, known.after))
      jobs.set(kept.before.id, { ...known, after: kept.after, at: kept.at, below: known.below && kept.below })
  }

  const keepBelow =
    (act: string | undefined, now: number): OnBelow =>
    (before, after) => {
      if (act !== undefined && before.status !== "running") keep(act, { before, after, at: now, below: true })
    }

  /** Keeps the row before a change that succeeds. A running job cannot be restored. */
  const savingUndo = <E>(
    kept: string | undefined,
    deletes: boolean,
    change: (row: JobRow, now: number) => Either.Either<JobRow, E>
  ) => {
    if (kept === undefined) return change
    return (row: JobRow, now: number) => {
      const deleted = deletes ? { execution: workflows.recordsOf(row), logs: logs.of(row.id) } : {}
      return Either.map(change(row, now), (changed) => {
        if (row.status === "running" || (!deletes && changed === row)) return changed
        keep(kept, { before: row, after: deletes ? undefined : changed, at: now, below: false, ...deleted })
        return changed
      })
    }
  }
  const actions = (kept: string | undefined): JobActions => ({
    cancel: (id) =>
      Effect.tap(
        cancel(
          id,
          savingUndo(kept, false, (row, now) =>
            Either.right(cancelled(table, workflows, row, now, keepBelow(kept, now)))
          )
        ),
        () => {
          const row = table.get(id)
          const all = row === undefined ? [] : [row, ...workflows.below(row)]
          const running = all.filter(({ status }) => status === "running")
          return Effect.forEach(running, (job) => hints.publish(cancelTopic, job.id), { discard: true })
        }
      ),
    requeue: (id) =>
      requeue(
        id,
        savingUndo(kept, false, (row, now) => requeued(table, workflows, row, now, keepBelow(kept, now)))
      ),
    // A job that is already due keeps its position in the queue.
    runNow: (id) =>
      runNow(
        id,
        savingUndo(kept, false, (row, now) =>
          stored(table, { ...row, runAt: Math.min(row.runAt, now), updatedAt: now })
        )
      ),
    remove: (id) =>
      remove(
        id,
        savingUndo(kept, true, (row) => {
          table.remove(row)
          return Either.right(row)
        })
      )
  })

  return {
    ...actions(undefined),
    recordingUndo: actions,
    edit: (id, change) => edit(id, (row, now) => edited(table, workflows, row, change, now)),
    undo: (id, kept) =>
      Effect.flatten(
        table.atomically((now) => {
          const { jobs, refused } = recordsOf(kept)
          const own = jobs.get(id)
          return Either.mapBoth(restored(table, id, own?.below === true ? undefined : own, now), {
            onLeft: (error) => {
              // An execution that was restored earlier waits for this job, which is not restored.
              refused.add(id)
              if (table.get(id) === undefined) workflows.countEnd(id, now)
              return error
            },
            onRight: (row) => {
              jobs.delete(id)
              if (own?.execution !== undefined) workflows.revive(row, own.execution)
              if (own?.logs !== undefined) logs.restore(id, own.logs)
              restoreBelow(table, workflows, row, jobs, now)
              workflows.reconnect(row, (child) => jobs.has(child) && !refused.has(child), now)
              return toStored(table.get(id) ?? row, now)
            }
          })
        })
      ),
    undoable: (acts) =>
      Effect.sync(
        () =>
          new Set(
            acts.filter((act) =>
              [...recordsOf(act).jobs].some(([id, { after, below }]) => !below && isUnchanged(table.get(id), after))
            )
          )
      ),
    eraseUndo: (subject, act) =>
      Effect.sync(() => {
        let count = 0
        const isOwn = ({ meta }: JobRow) => meta !== undefined && subjectOf(JSON.parse(meta)) === subject
        for (const { jobs } of acts.values())
          for (const [id, { before }] of jobs) {
            if (!isOwn(before)) continue
            count += 1
            if (act === "erase") jobs.delete(id)
          }
        for (const [key, { dead }] of table.dueFollowUps) {
          if (!isOwn(dead)) continue
          count += 1
          if (act === "erase") table.dueFollowUps.delete(key)
        }
        return count
      }),
    pruneUndo: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        let gone = 0
        for (const [kept, { jobs }] of acts) {
          // An operation may take long. Its jobs are kept together.
          if ([...jobs.values()].some(({ at }) => at >= now - Duration.toMillis(olderThan))) continue
          gone += jobs.size
          acts.delete(kept)
        }
        return gone
      })
  }
}

export const layer: Layer.Layer<JobAdmin, never, JobTable | WorkflowTable | LogTable | Hints> = Layer.effect(
  JobAdmin,
  Effect.gen(function* () {
    return make(yield* JobTable, yield* WorkflowTable, yield* LogTable, yield* Hints)
  })
)
