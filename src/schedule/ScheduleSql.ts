import { Effect, Option } from "effect"
import type { JobId } from "../core/Ids.js"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import { fragments } from "../database/SqlInstant.js"
import type { Missed, Overlap } from "./Policies.js"
import type { ScheduleField } from "./ScheduleDefinition.js"
import type { ScheduleRow, StoredSchedule } from "./StoredSchedule.js"
import { lastFireAndSkip, maxOutcomes, type TickOutcome } from "./TickOutcome.js"

interface Row {
  readonly name: string
  readonly kind: string
  readonly payload: unknown
  readonly cron: string
  readonly timezone: string
  readonly queue: string | null
  readonly max_attempts: number | null
  readonly subject: string | null
  readonly overlap: Overlap
  readonly missed: "one" | "none" | "all"
  readonly missed_limit: number | null
  readonly paused: boolean
  readonly origin: StoredSchedule["origin"]
  readonly fingerprint: string | null
  readonly edited: ReadonlyArray<ScheduleField>
  readonly next_fire_at: number | null
  readonly last_fire_at: number | null
  readonly last_skip_at: number | null
  readonly last_error: string | null
  readonly last_job_id: JobId | null
  readonly created_at: number
  readonly updated_at: number
  readonly removed_at: number | null
  readonly revision: number
}

const missedOf = ({ missed, missed_limit }: Row): Missed => (missed === "all" ? { all: missed_limit ?? 1 } : missed)

const toRow = (row: Row): ScheduleRow => ({
  name: row.name,
  kind: row.kind,
  payload: row.payload,
  cron: row.cron,
  timezone: row.timezone,
  queue: row.queue ?? undefined,
  attempts: row.max_attempts ?? undefined,
  subject: row.subject ?? undefined,
  overlap: row.overlap,
  missed: missedOf(row),
  paused: row.paused,
  origin: row.origin,
  fingerprint: row.fingerprint ?? undefined,
  edited: row.edited,
  nextFireAt: row.next_fire_at ?? undefined,
  lastFireAt: row.last_fire_at ?? undefined,
  lastSkipAt: row.last_skip_at ?? undefined,
  lastError: row.last_error ?? undefined,
  lastJobId: row.last_job_id ?? undefined,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
  removedAt: row.removed_at ?? undefined,
  revision: row.revision
})

/** JSON path of the newest outcomes; the list is newest first. */
const lastKept = `$[0 to ${maxOutcomes - 1}]`

