import type { SqlClient } from "@effect/sql/SqlClient"
import type { Fragment } from "@effect/sql/Statement"
import { headline } from "../../core/ErrorText.js"

// Errors with the same cause differ in ids, addresses, counts and times. The shape is the first line without those, so
// jobs that died of the same cause share it. A message of JSON on several lines, as validators write it, begins with a
// bracket alone: then the shape is the whole message on one line. The schema's error_shape() must produce identical shapes, so the
// rules are few and valid in both; each applies to the result of the previous one.

const shapeCharacters = 200

const rules = [
  "[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}",
  "[0-9a-fA-F]{16,}",
  "[0-9]+"
]

const patterns = rules.map((rule) => new RegExp(rule, "g"))

/** Returns the shape of an error; empty without an error. */
export const errorShape = (text: string | undefined): string => {
  const whole = headline(text ?? "")
  // Characters may be two units long. Few lines are too long, and to take them apart costs more than all rules.
  const line = whole.length <= shapeCharacters ? whole : [...whole].slice(0, shapeCharacters).join("")
  return patterns.reduce((shape, pattern) => shape.replace(pattern, "#"), line)
}

/** Whether the error of `j` has a shape, as the index of dead jobs by cause has it. `error_shape` follows the same rules. */
export const hasShape = (sql: SqlClient, schema: string, shape: string): Fragment =>
  sql`md5(${sql(`${schema}.error_shape`)}(j.last_error))::uuid = md5(${shape}::text)::uuid`
