import { existsSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { Option, Order, Schema } from "effect"

/** A parsed `major.minor.patch` version of this package. */
export interface Version {
  readonly text: string
  readonly parts: readonly [number, number, number]
}

export const parseVersion = (text: string): Option.Option<Version> => {
  const match = /^(\d+)\.(\d+)\.(\d+)$/.exec(text.trim())
  if (match === null) return Option.none()
  const [, major, minor, patch] = match
  return Option.some({ text: text.trim(), parts: [Number(major), Number(minor), Number(patch)] })
}

export const versionOrder: Order.Order<Version> = Order.mapInput(
  Order.tuple(Order.number, Order.number, Order.number),
  (version) => version.parts
)

const Manifest = Schema.parseJson(Schema.Struct({ name: Schema.Literal("nightshift"), version: Schema.String }))

/** Finds the folder of this package. This code may run from a source file or from a bundle. */
const findRoot = (from: string): { readonly root: string; readonly version: string } => {
  const file = join(from, "package.json")
  const manifest = existsSync(file)
    ? Schema.decodeUnknownOption(Manifest)(readFileSync(file, "utf8"))
    : Option.none<typeof Manifest.Type>()
  if (Option.isSome(manifest)) return { root: from, version: manifest.value.version }
  if (dirname(from) === from)
    throw new Error(
      "nightshift cannot find its own files, because a bundler has copied its code: make the package external in the bundler's settings."
    )
  return findRoot(dirname(from))
}

const here = findRoot(dirname(fileURLToPath(import.meta.url)))

export const version: Version = Option.getOrThrow(parseVersion(here.version))

export const migrationsDirectory: string = join(here.root, "migrations")

/** The built pages of Mission Control. */
export const dashboardDirectory: string = join(here.root, "dist", "ui")

/** The manual. A package contains most of it. */
export const docsDirectory: string = join(here.root, "docs")

/** The built Node module hooks for TypeScript. */
export const typescriptHooks: string = join(here.root, "dist", "typescript.js")
