import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Effect, Either, Layer, Option } from "effect"
import type { JobId } from "../../core/Ids.js"
import { InvalidJob } from "../../core/InvalidJob.js"
import { limits, type State, type StoredJob } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { DatabaseConflict, mapErrors } from "../../database/DatabaseError.js"
import { Signals } from "../../database/Signals.js"
import { instant } from "../../database/SqlInstant.js"
import { Tally } from "../../telemetry/Tally.js"
import { faultOfPriority, faultOfRunAt, jsonText } from "../enqueue/NewJob.js"
import { DedupeKeyHeld, JobNotFound, JobNotInState } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import { Notifier } from "../Notifier.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"
import { JobSearch } from "../search/JobSearch.js"
import { cancelTopic, JobAdmin, type JobEdit } from "./JobAdmin.js"

const waiting: ReadonlyArray<State> = ["scheduled", "retrying", "pending"]

const statementsOf = (schema: string) => ({
  // A job cancelled before it started stores no follow-up.
  cancel: `
  update ${schema}.job j
  set status = case when j.status = 'pending' then 'dead' else j.status end,
    dead_reason = case when j.status = 'pending' then 'cancelled' else j.dead_reason end,
    finished_at = case when j.status = 'pending' then ${instant("$2")} else j.finished_at end,
    death_count = j.death_count + (case when j.status = 'pending' then 1 else 0 end),
    cancel_requested_at = coalesce(j.cancel_requested_at, ${instant("$2")}),
    updated_at = ${instant("$2")}
  where j.id = $1 and j.status in ('pending', 'running')
  returning ${storedColumns}`,

  requeue: `
  update ${schema}.job j
  set status = 'pending', attempt = 0, crash_count = 0, dead_reason = null, finished_at = null, started_at = null,
    cancel_requested_at = null, unknown_since = null, result = null, progress = null, last_error = null,
    run_at = ${instant("$2")}, updated_at = ${instant("$2")}
  where j.id = $1 and j.status in ('done', 'dead')
  returning ${storedColumns}`,

  edit: `
  update ${schema}.job j
  set payload = coalesce($3::jsonb, j.payload), priority = coalesce($4::smallint, j.priority),
    run_at = coalesce(${instant("$5")}, j.run_at), updated_at = ${instant("$2")}
  where j.id = $1 and j.status = 'pending'
  returning ${storedColumns}`,

  // A job that is already due keeps its position in the queue.
  runNow: `
  update ${schema}.job j set run_at = least(j.run_at, ${instant("$2")}),
    updated_at = ${instant("$2")}
  where j.id = $1 and j.status = 'pending'
  returning ${storedColumns}`,

  remove: `delete from ${schema}.job j where j.id = $1 and j.status <> 'running' returning ${storedColumns}`,

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
  const { schema, sql, transaction } = yield* Database
  const search = yield* JobSearch
  const notifier = yield* Notifier
  const tally = yield* Tally
  const signals = yield* Signals
  const statements = statementsOf(schema)

  const act = (
    name: string,
    allowed: ReadonlyArray<State>,
    id: JobId,
    text: string,
    more: ReadonlyArray<unknown> = []
  ) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const parameters = text === statements.remove ? [id] : [id, now, ...more]
      const rows = yield* mapErrors(sql.unsafe<StoredJobRow>(text, parameters))
      const row = rows[0]
      if (row !== undefined) return toStoredJob(row, now)
      const { state } = yield* search.get(id)
      return yield* new JobNotInState({ id, act: name, state, allowed: [...allowed] })
    })

  /**
   * Notifies workers and callers that wait for this job. In a caller's transaction the notification is sent at commit.
   */
  const telling = <E>(changed: Effect.Effect<StoredJob, E>) =>
    Effect.tap(changed, (job) =>
      Effect.flatMap(Effect.serviceOption(SqlClient.TransactionConnection), (outer) =>
        notifier.stored(new Set([job.queue]), Option.isSome(outer))
      )
    )

  const keyHolder = (id: JobId) =>
    Effect.gen(function* () {
      const rows = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.holder, [id]))
      return yield* rows[0] === undefined ? new JobNotFound({ id }) : new DedupeKeyHeld({ id, holder: rows[0].id })
    })

  return JobAdmin.of({
    cancel: (id) =>
      act("cancel", [...waiting, "running"], id, statements.cancel).pipe(
        Effect.tap(({ finishedAt, kind, queue }) => {
          if (finishedAt !== undefined) tally.of(queue, kind).died(1, "cancelled", finishedAt)
        }),
        Effect.catchIf(
          (error) => error._tag === "JobNotInState" && error.state === "dead",
          () => search.get(id)
        ),
        // The pod that runs the job learns of it before its next heartbeat.
        Effect.tap(({ status }) => (status === "running" ? signals.tell(cancelTopic, id) : Effect.void)),
        telling
      ),
    requeue: (id) =>
      // In a transaction, or a savepoint of the caller's transaction: a conflict must not abort the caller's other
      // work.
      transaction(act("requeue", ["done", "dead"], id, statements.requeue)).pipe(
        Effect.catchIf(
          (error) => error instanceof DatabaseConflict,
          () => keyHolder(id)
        ),
        telling
      ),
    runNow: (id) => telling(act("run now", waiting, id, statements.runNow)),
    edit: (id, edit) =>
      Effect.gen(function* () {
        const fault = faultOfEdit(edit)
        if (fault !== undefined) return yield* fault
        const payload = edit.payload !== undefined ? jsonText(edit.payload, limits.payloadBytes) : Either.right(null)
        if (Either.isLeft(payload)) return yield* new InvalidJob({ index: 0, field: "payload", reason: payload.left })
        return yield* act("edit", waiting, id, statements.edit, [
          payload.right,
          edit.priority ?? null,
          edit.runAt ?? null
        ])
      }).pipe(telling),
    remove: (id) => act("delete", [...waiting, "done", "dead"], id, statements.remove)
  })
})

export const layer: Layer.Layer<JobAdmin, never, Database | JobSearch | Notifier | Signals> = Layer.effect(
  JobAdmin,
  make
)
