import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { Option, Schema } from "effect"
import * as Version from "../core/Version.js"

const Manifest = Schema.parseJson(Schema.Struct({ name: Schema.Literal("nightshift"), version: Schema.String }))

/** The folder of this package, from wherever in it this code runs: a source file, a bundle or a chunk of one. */
const findRoot = (from: string): { readonly root: string; readonly version: string } => {
  const file = join(from, "package.json")
  const manifest = existsSync(file)
    ? Schema.decodeUnknownOption(Manifest)(readFileSync(file, "utf8"))
    : Option.none<typeof Manifest.Type>()
  return Option.match(manifest, {
    onSome: ({ version }) => ({ root: from, version }),
    onNone: () => findRoot(dirname(from))
  })
}

const here = findRoot(dirname(fileURLToPath(import.meta.url)))

/** This release. */
export const version: Version.Version = Option.getOrThrow(Version.parse(here.version))

/** The SQL files that ship with it. */
export const migrationsDirectory: string = join(here.root, "migrations")

/** The pages of Mission Control, as the build made them. */
export const dashboardDirectory: string = join(here.root, "dist", "ui")

/** Node's module hooks for TypeScript, as the build made them. */
export const typescriptHooks: string = join(here.root, "dist", "typescript.js")
