import { Clock, Duration, Effect } from "effect"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import type { JobSql } from "./JobSql.js"
import type { Queue } from "./Queue.js"
import { classesOf, type RetentionClass, RetentionMemory } from "./Retention.js"
import * as SqlArrays from "./SqlArrays.js"
import type { Queues } from "./settings/QueueSettings.js"
import * as QueueSql from "./settings/QueueSql.js"

/** Rows per maintenance statement: large enough to be efficient, small enough to be short. */
export const maintenanceBatch = 5_000

/**
 * After a full batch the purge sleeps this many times the duration of the batch, so that it does not compete with jobs.
 */
const restFactor = 2

/** Key state unused for this long is deleted. */
const turnsAreKeptFor = Duration.minutes(10)

interface TurnsSeen {
  readonly seen: number
  readonly queue: string | null
  readonly key: string | null
}

/** Deletes finished jobs past their queue's retention, one retention class at a time, in bounded statements. */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  queues: typeof Queues.Service,
  retrying: <A, E>(effect: Effect.Effect<A, E | DatabaseError>) => Effect.Effect<A, E | DatabaseError>
): (typeof Queue.Service)["purge"] => {
  const { schema, sql, transaction } = database
  const turns = QueueSql.make(schema).purgeTurns
  const memory = new RetentionMemory()

  const purgeBatch = (group: RetentionClass, from: number, until: number): Effect.Effect<number, DatabaseError> =>
    transaction(
      Effect.gen(function* () {
        const range = [group.status, from, until, SqlArrays.ofTexts(group.queues), group.onlyThese, maintenanceBatch]
        const gone = yield* mapErrors(sql.unsafe<{ id: string }>(statements.purge, range))
        if (gone.length > 0) yield* mapErrors(sql.unsafe(statements.purgeLogs, [gone.map(({ id }) => id)]))
        return gone.length
      })
    )

  const fenced = <A, E>(
    act: Effect.Effect<A, DatabaseError>,
    fence: Effect.Effect<void, E> | undefined
  ): Effect.Effect<A, E | DatabaseError> =>
    fence === undefined ? act : (transaction(Effect.zipRight(fence, act)) as Effect.Effect<A, E | DatabaseError>)

  const purgeClass = <E>(
    group: RetentionClass,
    all: ReadonlyArray<RetentionClass>,
    fence: Effect.Effect<void, E> | undefined
  ) =>
    Effect.gen(function* () {
      const until = (yield* Clock.currentTimeMillis) - Duration.toMillis(group.keepFor)
      const from = memory.from(group, until)
      let sum = 0
      for (;;) {
        const [took, count] = yield* Effect.timed(retrying(fenced(purgeBatch(group, from, until), fence)))
        sum += count
        if (count < maintenanceBatch) break
        yield* Effect.sleep(Duration.times(took, restFactor))
      }
      memory.done(group, from, until, all)
      return sum
    })

  /** Deletes the round-robin state of keys that have no active jobs. */
  const purgeTurns = <E>(fence: Effect.Effect<void, E> | undefined) =>
    Effect.gen(function* () {
      const until = (yield* Clock.currentTimeMillis) - Duration.toMillis(turnsAreKeptFor)
      let last: TurnsSeen = { seen: maintenanceBatch, queue: "", key: "" }
      while (last.seen === maintenanceBatch) {
        const place = [last.queue ?? "", last.key ?? ""]
        const statement = mapErrors(sql.unsafe<TurnsSeen>(turns, [...place, until, maintenanceBatch]))
        const rows: ReadonlyArray<TurnsSeen> = yield* retrying(fenced(statement, fence))
        last = rows[0] ?? { seen: 0, queue: null, key: null }
      }
    })

  /** Deletes signals to executions that were never started, once they are as old as done jobs may become. */
  const purgeEarlySignals = <E>(doneRetention: Duration.Duration, fence: Effect.Effect<void, E> | undefined) =>
    Effect.gen(function* () {
      const until = (yield* Clock.currentTimeMillis) - Duration.toMillis(doneRetention)
      for (;;) {
        const statement = mapErrors(sql.unsafe<{ changed: number }>(statements.purgeEarly, [until, maintenanceBatch]))
        const [row] = yield* retrying(fenced(statement, fence))
        if ((row?.changed ?? 0) < maintenanceBatch) return
      }
    })

  return (doneRetention, fence) =>
    Effect.gen(function* () {
      const all = classesOf(yield* queues.all, doneRetention)
      const purged = { done: 0, dead: 0 }
      for (const group of all) purged[group.status] += yield* purgeClass(group, all, fence)
      yield* purgeTurns(fence)
      yield* purgeEarlySignals(doneRetention, fence)
      return purged
    })
}
