import * as SqlClient from "@effect/sql/SqlClient"
import type * as Statement from "@effect/sql/Statement"
import { Clock, Effect, Either, Layer, Option } from "effect"
import { floorOf, isId, type JobId } from "../../core/Ids.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import { isWaiting, limits, type State, type StoredJob, waitingStates } from "../../core/StoredJob.js"
import { erasedAtOf, subjectKey } from "../../core/Subject.js"
import { Database } from "../../database/Database.js"
import { DatabaseConflict, isContention, mapErrors } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { purged } from "../../database/Purge.js"
import { fragments, instant } from "../../database/SqlInstant.js"
import { eraseBatch } from "../../database/SubjectText.js"
import { Tally } from "../../telemetry/Tally.js"
import { cancelTopic, type JobActions, JobAdmin, type JobEdit, startedPayload } from "../JobAdmin.js"
import { DedupeKeyHeld, JobNotFound, JobNotInState, UndoRefused } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import { faultOfPriority, faultOfRunAt, jsonText } from "../NewJob.js"
import { Notifier } from "../Notifier.js"
import * as SqlArrays from "../SqlArrays.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"
import { JobSearch } from "../search/JobSearch.js"
import { afterCommit } from "../Transactions.js"
import * as CountedEnds from "../workflow/CountedEnds.js"
import { isKept, keep } from "../workflow/KeepSql.js"
import { isWhole, reopenFailed, requeueSet } from "../workflow/RetrySql.js"
import { cancelSet, forgotten, stepTables } from "../workflow/WorkflowSql.js"
import { deletable } from "./OperationSql.js"
import type { Action } from "./Operations.js"
import * as RestorePg from "./RestorePg.js"

const undoBatch = 1_000

/** Locks the job if it is in an accepted status, changes it, and saves its previous state under the act id `$3`. */
const acting = (schema: string, action: Action, condition: string, change: string, also?: string) => `
  with chosen as (select * from ${schema}.job where id = $1 and ${condition} for update),
  changed as (${change}),
  kept as (${keep(schema, action)})${also === undefined ? "" : `, ${also}`}
  select * from changed`

const statementsOf = (schema: string) => ({
  // A job cancelled before it started stores no follow-up.
  cancel: acting(
    schema,
    "cancel",
    "status in ('pending', 'running')",
    `update ${schema}.job j set ${cancelSet(instant("$2"))}, updated_at = ${instant("$2")}
  from chosen where j.id = chosen.id
  returning ${storedColumns}`
  ),

  requeue: acting(
    schema,
    "requeue",
    `status in ('done', 'dead') and ${isWhole("job")}`,
    `update ${schema}.job j set ${requeueSet(instant("$2"))}, updated_at = ${instant("$2")}
  from chosen where j.id = chosen.id
  returning ${storedColumns}`,
    reopenFailed(schema, "chosen", instant("$2"))
  ),

  edit: `
  update ${schema}.job j
  set payload = coalesce($3::jsonb, j.payload), priority = coalesce($4::smallint, j.priority),
    run_at = coalesce(${instant("$5")}, j.run_at), updated_at = ${instant("$2")}
  where j.id = $1 and j.status = 'pending' and ($3::jsonb is null or j.woken is null or j.woken = 0
    and not exists (select from ${schema}.workflow_step s where s.job_id = j.id))
  returning ${storedColumns}`,

  // A job that is already due keeps its position in the queue.
  runNow: acting(
    schema,
    "run-now",
    "status = 'pending'",
    `update ${schema}.job j set run_at = least(j.run_at, ${instant("$2")}),
    updated_at = ${instant("$2")}
  from chosen where j.id = chosen.id
  returning ${storedColumns}`
  ),

  remove: acting(
    schema,
    "delete",
    deletable,
    `delete from ${schema}.job j using chosen where j.id = chosen.id returning ${storedColumns}`,
    forgotten(schema, "chosen", isKept)
  ),

  hasRecord: `select 1 from ${schema}.job_undo where act = $1 and job_id = $2 and not below`,

  // The acts `$1` whose job is as they left it. A cancelled execution stays pending until its next run.
  undoable: `
  select u.act from ${schema}.job_undo u left join ${schema}.job j on j.id = u.job_id
  where u.act = any($1::uuid[]) and not u.below and case
    when u.action = 'delete' then j.id is null
    else j.updated_at = u.at and (j.status = 'pending' or u.action = 'cancel' and j.status = 'dead') end`,

  // The holder of the dedupe key of a job, which may have been deleted.
  keptHolder: `
  select other.id from ${schema}.job_undo u
  join ${schema}.job other on other.dedupe_key = u.before->>'dedupe_key' and other.id <> u.job_id
  where u.act = $1 and u.job_id = $2 and (other.dedupe_scope = 'retained' or other.finished_at is null)`,

  holder: `
  select other.id from ${schema}.job j join ${schema}.job other on other.dedupe_key = j.dedupe_key and other.id <> j.id
  where j.id = $1 and (other.dedupe_scope = 'retained' or other.finished_at is null)`
})

