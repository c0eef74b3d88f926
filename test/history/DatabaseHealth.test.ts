import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseHealth } from "../../src/history/DatabaseHealth.js"
import * as DatabaseHealthPg from "../../src/history/DatabaseHealthPg.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = Layer.provideMerge(DatabaseHealthPg.layer, TestDatabase.layer)

const look = Effect.flatMap(DatabaseHealth, (health) => health.check)

describe("the database health sample", () => {
  it.scopedLive("reports the size of the database and of the job table", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql`insert into nightshift.job (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at)
        select gen_random_uuid(), 'q', 'k', '{}', 5, t, t, t from generate_series(1, 200), to_timestamp(0) as t`
      yield* sql`analyze nightshift.job`
      const health = yield* look
      expect(health.sizeBytes).toBeGreaterThan(1e6)
      expect(health.jobBytes).toBeGreaterThan(8_192)
      expect(health.sizeBytes).toBeGreaterThan(health.jobBytes)
      expect(health).toMatchObject({ jobLiveTuples: 200, jobDeadTuples: 0 })
      expect(health.connections).toBeGreaterThan(0)
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("finds the transaction that blocks vacuum, and its owner", () =>
    Effect.gen(function* () {
      expect((yield* look).blockers).toEqual([])
      const idle = yield* TestDatabase.connection
      const holder = yield* TestDatabase.connection
      yield* Effect.promise(async () => {
        // A transaction that is idle and has written nothing does not block vacuum.
        await idle.query("begin")
        await idle.query("select 1")
        await holder.query("set application_name = 'a forgotten psql'")
        await holder.query("begin isolation level repeatable read")
        await holder.query("select count(*) from nightshift.job")
      })
      const health = yield* look
      expect(health.blockers).toMatchObject([
        { what: "session", application: "a forgotten psql", state: "idle in transaction" }
      ])
      expect(health.blockers[0]?.seconds).toBe(health.oldestTransactionSeconds)
      expect(health.oldestTransactionSeconds).toBeLessThan(60)
      yield* Effect.promise(() => holder.query("rollback"))
      expect((yield* look).oldestTransactionSeconds).toBe(0)
    }).pipe(Effect.provide(house))
  )
})
