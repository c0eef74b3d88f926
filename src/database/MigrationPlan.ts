import type { MigrationFile, StatementEffect } from "./MigrationFile.js"
import * as SqlStatements from "./SqlStatements.js"

/** The size of a table of the database. */
export interface TableSize {
  readonly table: string
  /** PostgreSQL's estimate. Null if the table was never analyzed. */
  readonly rows: number | null
  readonly tableBytes: number
  readonly indexBytes: number
}

/** What a lock keeps other processes from doing with the table. */
export type Blocked = "reads and writes" | "writes" | "writes to the rows that it changes" | "vacuum and schema changes"

export interface PlannedLock {
  readonly table: string
  /** As PostgreSQL's manual names it, like `ACCESS EXCLUSIVE`. */
  readonly mode: string
  readonly blocks: Blocked
}

/** Work that takes longer the larger the table is. */
export interface PlannedWork {
  readonly table: string
  readonly does: "rewrites" | "reads" | "builds an index" | "changes rows"
  readonly rows: number | null
  readonly bytes: number
  /** For `changes rows`, if it changes all of them. */
  readonly seconds: number
}

export interface PlannedStatement {
  readonly sql: string
  readonly locks: ReadonlyArray<PlannedLock>
  readonly work: ReadonlyArray<PlannedWork>
}

export interface PlannedMigration {
  readonly name: string
  readonly sql: string
  readonly oldestCode: string
  readonly statements: ReadonlyArray<PlannedStatement>
  /** Null if the release does not know the effects of this migration. */
  readonly seconds: number | null
}

export interface MigrationPlan {
  readonly applied: ReadonlyArray<string>
  readonly pending: ReadonlyArray<PlannedMigration>
}

/** `AccessExclusiveLock` of pg_locks is ACCESS EXCLUSIVE in the manual. */
const modeText = (mode: string) =>
  mode
    .replace(/Lock$/, "")
    .replace(/(?<=[a-z])(?=[A-Z])/g, " ")
    .toUpperCase()

const blockedBy = (mode: string): Blocked => {
  if (mode === "AccessExclusiveLock") return "reads and writes"
  if (mode === "RowExclusiveLock") return "writes to the rows that it changes"
  return mode === "ShareUpdateExclusiveLock" ? "vacuum and schema changes" : "writes"
}

// Round assumptions about a small machine: docs/adr/0043-frozen-schema.md.
const bytesPerSecond = { read: 400e6, rewrite: 40e6 }
const rowsPerSecond = { index: 600e3, change: 20e3 }

const secondsOf = (does: PlannedWork["does"], { indexBytes, rows, tableBytes }: TableSize): number => {
  const reading = tableBytes / bytesPerSecond.read
  // A table without statistics: job rows take about half a kilobyte.
  const count = rows ?? tableBytes / 500
  if (does === "reads") return reading
  if (does === "rewrites") return (tableBytes + indexBytes) / bytesPerSecond.rewrite
  return does === "builds an index" ? reading + count / rowsPerSecond.index : count / rowsPerSecond.change
}

const workOf = (effect: StatementEffect, sizes: ReadonlyArray<TableSize>): ReadonlyArray<PlannedWork> => {
  const work = (does: PlannedWork["does"], tables: ReadonlyArray<string>) =>
    tables.flatMap((table) => {
      const size = sizes.find((each) => each.table === table)
      if (size === undefined) return []
      return [{ table, does, rows: size.rows, bytes: size.tableBytes, seconds: secondsOf(does, size) }]
    })
  // A rewrite, a new index and a change of rows include the reading.
  const reads = effect.scans.filter((table) =>
    [effect.rewrites, effect.indexes, effect.changes].every((tables) => !tables.includes(table))
  )
  return [
    ...work("rewrites", effect.rewrites),
    ...work(
      "builds an index",
      effect.indexes.filter((table) => !effect.rewrites.includes(table))
    ),
    ...work("changes rows", effect.changes),
    ...work("reads", reads)
  ]
}

/** Joins what the statements of a migration do with the sizes of the tables that they do it to. */
export const make = (
  { effects, name, oldestCode, sql }: MigrationFile,
  sizes: ReadonlyArray<TableSize>
): PlannedMigration => {
  const statements = SqlStatements.split(sql).map((statement, index): PlannedStatement => {
    const effect = effects?.find((each) => each.statement === index)
    const locks = Object.entries(effect?.locks ?? {})
    return {
      sql: statement,
      locks: locks.map(([table, mode]) => ({ table, mode: modeText(mode), blocks: blockedBy(mode) })),
      work: effect === undefined ? [] : workOf(effect, sizes)
    }
  })
  const seconds = statements.flatMap(({ work }) => work).reduce((sum, work) => sum + work.seconds, 0)
  return { name, sql, oldestCode: oldestCode.text, statements, seconds: effects === undefined ? null : seconds }
}