const faultOfEdit = (edit: JobEdit) => {
  const priority = edit.priority === undefined ? undefined : faultOfPriority(edit.priority)
  if (priority !== undefined) return new InvalidJob({ index: 0, field: "priority", reason: priority })
  const runAt = edit.runAt === undefined ? undefined : faultOfRunAt(edit.runAt)
  return runAt === undefined ? undefined : new InvalidJob({ index: 0, field: "runAt", reason: runAt })
}

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql, transaction } = database
  const counted = CountedEnds.make(database)
  const search = yield* JobSearch
  const notifier = yield* Notifier
  const tally = yield* Tally
  const hints = yield* Hints
  const statements = statementsOf(schema)
  const undos = sql(`${schema}.job_undo`)
  const restoring = RestorePg.make(database, counted)

  const act = (
    name: string,
    allowed: ReadonlyArray<State>,
    id: JobId,
    text: string,
    more: ReadonlyArray<unknown> = []
  ) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const parameters = [id, now, ...more]
      const rows = yield* mapErrors(sql.unsafe<StoredJobRow>(text, parameters))
      const row = rows[0]
      if (row !== undefined) return toStoredJob(row, now)
      const { meta, queue, state } = yield* search.get(id)
      const movingFrom = name === "delete" && queue.includes(">") ? queue.split(">", 1)[0] : undefined
      const erasedAt = erasedAtOf(meta)
      return yield* new JobNotInState({ id, act: name, state, allowed: [...allowed], erasedAt, movingFrom })
    })

  /**
   * Notifies workers and callers that wait for this job. In a caller's transaction the notification is sent at commit.
   */
  const notifying = <E>(changed: Effect.Effect<StoredJob, E>) => Effect.tap(changed, ({ queue }) => notify([queue]))

  /** Runs a transaction, again after a conflict with another one. In a caller's transaction the conflict is the caller's. */
  const alone = <A, E>(effect: Effect.Effect<A, E>) =>
    Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
      Effect.retry(transaction(effect), { times: Option.isSome(outer) ? 0 : 3, while: isContention })
    )

  /** Wakes executions that waited for a cancelled or deleted job, in the transaction of the action. */
  const wakingWaiters = <E>(act: Effect.Effect<StoredJob, E>) =>
    alone(
      Effect.flatMap(act, (job) => Effect.map(counted.count([job.id], job.updatedAt), (queues) => ({ job, queues })))
    ).pipe(
      Effect.flatMap(({ job, queues }) => (queues.length === 0 ? Effect.succeed(job) : Effect.as(notify(queues), job)))
    )

  /** Cancels the children of a cancelled execution. Returns the running jobs to announce. */
  const cancelBelow = (job: StoredJob, act: string | null) =>
    Effect.gen(function* () {
      if (job.execution === undefined) return []
      const now = job.updatedAt
      const below = yield* counted.cancelBelow([job.id], now, act)
      const dead = below.filter(({ status }) => status === "dead")
      yield* afterCommit(() => {
        for (const { kind, queue } of dead) tally.of(queue, kind).died(1, "cancelled", now)
      })
      const woken = yield* counted.count(
        dead.map(({ id }) => id),
        now
      )
      yield* notify([...below.map(({ queue }) => queue), ...woken])
      return below.filter(({ status }) => status === "running").map(({ id }) => id)
    })

  /** Requeues the failed children of a requeued execution, which waits for them again. */
  const requeueBelow = (job: StoredJob, act: string | null) =>
    job.execution === undefined
      ? Effect.void
      : Effect.flatMap(counted.requeueBelow([job.id], job.updatedAt, act), (below) =>
          notify(below.map(({ queue }) => queue))
        )

  const notify = (queues: ReadonlyArray<string>) =>
    Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
      queues.length === 0 ? Effect.void : notifier.stored(new Set(queues), Option.isSome(outer))
    )

  const keyHolder = (id: JobId) =>
    Effect.gen(function* () {
      const rows = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.holder, [id]))
      return yield* rows[0] === undefined ? new JobNotFound({ id }) : new DedupeKeyHeld({ id, holder: rows[0].id })
    })

  const restore = (id: JobId, kept: string) =>
    Effect.gen(function* () {
      if (!isId(kept)) return yield* new UndoRefused({ id, why: "forgotten" })
      const now = yield* Clock.currentTimeMillis
      const { rows, woken } = yield* restoring(kept, [id], now)
      yield* notify(woken)
      if (rows[0] !== undefined) return toStoredJob(rows[0], now)
      const known = yield* mapErrors(sql.unsafe(statements.hasRecord, [kept, id]))
      return yield* new UndoRefused({ id, why: known.length === 0 ? "forgotten" : "changed" })
    })

  /** Another job has taken the id or the dedupe key of the job. */
  const refuseTaken = (id: JobId, kept: string) =>
    Effect.gen(function* () {
      const [holder] = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.keptHolder, [kept, id]))
      if (holder === undefined) return yield* new UndoRefused({ id, why: "changed" })
      return yield* new DedupeKeyHeld({ id, holder: holder.id })
    })

  const undo: typeof JobAdmin.Service.undo = (id, kept) =>
    transaction(restore(id, kept)).pipe(
      Effect.catchIf(
        (error) => error instanceof DatabaseConflict,
        () => refuseTaken(id, kept)
      )
    )

  /** Deletes what was kept of deleted jobs for an undo. */
  const deletedSteps = sql.literal(
    [["job_log", "is_deleted"], ...stepTables.map((table) => [table, "is_deleted_execution"])]
      .map(
        ([table, condition]) => `of_${table} as (
            delete from ${schema}.${table} s where s.job_id = any(array(select job_id from gone where ${condition}))
              and not exists (select from ${schema}.job j where j.id = s.job_id))`
      )
      .join(", ")
  )

  /** Deletes records of acts in the order of their ids. Returns how many. */
  const forgetUndo = (which: Statement.Fragment, limit: number) =>
    Effect.map(
      mapErrors(sql<{ count: number }>`
        with gone as (
          delete from ${undos} u where (u.act, u.job_id) in
            (select act, job_id from ${undos} where ${which} order by act, job_id limit ${limit})
          returning u.job_id, u.action = 'delete' as is_deleted, u.execution is not null as is_deleted_execution
        ), ${deletedSteps}
        select count(*)::int as count from gone`),
      ([gone]) => gone?.count ?? 0
    )

  const eraseUndo: typeof JobAdmin.Service.eraseUndo = (subject, act) => {
    // The index `job_undo_subject` has the same condition.
    const kept = sql.literal(`before->'meta'`)
    const which = sql`${kept} ? ${sql.literal(`'${subjectKey}'`)} and ${kept}->>${sql.literal(`'${subjectKey}'`)} = ${subject}`
    const due = sql`${sql(`${schema}.follow_up_due`)} where subject = ${subject}`
    return act === "erase"
      ? Effect.zipWith(
          forgetUndo(which, eraseBatch),
          mapErrors(sql`delete from ${due} returning job_id`),
          (kept, { length }) => kept + length
        )
      : Effect.map(
          mapErrors(
            sql<{
              count: number
            }>`select ((select count(*) from ${undos} where ${which}) + (select count(*) from ${due}))::int as count`
          ),
          ([row]) => row?.count ?? 0
        )
  }

  const pruneUndo: typeof JobAdmin.Service.pruneUndo = (olderThan) =>
    purged(olderThan, undoBatch, (before) => {
      // Acts have ids that sort by time, so the primary key finds the oldest. Operations, and their undo, may take long.
      const which = sql`act < ${floorOf(before)} and act <> all(array(
        select unnest(array[id, coalesce(undoes, id)]) from ${sql(`${schema}.operation`)}
        where finished_at is null or finished_at >= ${fragments(sql).instant(before)}))`
      return forgetUndo(which, undoBatch)
    })

  const actions = (kept: string | null): JobActions => ({
    cancel: (id) =>
      wakingWaiters(
        Effect.zipRight(
          counted.lock("end", [id]),
          act("cancel", [...waitingStates, "running"], id, statements.cancel, [kept])
        ).pipe(
          Effect.tap((job) =>
            Effect.flatMap(cancelBelow(job, kept), (running) =>
              Effect.forEach(running, (child) => hints.publish(cancelTopic, child), { discard: true })
            )
          )
        )
      ).pipe(
        Effect.tap(({ finishedAt, kind, queue }) =>
          afterCommit(() => {
            if (finishedAt !== undefined) tally.of(queue, kind).died(1, "cancelled", finishedAt)
          })
        ),
        Effect.catchIf(
          (error) => error._tag === "JobNotInState" && (error.state === "dead" || error.state === "cancelled"),
          () => search.get(id)
        ),
        // Notifies the pod that runs the job, which would otherwise notice at its next heartbeat.
        Effect.tap(({ state }) => (state === "running" ? hints.publish(cancelTopic, id) : Effect.void)),
        notifying
      ),
    requeue: (id) =>
      // In a transaction, or a savepoint of the caller's transaction: a conflict must not abort the caller's other
      // work.
      alone(
        Effect.zipRight(
          counted.lock("requeue", [id]),
          act("requeue", ["done", "dead", "cancelled"], id, statements.requeue, [kept])
        ).pipe(Effect.tap((job) => requeueBelow(job, kept)))
      ).pipe(
        Effect.catchIf(
          (error) => error instanceof DatabaseConflict,
          () => keyHolder(id)
        ),
        notifying
      ),
    runNow: (id) => notifying(act("run now", waitingStates, id, statements.runNow, [kept])),
    remove: (id) =>
      wakingWaiters(
        Effect.zipRight(
          counted.lock("end", [id]),
          act("delete", [...waitingStates, "done", "dead", "cancelled"], id, statements.remove, [kept])
        )
      )
  })

  return JobAdmin.of({
    ...actions(null),
    recordingUndo: actions,
    edit: (id, edit) =>
      Effect.gen(function* () {
        const fault = faultOfEdit(edit)
        if (fault !== undefined) return yield* fault
        const payload = edit.payload !== undefined ? jsonText(edit.payload, limits.payloadBytes) : Either.right(null)
        if (Either.isLeft(payload)) return yield* new InvalidJob({ index: 0, field: "payload", reason: payload.left })
        return yield* act("edit", waitingStates, id, statements.edit, [
          payload.right,
          edit.priority ?? null,
          edit.runAt ?? null
        ]).pipe(
          Effect.catchIf(
            (error) => error._tag === "JobNotInState" && isWaiting(error.state),
            () => startedPayload
          )
        )
      }).pipe(notifying),
    undo: (id, kept) => notifying(undo(id, kept)),
    undoable: (acts) =>
      Effect.map(
        mapErrors(sql.unsafe<{ act: string }>(statements.undoable, [SqlArrays.ofTexts(acts.filter(isId))])),
        (rows) => new Set(rows.map(({ act }) => act))
      ),
    pruneUndo,
    eraseUndo
  })
})

export const layer: Layer.Layer<JobAdmin, never, Database | JobSearch | Notifier | Hints> = Layer.effect(JobAdmin, make)
