import { type Duration, Effect, Option, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"

/** The backends that hold the lock of a pod in the schema `nightshift`. */
export const holdersOf = (id: string) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const rows = yield* sql<{ pid: number }>`
      with key as (select hashtextextended(${`nightshift.process.${id}`}, 0) as value)
      select l.pid from pg_locks l, key
      where l.locktype = 'advisory' and l.mode = 'ExclusiveLock' and l.granted and l.objsubid = 1
        and l.database = (select oid from pg_database where datname = current_database())
        and (l.classid::bigint << 32) | l.objid::bigint = key.value`
    return rows.map(({ pid }) => pid)
  })

/** Waits until a lock is held. Returns for how long it has been. */
export const untilHeld = (heldFor: Effect.Effect<Option.Option<Duration.Duration>>) =>
  Effect.repeat(heldFor, { until: Option.isSome, schedule: Schedule.spaced("10 millis") }).pipe(
    Effect.zipRight(heldFor)
  )