/** SQL statements for schedules. Instants are passed as epoch milliseconds. */
export const make = ({ schema, sql }: typeof Database.Service) => {
  const table = sql(`${schema}.schedule`)
  const { instant, millis } = fragments(sql)
  const named = (column: string) => sql`${millis(column)} as ${sql(column)}`
  const columns = sql.csv([
    sql`name, kind, payload, cron, timezone, queue, max_attempts, subject, overlap, missed, missed_limit, paused, origin`,
    sql`fingerprint, edited, last_error, last_job_id, revision::float8 as revision`,
    ...["next_fire_at", "last_fire_at", "last_skip_at", "created_at", "updated_at", "removed_at"].map(named)
  ])
  const stillSo = ({ name, revision }: StoredSchedule) =>
    sql`name = ${name} and revision = ${revision} and not paused and removed_at is null`

  const rows = <E>(statement: Effect.Effect<ReadonlyArray<Row>, E>) =>
    Effect.map(mapErrors(statement), (found) => found.map(toRow))
  const first = <E>(statement: Effect.Effect<ReadonlyArray<Row>, E>) =>
    Effect.map(rows(statement), (found) => Option.fromNullable(found[0]))

  const written = (row: ScheduleRow) => ({
    name: row.name,
    kind: row.kind,
    payload: sql`${JSON.stringify(row.payload)}::jsonb`,
    cron: row.cron,
    timezone: row.timezone,
    queue: row.queue ?? null,
    max_attempts: row.attempts ?? null,
    subject: row.subject ?? null,
    overlap: row.overlap,
    missed: typeof row.missed === "string" ? row.missed : "all",
    missed_limit: typeof row.missed === "string" ? null : row.missed.all,
    paused: row.paused,
    origin: row.origin,
    fingerprint: row.fingerprint ?? null,
    edited: sql`${row.edited}::text[]`,
    next_fire_at: instant(row.nextFireAt),
    last_fire_at: instant(row.lastFireAt),
    last_skip_at: instant(row.lastSkipAt),
    last_error: row.lastError ?? null,
    last_job_id: row.lastJobId ?? null,
    created_at: instant(row.createdAt),
    updated_at: instant(row.updatedAt),
    removed_at: instant(row.removedAt),
    revision: row.revision
  })

  return {
    read: (name: string) => first(sql<Row>`select ${columns} from ${table} where name = ${name}`),
    lock: (name: string) => first(sql<Row>`select ${columns} from ${table} where name = ${name} for update`),
    readAll: (names: ReadonlyArray<string>) =>
      rows(sql<Row>`select ${columns} from ${table} where name = any(${names}::text[])`),
    ofSubject: (subject: string) =>
      rows(sql<Row>`select ${columns} from ${table} where subject = ${subject} order by name for update`),
    page: (after: string, limit: number) =>
      rows(sql<Row>`select ${columns} from ${table} where name > ${after} and removed_at is null
        order by name limit ${limit}`),
    due: (now: number, limit: number, after?: Pick<StoredSchedule, "name" | "nextFireAt">) =>
      rows(sql<Row>`select ${columns} from ${table}
        where not paused and removed_at is null and (next_fire_at is null or next_fire_at <= ${instant(now)})
          ${
            after === undefined
              ? sql``
              : sql`and (coalesce(next_fire_at, '-infinity'), name)
                > (coalesce(${instant(after.nextFireAt)}, '-infinity'), ${after.name})`
          }
        order by next_fire_at nulls first, name limit ${limit}`),

    /** A schedule without a next fire time is returned as 0, that is, due. */
    nextInstant: Effect.map(
      mapErrors(sql<{ at: number }>`
        select coalesce(${millis("next_fire_at")}, 0) as at from ${table}
        where not paused and removed_at is null order by next_fire_at nulls first limit 1`),
      (found) => Option.map(Option.fromNullable(found[0]), ({ at }) => at)
    ),

    /** Returns false if the name is taken. */
    insert: (row: ScheduleRow): Effect.Effect<boolean, DatabaseError> => {
      const values = written(row)
      return Effect.map(
        mapErrors(sql`insert into ${table} (${sql.csv(Object.keys(values).map((column) => sql`${sql(column)}`))})
          values (${sql.csv(Object.values(values).map((value) => sql`${value}`))})
          on conflict do nothing returning name`),
        (inserted) => inserted.length === 1
      )
    },

    erase: (name: string): Effect.Effect<void, DatabaseError> =>
      Effect.asVoid(mapErrors(sql`delete from ${table} where name = ${name}`)),

    replace: (row: ScheduleRow): Effect.Effect<void, DatabaseError> => {
      const assignments = Object.entries(written(row)).map(([column, value]) => sql`${sql(column)} = ${value}`)
      return Effect.asVoid(mapErrors(sql`update ${table} set ${sql.csv(assignments)} where name = ${row.name}`))
    },

    advance: (read: StoredSchedule, nextFireAt: number, now: number) =>
      first(sql<Row>`update ${table}
        set next_fire_at = ${instant(nextFireAt)}, updated_at = ${instant(now)}, revision = revision + 1
        -- skip locked: another transaction is already firing or changing the schedule, so do not wait for it.
        where name = (select name from ${table} where ${stillSo(read)} for update skip locked)
        returning ${columns}`),

    /** A single statement, so that concurrent writers do not overwrite each other's outcomes. */
    note: (name: string, outcomes: ReadonlyArray<TickOutcome>): Effect.Effect<void, DatabaseError> => {
      const { fire, skip } = lastFireAndSkip(outcomes)
      const newest = JSON.stringify(outcomes.slice(-maxOutcomes).toReversed())
      return Effect.asVoid(
        mapErrors(
          sql`update ${table} set ${sql.csv([
            sql`history = jsonb_path_query_array(${newest}::jsonb || history, ${lastKept}::jsonpath)`,
            ...(fire === undefined
              ? []
              : [sql`last_fire_at = ${instant(fire.at)}, last_job_id = ${fire.job}::uuid, last_error = null`]),
            ...(skip === undefined ? [] : [sql`last_skip_at = ${instant(skip.at)}`])
          ])} where name = ${name}`
        )
      )
    },

    history: (name: string) =>
      Effect.map(
        mapErrors(sql<{ history: ReadonlyArray<TickOutcome> }>`
          select history from ${table} where name = ${name} and removed_at is null`),
        (found) => Option.map(Option.fromNullable(found[0]), ({ history }) => history)
      ),

    forget: (name: string): Effect.Effect<void, DatabaseError> =>
      Effect.asVoid(mapErrors(sql`update ${table} set history = '[]' where name = ${name}`)),

    pauseBroken: (read: StoredSchedule, reason: string, now: number) =>
      Effect.map(
        mapErrors(sql`update ${table}
          set paused = true, last_error = ${reason}, updated_at = ${instant(now)}, revision = revision + 1
          where ${stillSo(read)} returning name`),
        (paused) => paused.length === 1
      )
  }
}
