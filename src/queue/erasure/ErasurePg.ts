import { Clock, Effect, Layer } from "effect"
import type { JobId } from "../../core/Ids.js"
import { type DeadReason, type Status, stateOf } from "../../core/StoredJob.js"
import { Database } from "../../database/Database.js"
import { isContention, mapErrors } from "../../database/DatabaseError.js"
import { eraseBatch } from "../../database/SubjectText.js"
import * as SqlArrays from "../SqlArrays.js"
import * as QueueSql from "../settings/QueueSql.js"
import * as CountedEnds from "../workflow/CountedEnds.js"
import { Erasure, type Unfinished } from "./Erasure.js"
import * as ErasureSql from "./ErasureSql.js"
import { emptyStates } from "./HeldStates.js"

interface HeldRow {
  readonly executions: number
  readonly job_log: number
  readonly workflow_step: number
  readonly workflow_stream: number
  readonly workflow_deferred: number
  readonly workflow_tag: number
}

interface StateRow {
  readonly status: Status
  readonly reason: DeadReason | null
  readonly failed: boolean
  readonly later: boolean
  readonly count: number
}

interface LockedRow {
  readonly id: JobId
  readonly queue: string
  readonly key: string | null
  readonly execution: string | null
}

interface Counted {
  readonly count: number
}

const make = Effect.gen(function* () {
  const database = yield* Database
  const { schema, sql, transaction } = database
  const statements = ErasureSql.make(schema)
  const quotes = ErasureSql.quotes(schema)
  const { exclusiveLock } = QueueSql.make(schema)
  const counted = CountedEnds.make(database)

  const countOf = (statement: string, parameters: ReadonlyArray<unknown>) =>
    Effect.map(mapErrors(sql.unsafe<Counted>(statement, parameters)), ([row]) => row?.count ?? 0)

  /** Deletes the turns of keys. No claim may run meanwhile: it would count jobs of the key without the turn. */
  const forgetTurns = (jobs: ReadonlyArray<LockedRow>) =>
    Effect.gen(function* () {
      const keyed = jobs.filter(({ key }) => key !== null)
      const keys = [
        SqlArrays.ofTexts(keyed.map(({ queue }) => queue)),
        SqlArrays.ofTexts(keyed.map(({ key }) => key ?? ""))
      ]
      if (keyed.length === 0) return
      const queues = yield* mapErrors(sql.unsafe<{ queue: string }>(statements.queuesWithTurns, keys))
      if (queues.length === 0) return
      for (const { queue } of queues) yield* mapErrors(sql.unsafe(exclusiveLock, [queue]))
      yield* mapErrors(sql.unsafe(statements.turns, keys))
    })

  const eraseBatchOf = (subject: string) =>
    Effect.gen(function* () {
      const chosen = yield* mapErrors(sql.unsafe<{ id: JobId }>(statements.choose, [subject, eraseBatch]))
      if (chosen.length === 0) return 0
      const candidates = chosen.map(({ id }) => id)
      yield* counted.lock("end", candidates)
      const jobs = yield* mapErrors(sql.unsafe<LockedRow>(statements.lock, [subject, SqlArrays.ofPlain(candidates)]))
      const ids = SqlArrays.ofPlain(jobs.map(({ id }) => id))
      yield* forgetTurns(jobs)
      const keys = yield* mapErrors(sql.unsafe<{ text: string }>(statements.keys, [ids]))
      const now = new Date(yield* Clock.currentTimeMillis).toISOString()
      yield* mapErrors(sql.unsafe(statements.erase, [ids, now]))
      yield* mapErrors(sql.unsafe(statements.renameSteps, [ids]))
      yield* mapErrors(sql.unsafe(statements.renameLinks, [ids]))
      if (keys.length > 0)
        for (const statement of statements.forgetKeys)
          yield* mapErrors(sql.unsafe(statement, [SqlArrays.ofTexts(keys.map(({ text }) => text))]))
      return chosen.length
    })

  return Erasure.of({
    held: (subject) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const [row] = yield* mapErrors(sql.unsafe<HeldRow>(statements.held, [subject]))
        const states = emptyStates()
        for (const { count, failed, later, reason, status } of yield* mapErrors(
          sql.unsafe<StateRow>(statements.states, [subject, now])
        )) {
          const facts = { status, reason: reason ?? undefined, lastError: failed ? "" : undefined }
          states[stateOf({ ...facts, runAt: later ? now + 1 : now }, now)] += count
        }
        return {
          states,
          executions: row?.executions ?? 0,
          logs: row?.job_log ?? 0,
          steps: row?.workflow_step ?? 0,
          streams: row?.workflow_stream ?? 0,
          waits: row?.workflow_deferred ?? 0,
          tags: row?.workflow_tag ?? 0
        }
      }),
    unfinished: (subject, limit) =>
      Effect.map(
        mapErrors(
          sql.unsafe<Omit<Unfinished, "execution"> & { execution: string | null }>(statements.unfinished, [
            subject,
            limit
          ])
        ),
        (rows) => rows.map((row) => ({ ...row, execution: row.execution ?? undefined }))
      ),
    erase: (subject, act) =>
      act === "count"
        ? countOf(statements.count, [subject])
        : Effect.retry(transaction(eraseBatchOf(subject)), { times: 5, while: isContention }),
    quotes: (subject, act) => countOf(quotes[act], ErasureSql.patternsOf(subject))
  })
})

export const layer: Layer.Layer<Erasure, never, Database> = Layer.effect(Erasure, make)
