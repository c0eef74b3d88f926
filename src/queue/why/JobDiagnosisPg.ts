import { Clock, Effect, Layer } from "effect"
import { isId, type JobId } from "../../core/Ids.js"
import { isWaiting, type StoredJob } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import { instant, millis } from "../../database/SqlInstant.js"
import { named } from "../../database/Statements.js"
import { JobNotFound } from "../JobErrors.js"
import { storedColumns } from "../JobSql.js"
import { type StoredJobRow, toStoredJob } from "../StoredJobRow.js"
import { BoundedQuery } from "../search/BoundedQuery.js"
import { fresh, type QueueRow } from "../settings/QueueRow.js"
import { type QueueColumns, columns as queueColumns, toRow } from "../settings/QueueSql.js"
import { diagnosisOf, JobDiagnosis, maxCountedAhead, type OpenWait } from "./JobDiagnosis.js"
import { holdOf, type StartedJob } from "./KeyHold.js"

type Row = StoredJobRow & Omit<QueueColumns, "name"> & { readonly name: string | null }

const hasQueue = (row: Row): row is StoredJobRow & QueueColumns => row.name !== null

/** Maximum number of more urgent priorities to search. */
const maxLanes = 100

const waiting = "j.finished_at is null and j.lease is null"

const statementsOf = (schema: string) => ({
  job: `select ${storedColumns}, ${queueColumns} from ${schema}.job j left join ${schema}.queue on name = j.queue
  where j.id = $1`,

  /** A lane is one priority of a queue. Within each, the jobs ahead are one range of the claim index. */
  ahead: `
  with recursive lane(priority, number) as (
    (select j.priority, 1 from ${schema}.job j where j.queue = $2 and ${waiting} and j.priority < $3 order by j.priority limit 1)
    union all
    select (select j.priority from ${schema}.job j where j.queue = $2 and ${waiting} and j.priority > lane.priority
      and j.priority < $3 order by j.priority limit 1), number + 1
    from lane where lane.priority is not null and number < ${maxLanes}
  ), before as (
    (select 1 from ${schema}.job j where j.queue = $2 and ${waiting} and j.priority = $3
      and (j.run_at, j.id) < ((select own.run_at from ${schema}.job own where own.id = $1), $1) limit ${maxCountedAhead + 1})
    union all
    select 1 from lane cross join lateral (
      select 1 from ${schema}.job j where j.queue = $2 and ${waiting} and j.priority = lane.priority
        and j.run_at <= ${instant("$4")} limit ${maxCountedAhead + 1}
    ) urgent
  )
  select count(*)::int as count from (select 1 from before limit ${maxCountedAhead + 1}) counted`,

  turn: `
  select ${millis("cooling_until")} as cooling_until from ${schema}.key_turn where queue = $1 and key = $2`,

  /** Only the jobs of the key's last claims, as in the claim statement. */
  begun: `
  select j.id, j.lease is not null as running, ${millis("j.run_at")} as run_at
  from ${schema}.key_turn t cross join unnest(t.taken) as before(id) cross join lateral (
    select id, lease, run_at, started_at, finished_at from ${schema}.job where id = before.id limit 1
  ) j
  where t.queue = $1 and t.key = $2 and j.finished_at is null and j.started_at is not null
  order by j.id`,

  waits: `
  select d.kind, d.name, ${millis("d.due_at")} as due_at, d.remaining from ${schema}.workflow_deferred d
  where d.execution = $1 and d.waiting and d.completed_at is null order by d.due_at, d.kind, d.name`,

  leftTo: `
  select l.release from ${schema}.workflow_lifetime l join ${schema}.job j on j.id = l.job_id
  where l.job_id = $1 and l.parked = j.woken and j.lease is null`,

  firstOfKey: `
  select j.id from ${schema}.job j
  where j.queue = $1 and j.key = $2 and ${waiting} and j.run_at <= ${instant("$3")} and j.id <> all($4::uuid[])
  order by j.priority, j.run_at, j.id limit 1`
})

const make = Effect.gen(function* () {
  const { schema, sql } = yield* Database
  const bounded = yield* BoundedQuery
  const statements = named("why", statementsOf(schema))

  const find = (id: JobId, now: number) =>
    Effect.map(
      mapErrors(sql.unsafe<Row>(statements.job, [id])),
      ([row]) => row && { job: toStoredJob(row, now), row: hasQueue(row) ? toRow(row) : fresh(row.queue) }
    )

  const keyOf = ({ id, key, queue }: StoredJob, { keysCoolingUntil, perKey }: QueueRow, now: number) =>
    Effect.gen(function* () {
      if (key === undefined) return {}
      const isCooling = (keysCoolingUntil ?? 0) > now
      const [turn] = isCooling
        ? yield* mapErrors(sql.unsafe<{ cooling_until: number | null }>(statements.turn, [queue, key]))
        : []
      const coolingUntil = turn?.cooling_until ?? undefined
      if (perKey === undefined) return { coolingUntil }
      const rows = yield* mapErrors(
        sql.unsafe<{ id: JobId; running: boolean; run_at: number }>(statements.begun, [queue, key])
      )
      const begun = rows.map((row): StartedJob => ({ id: row.id, running: row.running, runAt: row.run_at }))
      const [first] =
        perKey.order === "none"
          ? []
          : yield* mapErrors(
              sql.unsafe<{ id: JobId }>(statements.firstOfKey, [queue, key, now, begun.map((job) => job.id)])
            )
      return { coolingUntil, held: holdOf({ id, perKey, begun, first: first?.id, now }) }
    })

  const aheadOf = ({ id, priority, queue }: StoredJob, now: number) =>
    Effect.map(
      mapErrors(sql.unsafe<{ count: number }>(statements.ahead, [id, queue, priority, now])),
      ([row]) => row?.count ?? 0
    )

  const waitsOf = ({ execution, state }: StoredJob) =>
    execution === undefined || !isWaiting(state)
      ? Effect.succeed([])
      : Effect.map(
          mapErrors(
            sql.unsafe<Omit<OpenWait, "dueAt" | "remaining"> & { due_at: number | null; remaining: number | null }>(
              statements.waits,
              [execution]
            )
          ),
          (rows) =>
            rows.map(({ due_at, remaining, ...row }): OpenWait => {
              return { ...row, dueAt: due_at ?? undefined, remaining: remaining ?? undefined }
            })
        )

  const leftToOf = ({ execution, id }: StoredJob) =>
    execution === undefined
      ? Effect.succeed(undefined)
      : Effect.map(
          mapErrors(sql.unsafe<{ release: string | null }>(statements.leftTo, [id])),
          ([row]) => row?.release ?? undefined
        )

  return JobDiagnosis.of({
    of: (id) =>
      Effect.gen(function* () {
        if (!isId(id)) return yield* new JobNotFound({ id })
        const now = yield* Clock.currentTimeMillis
        const standing = yield* bounded(
          Effect.gen(function* () {
            const found = yield* find(id, now)
            if (found === undefined) return undefined
            const { job, row } = found
            if (!isWaiting(job.state) || job.runAt > now) {
              return diagnosisOf(job, row, now, { waits: yield* waitsOf(job), leftTo: yield* leftToOf(job) })
            }
            return diagnosisOf(job, row, now, { ...(yield* keyOf(job, row, now)), ahead: yield* aheadOf(job, now) })
          })
        )
        return standing ?? (yield* new JobNotFound({ id }))
      })
  })
})

export const layer: Layer.Layer<JobDiagnosis, never, Database | BoundedQuery> = Layer.effect(JobDiagnosis, make)
