import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { root } from "../support/Nightshift.js"

/** The SQLSTATEs of PostgreSQL's names of conditions that the SQL functions raise. */
const states: Readonly<Record<string, string>> = {
  check_violation: "23514",
  configuration_limit_exceeded: "53400",
  datetime_field_overflow: "22008",
  interval_field_overflow: "22015",
  invalid_parameter_value: "22023",
  null_value_not_allowed: "22004",
  numeric_value_out_of_range: "22003",
  program_limit_exceeded: "54000",
  serialization_failure: "40001"
}

describe("docs/learn/sql.md", () => {
  it("lists every error that the SQL functions raise", () => {
    const migrations = join(root, "migrations")
    const sql = readdirSync(migrations)
      .filter((file) => file.endsWith(".sql"))
      .map((file) => readFileSync(join(migrations, file), "utf8"))
      .join("\n")
    const raised = new Set([...sql.matchAll(/errcode = '(\w+)'/g)].map(([, name = ""]) => states[name] ?? name))
    const page = readFileSync(join(root, "docs/learn/sql.md"), "utf8")
    const listed = [...page.matchAll(/^\| `([0-9A-Z]{5})` /gm)].map(([, state]) => state)
    expect(listed.toSorted()).toEqual([...raised].toSorted())
  })
})
