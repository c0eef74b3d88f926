import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import { errorShape } from "../../src/queue/search/ErrorShape.js"
import * as TestDatabase from "../support/TestDatabase.js"

const errors = [
  "",
  "Error: order 17 of 0198c0de-0000-7000-8000-00000000dead not found\n    at load (orders.ts:3:1)",
  "checksum 9f86d081884c7d659a2feaa0c55ad015 is wrong",
  '[\n  {\n    "path": [ "email" ]\n  }\n]\n    at send (jobs.ts:7:1)',
  "{\nCaused by: Error: no",
  `${"x".repeat(190)} 1234567890123456789`,
  "naïve ☂ 2",
  "\n\nlate"
]

describe("the shape of an error", () => {
  it.scopedLive("is the same in the database", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const rows = yield* sql<{ shape: string }>`
        select nightshift.error_shape(given.text) as shape
        from unnest(${errors}::text[]) with ordinality as given(text, place) order by place`
      expect(rows.map(({ shape }) => shape)).toEqual(errors.map((text) => errorShape(text)))
      expect(yield* sql`select nightshift.error_shape(null) as shape`).toEqual([{ shape: errorShape(undefined) }])
    }).pipe(Effect.provide(TestDatabase.layer))
  )
})
