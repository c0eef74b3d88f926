import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, type Scope } from "effect"
import * as Package from "../../src/database/Package.js"
import * as Nightshift from "../support/Nightshift.js"

/** The names of the shipped migrations, in order. */
export const shipped: ReadonlyArray<string> = readdirSync(Package.migrationsDirectory)
  .filter((file) => file.endsWith(".sql"))
  .map((file) => file.slice(0, -".sql".length))
  .sort()

/** The number of the first migration that is not shipped, as in its file name. */
export const nextNumber = String(shipped.length + 1).padStart(4, "0")

const temporary = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "release-"))),
  (folder) => Effect.sync(() => rmSync(folder, { recursive: true, force: true }))
)

const fill = (folder: string, names: ReadonlyArray<string>, more: Readonly<Record<string, string>>) => {
  for (const name of names) cpSync(join(Package.migrationsDirectory, `${name}.sql`), join(folder, `${name}.sql`))
  for (const [name, sql] of Object.entries(more)) writeFileSync(join(folder, name), sql)
}

/** A folder of these shipped migrations and further files. */
export const migrationsOf = (
  names: ReadonlyArray<string>,
  more: Readonly<Record<string, string>> = {}
): Effect.Effect<string, never, Scope.Scope> => Effect.tap(temporary, (folder) => fill(folder, names, more))

/** This build as a release with another version and further migrations. Returns the path of its command. */
export const make = (
  version: string,
  more: Readonly<Record<string, string>>
): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(temporary, (folder) => {
    const manifest = JSON.parse(readFileSync(join(Nightshift.root, "package.json"), "utf8"))
    writeFileSync(join(folder, "package.json"), JSON.stringify({ ...manifest, version }))
    cpSync(join(Nightshift.root, "dist"), join(folder, "dist"), { recursive: true })
    cpSync(Package.migrationsDirectory, join(folder, "migrations"), { recursive: true })
    fill(join(folder, "migrations"), [], more)
    symlinkSync(join(Nightshift.root, "node_modules"), join(folder, "node_modules"))
    return join(folder, "dist", "nightshift.js")
  })
