// npm run test:mutants [-- names] [--list] [-u]
//
// Breaks the product in named ways and checks that a test notices each. The edits are made in a copy of the work tree in a
// temporary folder. The tests must pass there without a mutant first; a mutant counts as noticed only if a test fails.
import { execFileSync } from "node:child_process"
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { dirname, join } from "node:path"
import { fileURLToPath } from "node:url"
import { parseArgs } from "node:util"
import { longTests } from "./long-tests.mjs"
import { mutants } from "./mutants/mutants.mjs"
import { update } from "./mutants/page.mjs"
import { runVitest } from "./vitest-report.mjs"

const root = fileURLToPath(new URL("..", import.meta.url))
const page = join(root, "docs/operate/mutants.md")
const help = `npm run test:mutants [-- names] [options]: breaks the product in named ways, and checks that a test notices each

  --list        print the names of the mutants
  -u, --update  also write the results to docs/operate/mutants.md
  --help        this text
`

const fail = (text) => {
  process.stderr.write(`${text}\n`)
  process.exit(2)
}

const read = () => {
  try {
    const flag = { type: "boolean", default: false }
    return parseArgs({ allowPositionals: true, options: { list: flag, update: { ...flag, short: "u" }, help: flag } })
  } catch (error) {
    return fail(`${error.message}\n\n${help}`)
  }
}

const { positionals: names, values: options } = read()
const unknown = names.filter((name) => !mutants.some((mutant) => mutant.name === name))

if (unknown.length > 0) fail(`There is no mutant ${unknown.join(", ")}. Run npm run test:mutants -- --list to see all.`)
if (options.help) {
  process.stdout.write(help)
  process.exit(0)
}
if (options.list) {
  for (const { name, what } of mutants) process.stdout.write(`${name.padEnd(30)} ${what}\n`)
  process.exit(0)
}

const chosen = names.length === 0 ? mutants : mutants.filter(({ name }) => names.includes(name))
const copy = mkdtempSync(join(tmpdir(), "nightshift-mutants-"))
process.on("exit", () => rmSync(copy, { recursive: true, force: true }))
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => process.exit(130))

const files = execFileSync("git", ["ls-files", "-co", "--exclude-standard", "-z"], { cwd: root, encoding: "utf8" })
for (const file of files.split("\0").filter((each) => each !== "")) {
  mkdirSync(join(copy, dirname(file)), { recursive: true })
  cpSync(join(root, file), join(copy, file), { force: true })
}
symlinkSync(join(root, "node_modules"), join(copy, "node_modules"))

/** Runs tests of the copy until one fails. */
const runTests = async (paths, tests, size) => {
  if (size === "faults") execFileSync(process.execPath, ["scripts/build.mjs"], { cwd: copy, stdio: "ignore" })
  const env = size === "usual" ? {} : { TEST_SIZE: size }
  const report = await runVitest(copy, [...paths, "--bail=1", "-t", tests], env)
  const failed = report.tests.filter(({ status }) => status === "failed")
  if (failed.length === 0 && report.tests.every(({ status }) => status !== "passed")) {
    const why = report.broken.map(({ message }) => message).join("\n")
    fail(`No test of ${paths.join(" ")} that matches "${tests}" ran:\n${why === "" ? report.output : why}`)
  }
  return failed
}

const sizeOf = ({ files: [file] }) => {
  if (file.startsWith("test/faults/")) return "faults"
  return file.startsWith("test/long/") || longTests.includes(file) ? "long" : "usual"
}

/** All tests of the chosen mutants must pass without one. */
const checkWithoutMutant = async () => {
  for (const size of ["usual", "long", "faults"]) {
    const sets = chosen.flatMap(({ tests }) => tests).filter((set) => sizeOf(set) === size)
    if (sets.length === 0) continue
    const paths = [...new Set(sets.flatMap((set) => set.files))]
    const [first] = await runTests(paths, sets.map(({ tests }) => `(${tests})`).join("|"), size)
    if (first !== undefined) fail(`Without a mutant, "${first.name}" fails: ${first.message}`)
  }
}

const edited = async (mutant, act) => {
  const before = new Map(mutant.edits.map(({ file }) => [file, readFileSync(join(copy, file), "utf8")]))
  try {
    for (const { file, find, replace } of mutant.edits) {
      const text = readFileSync(join(copy, file), "utf8")
      const found = text.split(find).length - 1
      if (found !== 1)
        fail(`${mutant.name}: the text to replace occurs ${found} times in ${file}, and not once:\n${find}`)
      writeFileSync(
        join(copy, file),
        text.replace(find, () => replace)
      )
    }
    return await act()
  } finally {
    for (const [file, text] of before) writeFileSync(join(copy, file), text)
  }
}

/** Runs the tests of a mutant, in their order, until one fails. */
const notice = (mutant) =>
  edited(mutant, async () => {
    for (const set of mutant.tests) {
      const [first] = await runTests(set.files, set.tests, sizeOf(set))
      if (first !== undefined) return { mutant, by: set.by, test: first.name }
    }
    return { mutant }
  })

await checkWithoutMutant()
const results = []
for (const mutant of chosen) {
  const began = performance.now()
  const result = await notice(mutant)
  results.push(result)
  if (options.update) writeFileSync(page, update(readFileSync(page, "utf8"), mutants, [result]))
  const seconds = `${((performance.now() - began) / 1_000).toFixed(0)} s`
  process.stdout.write(
    `${mutant.name.padEnd(30)} ${seconds.padStart(6)}  ${result.by ?? "NOTHING"}  ${result.test ?? ""}\n`
  )
}
const survivors = results.filter(({ by }) => by === undefined)
process.stdout.write(`${results.length - survivors.length} of ${results.length} mutants were noticed.\n`)
if (survivors.length > 0) {
  process.stdout.write(`No test notices ${survivors.map(({ mutant }) => mutant.name).join(", ")}.\n`)
  process.exitCode = 1
}
