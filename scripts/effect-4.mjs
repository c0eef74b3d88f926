// How far this code is from Effect 4 (docs/adr/0035-effect-4.md): counts the APIs of Effect that src/ or the given folders
// use, and which of them Effect 4 has, has moved, has renamed (effect-4/renames.json) or does not have. Then runs the SQL
// client in effect-4/ on it. `--all` lists the APIs that are not the same.
import { copyFileSync, existsSync, readdirSync, readFileSync } from "node:fs"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { startPostgres } from "./bench/postgres.mjs"
import { must, root } from "./installed.mjs"
import { fromNpm } from "./matrix/servers.mjs"

const own = fileURLToPath(new URL("effect-4", import.meta.url))
const folder = fromNpm("effect-4", ["effect@4.1.0", "@effect/platform-node@4.1.0", "pg@8.23.1", "pg-cursor@2.22.0"])
const next = join(folder, "node_modules")
const renames = JSON.parse(readFileSync(join(own, "renames.json"), "utf8"))
const folders = process.argv.slice(2).filter((name) => name !== "--all")

const withoutComments = (text) => text.replace(/\/\*[\s\S]*?\*\//g, " ").replace(/(^|[^:"'`])\/\/[^\n]*/g, "$1")

const declarations = new Map()
/** Names that a declaration file exports, types included. Undefined if there is no such file. */
const exportsOf = (file) => {
  if (!existsSync(file)) return undefined
  if (declarations.has(file)) return declarations.get(file)
  const names = new Set()
  declarations.set(file, names)
  const text = withoutComments(readFileSync(file, "utf8"))
  const declared = /^export (?:declare )?(?:abstract )?(?:const|let|function|class|interface|type|namespace) ([\w$]+)/gm
  for (const [, name] of text.matchAll(declared)) names.add(name)
  for (const [, list] of text.matchAll(/^export (?:type )?\{([^}]*)\}/gm))
    for (const part of list.split(","))
      names.add(
        part
          .trim()
          .split(" as ")
          .at(-1)
          .replace(/^type /, "")
      )
  for (const [, name] of text.matchAll(/^export \* as (\w+) from/gm)) names.add(name)
  for (const [, from] of text.matchAll(/^export \* from "([^"]+)"/gm))
    for (const name of exportsOf(join(dirname(file), from.replace(/\.[jt]s$/, ".d.ts"))) ?? []) names.add(name)
  return names
}

const today = (name, module) => join(root, "node_modules", name, "dist/dts", `${module}.d.ts`)
const inEffect = (path) => join(next, "effect/dist", `${path}.d.ts`)

/** Where Effect 4 could have a module: its import path and its file. */
const homes = (name, module) => {
  const within = (...paths) => paths.map((path) => [`effect/${path}`, inEffect(path)])
  switch (name) {
    case "effect":
      return within(module)
    case "@effect/sql":
      return within(`sql/${module}`)
    case "@effect/workflow":
      return within(`workflow/${module}`)
    case "@effect/platform":
      return within(`http-api/${module}`, `http/${module}`, module)
    case "@effect/experimental":
      return within(`persistence/${module}`)
    case "@effect/platform-node":
      return [[`${name}/${module}`, join(next, name, "dist", `${module}.d.ts`)]]
    default:
      return []
  }
}

const uses = new Map()
const note = (name, module, member, count) => {
  if (count === 0) return
  const key = `${name === "effect" ? "" : `${name}/`}${module}.${member}`
  const use = uses.get(key) ?? { key, name, module, member, count: 0, files: 0 }
  use.count += count
  use.files += 1
  uses.set(key, use)
}

const countIn = (text) => {
  const code = text.replace(/^import[^"]*?from "[^"]+"$/gm, "")
  const times = (word) => [...code.matchAll(new RegExp(`(?<![\\w$.])${word}(?![\\w$])`, "g"))].length
  const members = (alias, name, module) => {
    const counts = new Map()
    for (const [, member] of code.matchAll(new RegExp(`(?<![\\w$.])${alias}\\.([A-Za-z_$][\\w$]*)`, "g")))
      counts.set(member, (counts.get(member) ?? 0) + 1)
    for (const [member, count] of counts) note(name, module, member, count)
  }
  const imports = /^import (?:type )?([^"]*?) from "(effect|@effect\/[\w-]+)(?:\/(\w+))?"$/gm
  for (const [, clause, name, module] of text.matchAll(imports)) {
    const [, whole] = /^\* as (\w+)$/.exec(clause) ?? []
    if (whole !== undefined) members(whole, name, module)
    else
      for (const part of clause
        .replace(/[{}]/g, "")
        .split(",")
        .filter((each) => each.trim() !== "")) {
        const [imported, alias = imported] = part
          .trim()
          .replace(/^type /, "")
          .split(" as ")
        if (module === undefined && exportsOf(today(name, imported)) !== undefined) members(alias, name, imported)
        else note(name, module ?? "Function", imported, times(alias))
      }
  }
}

const sources = (path) =>
  readdirSync(path, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.tsx?$/.test(entry.name))
    .map((entry) => join(entry.parentPath ?? entry.path, entry.name))
for (const name of folders.length > 0 ? folders : ["src"])
  for (const file of sources(join(root, name))) countIn(withoutComments(readFileSync(file, "utf8")))

const fate = ({ key, member, module, name }) => {
  const found = homes(name, module).find(([, file]) => exportsOf(file)?.has(member))
  if (found !== undefined) return found[0] === `${name}/${module}` ? ["same"] : ["moved", found[0]]
  const successor = renames[key]
  if (successor === undefined) return ["gone"]
  const [path, renamed] = successor.split(".")
  if (!exportsOf(inEffect(path))?.has(renamed)) throw new Error(`renames.json: effect/${successor} does not exist`)
  return ["renamed", successor]
}

const totals = new Map(["same", "moved", "renamed", "gone"].map((kind) => [kind, { apis: 0, uses: 0 }]))
for (const use of [...uses.values()].toSorted((a, b) => b.count - a.count)) {
  const [kind, to] = fate(use)
  const total = totals.get(kind)
  total.apis += 1
  total.uses += use.count
  if (process.argv.includes("--all") && kind !== "same")
    console.log(`${use.key}: ${kind}${to === undefined ? "" : ` to ${to}`}, ${use.count} uses in ${use.files} files`)
}
console.log("| in Effect 4 | APIs | uses |\n| --- | --- | --- |")
for (const [kind, { apis, uses: count }] of totals) console.log(`| ${kind} | ${apis} | ${count} |`)

const server = await startPostgres()
try {
  for (const file of ["client.mjs", "proof.mjs"]) copyFileSync(join(own, file), join(folder, file))
  const { stdout } = await must(folder, process.execPath, ["proof.mjs", server.url])
  console.log(`\n${stdout.trim()}`)
} finally {
  await server.stop()
}
