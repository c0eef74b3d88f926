import { createHash } from "node:crypto"
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Option, Schema } from "effect"
import * as Package from "./Package.js"

/** A migration: plain SQL that is applied once, in the order of the numbers. */
export interface MigrationFile {
  readonly number: number
  /** The file name without its extension, like `0001_baseline`. */
  readonly name: string
  readonly sql: string
  readonly checksum: string
  /** The oldest release that works on a database with this migration. */
  readonly oldestCode: Package.Version
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
  expectedNumber: number
): Effect.Effect<MigrationFile, MigrationFileInvalid> =>
  Effect.gen(function* () {
    const number = Number(namePattern.exec(file)?.[1])
    if (Number.isNaN(number)) return yield* invalid(file, "its name does not match 0001_noun.sql")
    if (number !== expectedNumber) return yield* invalid(file, `number ${expectedNumber} is missing before it`)
    const sql = readFileSync(join(directory, file), "utf8")
    const oldestCode = Package.parseVersion(oldestCodePattern.exec(sql)?.[1] ?? "")
    if (Option.isNone(oldestCode)) return yield* invalid(file, "it has no line like `-- Oldest code: 0.1.0`")
    const checksum = createHash("sha256").update(sql).digest("hex")
    return { number, name: file.slice(0, -".sql".length), sql, checksum, oldestCode: oldestCode.value }
  })

const invalid = (file: string, reason: string) => new MigrationFileInvalid({ file, reason })

/** Reads the migrations of a folder in order. Fails if a number is missing. */
export const readAll = (directory: string): Effect.Effect<ReadonlyArray<MigrationFile>, MigrationFileInvalid> =>
  Effect.suspend(() => {
    const files = readdirSync(directory).filter((file) => file.endsWith(".sql"))
    return Effect.forEach(files.sort(), (file, index) => read(directory, file, index + 1))
  })
