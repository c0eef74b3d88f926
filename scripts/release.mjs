// `npm run release`: checks everything that a release needs, writes version and date, commits and tags. The workflow of the tag
// runs the same checks (`--tagged`) and publishes.
import { mkdtempSync, readFileSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { pack } from "./installed.mjs"
import { checks, run } from "./release/checks.mjs"
import { commit, planOf, releaseNotes } from "./release/plan.mjs"

const root = dirname(dirname(fileURLToPath(import.meta.url)))

const help = `Usage: npm run release -- [version] [options]

Checks that a release can be made, writes the version and the date into package.json, package-lock.json, the examples and
CHANGELOG.md, commits, and creates the tag. It publishes nothing: push the commit and the tag, and the workflow publishes.

  version      the version to release (default: the one in package.json)
  --dry-run    check and print everything, change nothing; exits with 1 if a release would be refused
  --tagged     check the tag of this commit, as the workflow does
  --notes      print the section of the changelog with absolute links, and nothing else
  --help       print this help
`

const size = (bytes) => `${(bytes / 1e3).toFixed(0).padStart(6)} kB`

/** The contents of the package, one line per folder of the first two levels. */
const summaryOf = ({ filename, files, size: packedSize, unpackedSize }) => {
  const folders = new Map()
  for (const { path, size: bytes } of files) {
    const folder = /^(?:[^/]+\/){1,2}/.exec(path)?.[0] ?? path
    const [count, sum] = folders.get(folder) ?? [0, 0]
    folders.set(folder, [count + 1, sum + bytes])
  }
  const lines = [...folders].map(
    ([folder, [count, sum]]) => `${size(sum)}  ${folder}${folder.endsWith("/") ? ` (${count})` : ""}`
  )
  return `${filename}: ${files.length} files, ${size(packedSize).trim()} packed, ${size(unpackedSize).trim()} unpacked\n${lines.join("\n")}`
}

const report = (name, problems) => {
  console.log(`${problems.length === 0 ? "ok    " : "FAILED"}  ${name}`)
  for (const problem of problems) console.log(`        ${problem.replaceAll("\n", "\n        ")}`)
}

const stop = (message) => {
  console.error(`${message} See npm run release -- --help.`)
  process.exit(2)
}

const flag = { type: "boolean", default: false }
const read = () => {
  try {
    return parseArgs({ allowPositionals: true, options: { "dry-run": flag, tagged: flag, notes: flag, help: flag } })
  } catch (error) {
    return stop(error.message)
  }
}

const { positionals, values } = read()
if (values.help) {
  console.log(help)
  process.exit(0)
}
if (positionals.length > 1) stop(`One version is expected, got ${positionals.join(" ")}.`)
const version = positionals[0] ?? JSON.parse(readFileSync(join(root, "package.json"), "utf8")).version
if (!/^\d+\.\d+\.\d+(-[\w.]+)?$/.test(version)) stop(`"${version}" is no version: write it as 0.2.0.`)
const plan = planOf(root, version, new Date().toISOString().slice(0, 10))
if (values.notes) {
  console.log(releaseNotes(root, version, plan) ?? "")
  process.exit(plan.notes === undefined ? 1 : 0)
}

const folder = mkdtempSync(join(tmpdir(), "nightshift-release-"))
try {
  const packed = await pack(folder)
  const failed = await run(checks, { root, version, plan, packed, isTagged: values.tagged }, report)
  console.log(`\n${summaryOf(packed)}`)
  if (plan.changes.size > 0) console.log(`\nA release changes ${[...plan.changes.keys()].join(", ")}.`)
  console.log(`\nRelease notes of ${version}, ${plan.notes?.date}:\n\n${plan.notes?.text ?? ""}`)
  if (failed.length > 0) {
    console.error(`\nNo release: ${failed.length} problem${failed.length === 1 ? "" : "s"} above.`)
    process.exitCode = 1
  } else if (values["dry-run"] || values.tagged) console.log("\nEverything is ready.")
  else {
    commit(root, version, plan)
    console.log(`\nThis commit is now v${version}. To publish: git push --atomic origin main v${version}`)
  }
} finally {
  rmSync(folder, { recursive: true, force: true })
}
