import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as FastCheck from "effect/FastCheck"
import { Database } from "../../src/database/Database.js"
import * as SqlArrays from "../../src/queue/SqlArrays.js"
import * as TestDatabase from "../support/TestDatabase.js"

const special = [
  "null",
  "NULL",
  "Null",
  "",
  " ",
  "{}",
  "{",
  "}",
  ",",
  '"',
  "\\",
  '\\"',
  "a,b",
  "'",
  "\n",
  "\t",
  "true",
  "ü€😀"
]

/** Any text that PostgreSQL can store. */
const text = FastCheck.oneof(
  FastCheck.constantFrom(...special),
  FastCheck.string({ unit: "binary" }).filter((each) => !each.includes("\u0000")),
  FastCheck.array(FastCheck.constantFrom(...special), { maxLength: 4 }).map((parts) => parts.join(""))
)

layer(TestDatabase.layer, { excludeTestServices: true })("arrays of texts", (it) => {
  it.scoped("arrive in PostgreSQL as they are, whatever they contain", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const arrays = FastCheck.sample(FastCheck.array(FastCheck.option(text), { maxLength: 8 }), {
        numRuns: 300,
        seed: 7
      })
      const all = [special, [null, "null"], ...arrays]
      const rows = yield* sql.unsafe<{ read: ReadonlyArray<string | null> }>(
        "select to_json(given::text[]) as read from jsonb_array_elements_text($1::jsonb) with ordinality g(given, place) order by place",
        [JSON.stringify(all.map(SqlArrays.ofTexts))]
      )
      expect(rows.map(({ read }) => read)).toEqual(all)
    })
  )
})
