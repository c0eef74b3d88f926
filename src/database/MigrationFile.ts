import { createHash } from "node:crypto"
import { existsSync, readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Option, Schema } from "effect"
import * as Package from "./Package.js"

const TableNames = Schema.optionalWith(Schema.Array(Schema.String), { default: () => [] })

/** What a statement does to tables that existed before its migration. Statements that touch none have no entry. */
export const StatementEffect = Schema.Struct({
  /** The index of the statement in its file. */
  statement: Schema.Int,
  /** The strongest lock on each table, as pg_locks names it. Locks of a plain read are left out. */
  locks: Schema.Record({ key: Schema.String, value: Schema.String }),
  /** Tables that it writes to new files, with all their indexes. */
  rewrites: TableNames,
  /** Tables that it reads from start to end. */
  scans: TableNames,
  /** Tables on which it builds an index. */
  indexes: TableNames,
  /** Tables whose rows it inserts, updates or deletes. */
  changes: TableNames
})
export type StatementEffect = typeof StatementEffect.Type

/** The file beside the migrations with the effects of their statements, which `npm run schema` measures. */
export const effectsFile = "effects.json"

export const RecordedEffects = Schema.parseJson(
  Schema.Record({
    key: Schema.String,
    value: Schema.Struct({ checksum: Schema.String, effects: Schema.Array(StatementEffect) })
  })
)

/** A migration: plain SQL that is applied once, in the order of the numbers. */
export interface MigrationFile {
  readonly number: number
  /** The file name without its extension, like `0001_baseline`. */
  readonly name: string
  readonly sql: string
  readonly checksum: string
  /** The oldest release that works on a database with this migration. */
  readonly oldestCode: Package.Version
  /** Undefined if they were not recorded for this text of the file. */
  readonly effects: ReadonlyArray<StatementEffect> | undefined
}

/** A file in the migrations folder is invalid. This is a packaging error, not a user error. */
export class MigrationFileInvalid extends Schema.TaggedError<MigrationFileInvalid>()("MigrationFileInvalid", {
  file: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `The migration ${this.file} is invalid: ${this.reason}.`
  }
}

const namePattern = /^(\d{4})_[a-z0-9_]+\.sql$/
const oldestCodePattern = /^-- Oldest code: (\S+)$/m

const read = (
  directory: string,
  file: string,
  expectedNumber: number,
  recorded: typeof RecordedEffects.Type
): Effect.Effect<MigrationFile, MigrationFileInvalid> =>
  Effect.gen(function* () {
    const number = Number(namePattern.exec(file)?.[1])
    if (Number.isNaN(number)) return yield* invalid(file, "its name does not match 0001_noun.sql")
    if (number !== expectedNumber) return yield* invalid(file, `number ${expectedNumber} is missing before it`)
    const sql = readFileSync(join(directory, file), "utf8")
    const oldestCode = Package.parseVersion(oldestCodePattern.exec(sql)?.[1] ?? "")
    if (Option.isNone(oldestCode)) return yield* invalid(file, "it has no line like `-- Oldest code: 0.1.0`")
    const checksum = createHash("sha256").update(sql).digest("hex")
    const name = file.slice(0, -".sql".length)
    const record = recorded[name]
    const effects = record?.checksum === checksum ? record.effects : undefined
    return { number, name, sql, checksum, oldestCode: oldestCode.value, effects }
  })

const invalid = (file: string, reason: string) => new MigrationFileInvalid({ file, reason })

const readEffects = (directory: string) => {
  const path = join(directory, effectsFile)
  if (!existsSync(path)) return Effect.succeed({})
  return Effect.mapError(Schema.decode(RecordedEffects)(readFileSync(path, "utf8")), ({ message }) =>
    invalid(effectsFile, message)
  )
}

/** Reads the migrations of a folder in order. Fails if a number is missing. */
export const readAll = (directory: string): Effect.Effect<ReadonlyArray<MigrationFile>, MigrationFileInvalid> =>
  Effect.suspend(() => {
    const files = readdirSync(directory).filter((file) => file.endsWith(".sql"))
    return Effect.flatMap(readEffects(directory), (recorded) =>
      Effect.forEach(files.sort(), (file, index) => read(directory, file, index + 1, recorded))
    )
  })
