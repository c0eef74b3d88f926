import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { Migrations } from "../../src/database/Migrations.js"
import { WriteHealth } from "../../src/database/WriteHealth.js"
import { Readiness } from "../../src/http/Readiness.js"
import * as TestDatabase from "../support/TestDatabase.js"

const reasons = Effect.flatMap(Readiness, ({ report }) => Effect.map(report, (found) => found.reasons)).pipe(
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
})
