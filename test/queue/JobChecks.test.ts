import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Constraints of the table, for every writer.

const store = (columns: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const all: Readonly<Record<string, string>> = {
      id: "gen_random_uuid()",
      queue: "'q'",
      kind: "'k'",
      payload: "'{}'",
      max_attempts: "5",
      run_at: "now()",
      created_at: "now()",
      updated_at: "now()",
      ...columns
    }
    return yield* sql.unsafe(
      `insert into nightshift.job (${Object.keys(all).join(", ")}) values (${Object.values(all).join(", ")})`
    )
  })

const id = "gen_random_uuid()"
const over = { finished_at: "now()" }
const run = { status: "'running'", lease: id, pod_id: id, heartbeat_at: "now()", started_at: "now()" }
const dead = { status: "'dead'", ...over, dead_reason: "'poison'" }

const whole: ReadonlyArray<Readonly<Record<string, string>>> = [
  {},
  run,
  { status: "'done'", ...over },
  dead,
  { dedupe_key: "'a'", dedupe_scope: "'active'" },
  { dedupe_key: "'b'", dedupe_scope: "'retained'" }
]

const broken: ReadonlyArray<Readonly<Record<string, string>>> = [
  { status: "'asleep'" },
  { lease: id },
  { pod_id: id },
  { heartbeat_at: "now()" },
  { finished_at: "now()" },
  { dead_reason: "'poison'" },
  { ...run, lease: "null" },
  { ...run, pod_id: "null" },
  { ...run, heartbeat_at: "null" },
  { ...run, started_at: "null" },
  { ...run, finished_at: "now()" },
  { ...run, dead_reason: "'poison'" },
  { status: "'done'" },
  { status: "'done'", ...over, dead_reason: "'poison'" },
  { status: "'done'", ...over, lease: id },
  { ...dead, finished_at: "null" },
  { ...dead, dead_reason: "null" },
  { ...dead, dead_reason: "'boredom'" },
  { ...dead, pod_id: id },
  { attempt: "-1" },
  { attempt: "6" },
  { dedupe_key: "'c'" },
  { dedupe_scope: "'active'" },
  { dedupe_key: "'c'", dedupe_scope: "'sometimes'" }
]

layer(TestDatabase.layer, { excludeTestServices: true })("the job table", (it) => {
  it.effect("accepts valid jobs of every state", () => Effect.forEach(whole, store))

  it.effect("refuses rows that no state allows", () =>
    Effect.forEach(broken, (columns) =>
      Effect.map(Effect.flip(store(columns)), (error) =>
        expect(String(error.cause), JSON.stringify(columns)).toMatch(/violates check constraint/)
      )
    )
  )
})
