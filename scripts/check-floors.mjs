// Checks that each folder of src/ imports only from floors below it, never from the same floor or above, that the same
// holds for the sub-folders of the rooms in `inside`, and that there are no import cycles. Type imports count. `node scripts/check-floors.mjs [folder]` prints every violation and exits 1
// if there is one.
import { readdirSync, readFileSync } from "node:fs"
import { dirname, join, relative, resolve, sep } from "node:path"
import { fileURLToPath } from "node:url"

const floors = [
  ["core", "codec"],
  ["database", "telemetry"],
  ["queue", "uploads", "cluster", "rate-limits", "access", "history"],
  ["handlers", "schedule", "seal"],
  ["gateway", "erasure"],
  ["worker"],
  ["fleet"],
  ["http", "workflow"],
  ["dashboard"],
  ["client"],
  ["testing", "serverless"],
  ["cli", "main.ts", "bin.ts", "guard.ts", "index.ts"]
]
const core = "core"

// The floors inside of a room: its sub-folders, and "." for the files directly in it, which are not checked if it is
// missing.
const inside = {
  queue: [
    ["settings", "search", "logs"],
    ["workflow"],
    ["claim", "admin", "why", "erasure"],
    ["handoff"],
    ["enqueue"],
    ["batch", "events", "endpoints"]
  ],
  http: [
    ["."],
    ["access"],
    ["hooks", "uploads", "workflows", "bots", "jobs", "work"],
    ["admin"],
    ["live"],
    ["fleet"],
    ["server"]
  ]
}

const sourceFiles = (src) =>
  readdirSync(src, { recursive: true })
    .map((file) => file.split(sep).join("/"))
    .filter((file) => /\.tsx?$/.test(file) && !file.endsWith(".d.ts"))
    .sort()

const importPattern =
  /(?:^|\n)\s*(?:import|export)\s[^"'`;]*?from\s*["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)|(?:^|\n)\s*import\s*["']([^"']+)["']/g

const importsOf = (text) => [...text.matchAll(importPattern)].map((match) => match[1] ?? match[2] ?? match[3])

/** Returns a file's room: its folder directly under src/, or its own name at the top level. */
const roomOf = (file) => file.split("/")[0]
const floorOf = (room) => floors.findIndex((rooms) => rooms.includes(room))

/** Returns a file's sub-folder in its room, or "." if it is directly in it. */
const subFolderOf = (file) => file.split("/").slice(1, -1)[0] ?? "."

const resolveImport = (src, file, specifier) => {
  if (!specifier.startsWith(".")) return undefined
  const target = relative(src, resolve(src, dirname(file), specifier))
    .split(sep)
    .join("/")
  return target.replace(/\.js$/, ".ts").replace(/\.jsx$/, ".tsx")
}

const violationsOfFile = (src, file, imports) => {
  const room = roomOf(file)
  const floor = floorOf(room)
  if (floor === -1) return [`${file}: "${room}" has no floor; add it in scripts/check-floors.mjs`]
  const found = []
  for (const specifier of imports) {
    const target = resolveImport(src, file, specifier)
    if (target === undefined) {
      if (room === core && specifier !== "effect" && !specifier.startsWith("effect/")) {
        found.push(`${file}: ${core}/ imports only effect, not "${specifier}"`)
      }
      continue
    }
    const targetRoom = roomOf(target)
    if (targetRoom === room) continue
    // The top-level files (main, bin, index) assemble the rooms, so they may import each other.
    if (floorOf(targetRoom) > floor) found.push(`${file}: imports upward from ${target}`)
    else if (floorOf(targetRoom) === floor && room !== "main.ts" && room !== "bin.ts") {
      found.push(`${file}: imports sideways from ${target}`)
    }
  }
  return found
}

/** Returns the violations of a file in the floors inside of its room. */
const violationsInside = (src, file, imports) => {
  const room = roomOf(file)
  const rooms = inside[room]
  if (rooms === undefined) return []
  const floorOfFolder = (folder) => rooms.findIndex((folders) => folders.includes(folder))
  const folder = subFolderOf(file)
  const floor = floorOfFolder(folder)
  if (floor === -1 && folder === ".") return []
  if (floor === -1) return [`${file}: "${room}/${folder}" has no floor; add it in scripts/check-floors.mjs`]
  return imports.flatMap((specifier) => {
    const target = resolveImport(src, file, specifier)
    if (target === undefined || roomOf(target) !== room || subFolderOf(target) === folder) return []
    const targetFloor = floorOfFolder(subFolderOf(target))
    if (targetFloor > floor) return [`${file}: imports upward from ${target}`]
    return targetFloor === floor ? [`${file}: imports sideways from ${target}`] : []
  })
}

const cycles = (graph) => {
  const found = []
  const state = new Map()
  const path = []
  const visit = (file) => {
    if (state.get(file) === "done") return
    if (state.get(file) === "open") {
      found.push(`circular: ${[...path.slice(path.indexOf(file)), file].join(" -> ")}`)
      return
    }
    state.set(file, "open")
    path.push(file)
    for (const target of graph.get(file) ?? []) visit(target)
    path.pop()
    state.set(file, "done")
  }
  for (const file of graph.keys()) visit(file)
  return found
}

/** Returns every violation in a src folder, as messages. */
export const checkFloors = (src) => {
  const graph = new Map()
  const violations = []
  for (const file of sourceFiles(src)) {
    const imports = importsOf(readFileSync(join(src, file), "utf8"))
    violations.push(...violationsOfFile(src, file, imports), ...violationsInside(src, file, imports))
    graph.set(
      file,
      imports.map((specifier) => resolveImport(src, file, specifier)).filter((target) => target !== undefined)
    )
  }
  return [...violations, ...cycles(graph)]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const root = dirname(dirname(fileURLToPath(import.meta.url)))
  const violations = checkFloors(resolve(process.argv[2] ?? join(root, "src")))
  for (const violation of violations) console.error(violation)
  if (violations.length > 0) process.exit(1)
}
