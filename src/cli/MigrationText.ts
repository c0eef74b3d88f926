import * as BytesText from "../core/BytesText.js"
import * as DurationText from "../core/DurationText.js"
import type { MigrationPlan, PlannedMigration, PlannedStatement, PlannedWork } from "../database/MigrationPlan.js"
import { counted } from "./Terminal.js"

// The text is a script: notes are comments above the statement that they describe.

/** Two digits say enough about an estimate. */
const timeText = (seconds: number): string => {
  if (seconds < 1) return "less than a second"
  const whole = Math.ceil(seconds)
  const digits = 10 ** Math.max(0, String(whole).length - 2)
  return `about ${DurationText.format(Math.ceil(whole / digits) * digits * 1_000)}`
}

const rowsText = ({ bytes, rows }: PlannedWork) =>
  `${rows === null ? "" : `about ${rows.toLocaleString("en")} ${rows === 1 ? "row" : "rows"}, `}${BytesText.format(bytes)}`

const workText = (work: PlannedWork): string => {
  const time = timeText(work.seconds)
  const table = `${work.table} (${rowsText(work)})`
  if (work.does === "rewrites") return `Writes all of ${table} and its indexes to new files: ${time}.`
  if (work.does === "reads") return `Reads all of ${table}: ${time}.`
  if (work.does === "builds an index") return `Builds an index of ${table}: ${time}.`
  return `Changes rows of ${table}: ${time} if it changes all.`
}

const statementText = (statement: PlannedStatement): string => {
  const locks = statement.locks.map(({ blocks, mode, table }) => `Locks ${table} (${mode}): blocks ${blocks}.`)
  const work = statement.work.map(workText)
  const isShort = locks.length > 0 && work.length === 0
  const notes = [...locks, ...work, ...(isShort ? ["Does not depend on the size of the table."] : [])]
  return [...notes.map((note) => `-- ${note}`), `${statement.sql};`].join("\n")
}

/** From a table's first lock on, its readers and writers wait until the end of the transaction. */
const summary = ({ seconds, statements }: PlannedMigration): string => {
  if (seconds === null) return "Locks and times are not known: this release has no record of them."
  const blocked = statements.flatMap(({ locks }) => locks).filter(({ blocks }) => blocks.endsWith("writes"))
  const tables = [...new Set(blocked.map(({ table }) => table))]
  if (statements.every(({ locks }) => locks.length === 0)) return "Locks no existing table."
  return tables.length === 0
    ? `Takes ${timeText(seconds)}, and blocks no reads and no writes of whole tables.`
    : `Takes ${timeText(seconds)}. Meanwhile, other processes wait to use ${tables.join(", ")}.`
}

const migrationText = (migration: PlannedMigration): string =>
  [
    `-- ${migration.name}\n-- Needs nightshift ${migration.oldestCode} or later: older processes must stop first.\n-- ${summary(migration)}`,
    ...migration.statements.map(statementText)
  ].join("\n\n")

/** Describes what `nightshift migrate` would do. */
export const describe = ({ applied, pending }: MigrationPlan): string => {
  if (pending.length === 0) return `The schema is up to date (${counted(applied.length, "migration")} applied).`
  const locks = pending.some(({ statements }) => statements.some((statement) => statement.locks.length > 0))
  return [
    `-- ${counted(pending.length, "migration")} pending. Nothing was applied.`,
    "-- One transaction applies them all, so a lock is held from its statement to the end of the last one.",
    ...(locks
      ? [
          "-- A lock first waits for open transactions that use the table, and new ones wait behind it.",
          "-- Times are estimates for a small machine: they depend on its disk and load. Measure them on a copy."
        ]
      : []),
    "",
    pending.map(migrationText).join("\n\n")
  ].join("\n")
}
