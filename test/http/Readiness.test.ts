import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Logger } from "effect"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import * as Listener from "../../src/database/Listener.js"
import { Migrations } from "../../src/database/Migrations.js"
import { WriteHealth } from "../../src/database/WriteHealth.js"
import { Deliveries } from "../../src/gateway/Deliveries.js"
import { Readiness } from "../../src/http/server/Readiness.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { behind, layerOverAll, noHooks, portsMemory, TestServer } from "./TestServer.js"

const reasons = Effect.flatMap(Readiness, ({ declared, report }) =>
  Effect.zipRight(
    declared,
    Effect.map(report, (found) => found.reasons)
  )
).pipe(
  Effect.provide(Readiness.layer.pipe(Layer.provide(Layer.merge(Migrations.layer, Lifecycle.layer)))),
  Effect.scoped
)

describe("readiness", () => {
  it.scopedLive("reports a schema that is too new, and this process's version", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      expect(yield* reasons).toEqual([])
      yield* sql`insert into nightshift.migration (number, name, checksum, oldest_code, applied_at, applied_by)
        values (9999, '9999_future', 'x', '99.0.0', '2026-01-01', '99.0.0')`
      expect(yield* reasons).toEqual([
        expect.stringMatching(/^the schema requires nightshift 99\.0\.0 or later, but this process is \d/)
      ])
    }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive("says that the database is read-only", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const found = yield* transaction(Effect.zipRight(sql`set transaction read only`, reasons))
      expect(found).toEqual(["the database is read-only"])
    }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive("reports a full disk that only some statements meet, and ends when they succeed again", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const { enqueue } = yield* Queue
      const job = { kind: "plain", version: 1, payload: {}, queue: "default", attempts: 1 }
      yield* sql`create function no_room() returns trigger language plpgsql as
        'begin raise exception ''could not extend file'' using errcode = ''53100''; end'`
      yield* sql`create trigger no_room before insert on nightshift.job execute function no_room()`
      expect(yield* Effect.flip(enqueue([job]))).toMatchObject({ sqlState: "53100" })
      expect(yield* reasons).toEqual(["the database's disk is full"])
      yield* sql`update nightshift.queue set name = name`
      expect(yield* reasons).toEqual(["the database's disk is full"])
      yield* sql`drop trigger no_room on nightshift.job`
      yield* enqueue([job])
      expect(yield* reasons).toEqual([])
    }).pipe(
      Effect.provide(
        QueuePg.layer.pipe(
          Layer.provide([Listener.layerPolling, Metrics.layer]),
          Layer.provideMerge(TestDatabase.layer)
        )
      )
    )
  )

  it.effect("forgets a full disk after a while, so that requests find out whether there is room", () =>
    Effect.sync(() => {
      let now = 0
      const writes = new WriteHealth(() => now)
      writes.answered("insert", { code: "53100" })
      writes.answered("select", undefined)
      expect(writes.failing()).toBe("the database's disk is full")
      now = 15_000
      expect(writes.failing()).toBeUndefined()
    })
  )

  it.effect("follows the outcome of this process's writes", () =>
    Effect.gen(function* () {
      let now = 0
      const writes = new WriteHealth(() => now)
      const failing = (sqlState?: string) =>
        Effect.ignore(
          writes.watch(
            Effect.fail(
              new DatabaseUnavailable({
                detail: "no",
                nothingWritten: true,
                ...(sqlState === undefined ? {} : { sqlState })
              })
            )
          )
        )
      yield* failing("40001")
      expect(writes.failing()).toBeUndefined()
      now = 6_000
      yield* failing("53100")
      expect(writes.failing()).toBe("the database's disk is full")
      yield* failing("25006")
      expect(writes.failing()).toBe("the database is read-only")
      yield* failing("XX000")
      expect(writes.failing()).toBe("writes to the database fail")
      yield* failing()
      expect(writes.failing()).toBe("the database does not answer writes")
      yield* writes.watch(Effect.void)
      expect(writes.failing()).toBeUndefined()
      // A write without an answer is interrupted by its deadline.
      yield* Effect.timeoutOption(writes.watch(Effect.never), 0)
      now += 6_000
      expect(writes.failing()).toBe("the database does not answer writes")
    }).pipe(Effect.provide(Layer.empty))
  )

  it.scopedLive("is not reached by a process that could not build its API routes", () =>
    Effect.gen(function* () {
      const server = yield* TestServer
      expect(yield* server.admin("GET", "/api/v1/pods")).toMatchObject({ status: 500 })
      expect(yield* server.ask("GET", "/readyz")).toMatchObject({
        status: 503,
        json: { status: "not ready", reasons: ["starting: the API routes are not built"] }
      })
    }).pipe(
      Effect.provide(
        layerOverAll(portsMemory, behind, {}, Layer.merge(noHooks, Layer.succeed(Deliveries, undefined as never)))
      ),
      Effect.provide(Logger.remove(Logger.defaultLogger))
    )
  )
})
