// Packs this package, installs it with npm, pnpm, yarn and bun into projects that have effect 4, effect 3.18 or no
// effect, and runs the program of docs/learn/getting-started.md. If the effect version is incompatible, expects a
// one-sentence error instead. Prints a table and exits 1 if a case failed. `--only pnpm` runs one package manager.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { command, must, pack, root, run, serve } from "./installed.mjs"

const work = mkdtempSync(join(tmpdir(), "nightshift-install-"))
const tools = join(work, "tools")
const bin = (name) => join(tools, "node_modules", ".bin", name)
const { peerDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
const lowest = peerDependencies.effect.slice(1)

const registry = (await must(root, "npm", ["config", "get", "registry"])).stdout.trim()
const environment = {
  CI: "1",
  // `npm run --silent` would also hide the output of the installations.
  npm_config_loglevel: "warn",
  npm_config_registry: registry,
  YARN_REGISTRY: registry,
  YARN_NPM_REGISTRY_SERVER: registry,
  YARN_NODE_LINKER: "node-modules",
  YARN_ENABLE_TELEMETRY: "0",
  YARN_ENABLE_SCRIPTS: "0",
  // A new project has no lock file, and in CI yarn refuses to create one.
  YARN_ENABLE_IMMUTABLE_INSTALLS: "0",
  YARN_ENABLE_HARDENED_MODE: "0"
}

const npm = { name: "npm", command: ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline"] }
const managers = [
  npm,
  { name: "npm --legacy-peer-deps", command: [...npm.command, "--legacy-peer-deps"], only: "effect 4" },
  {
    name: "pnpm 12",
    command: [bin("pnpm"), "add"],
    files: { "pnpm-workspace.yaml": "strictDepBuilds: false\n" },
    // As in CI, from the lock file alone.
    again: [bin("pnpm"), "install", "--frozen-lockfile"]
  },
  {
    name: "yarn 1",
    command: [
      process.execPath,
      join(tools, "node_modules/yarn/bin/yarn.js"),
      "add",
      "--ignore-scripts",
      "--no-progress"
    ]
  },
  { name: "yarn 4", command: [process.execPath, join(tools, "node_modules/@yarnpkg/cli-dist/bin/yarn.js"), "add"] },
  { name: "bun", command: [bin("bun"), "add", "--ignore-scripts"] }
]

const page = readFileSync(join(root, "docs/learn/getting-started.md"), "utf8")
const files = [...page.matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => [name, text])

const usesWrongEffect =
  /Nightshift \S+ needs effect \^\S+, but effect \d\S+ is installed in \S+: run `[a-z]+ (install|add) effect@3`\./

/** Checks the error of a program and of `serve --app` with an incompatible effect: one sentence, no stack trace. */
const refused = async (cwd) => {
  const program = await run(cwd, process.execPath, ["enqueue.js"])
  const service = await run(cwd, command(cwd), ["serve", "--app", "./app.js"])
  const fits =
    [program, service].every(({ code, stderr }) => code !== 0 && usesWrongEffect.test(stderr)) &&
    service.stderr.trim().split("\n").length === 1 &&
    !/^ +at /m.test(program.stderr)
  if (!fits) throw new Error(`expected one sentence\n${program.stderr}\n${service.stderr}`)
  return service.stderr.trim().replace("nightshift: ", "")
}

/** Runs the steps of the page: the service (with a TypeScript app), a program that enqueues, and the tests. */
const works = async (cwd) => {
  writeFileSync(
    join(cwd, "jobs.ts"),
    `export { handlers } from "./app.js"\nexport const queues: ReadonlyArray<string> = []\n`
  )
  const service = await serve(cwd, [command(cwd)], "./jobs.ts")
  try {
    const DATABASE_URL = service.databaseUrl
    const enqueued = await must(cwd, process.execPath, ["enqueue.js"], { DATABASE_URL })
    if (!enqueued.stdout.includes("done { said: 'hello Grace' }")) throw new Error(enqueued.stdout)
    const noise = `${enqueued.stdout}${enqueued.stderr}`.match(/you may want to dedupe/g)?.length ?? 0
    if (noise > 0) throw new Error(`${noise} warnings about versions of effect`)
  } finally {
    await service.stop("SIGINT")
  }
  await must(cwd, process.execPath, ["--test"])
  return "the program of the page works"
}

const effectVersion = (cwd) => JSON.parse(readFileSync(join(cwd, "node_modules/effect/package.json"), "utf8")).version

const installs = async (cwd, manager, packages) =>
  run(cwd, manager.command[0], [...manager.command.slice(1), ...packages], environment)

const cases = [
  { before: "nothing", first: [], beside: ["effect@3"], expected: works },
  { before: "nothing", first: [], beside: [`effect@${lowest}`], expected: works, managers: /^p?npm/ },
  { before: "effect 4", first: ["effect@4.1.0"], beside: [], expected: refused },
  { before: "effect 3.18", first: ["effect@3.18.4"], beside: [], expected: refused },
  // Run the command that the error suggests.
  {
    before: "effect 4, then effect@3",
    first: ["effect@4.1.0"],
    beside: ["effect@3"],
    expected: works,
    managers: /^p?npm/
  }
]

const concerns = (one, manager) =>
  (one.managers?.test(manager.name) ?? true) && (manager.only === undefined || manager.only === one.before)

const runCase = async (manager, { before, beside, expected, first }, tarball) => {
  const cwd = mkdtempSync(join(work, "project-"))
  // Yarn fetches the packages of all platforms, and not every registry has all of them for newer releases.
  const resolutions = { "msgpackr-extract": "3.0.4" }
  writeFileSync(
    join(cwd, "package.json"),
    JSON.stringify({ name: "greetings", version: "1.0.0", type: "module", private: true, resolutions })
  )
  for (const [name, text] of [...files, ...Object.entries(manager.files ?? {})]) writeFileSync(join(cwd, name), text)
  const row = { manager: manager.name, before, install: beside.join(" ") || "nightshift alone", effect: "-" }
  try {
    if (first.length > 0) {
      const installed = await installs(cwd, manager, first)
      if (installed.code !== 0) throw new Error(installed.stdout + installed.stderr)
    }
    const installed = await installs(cwd, manager, [`nightshift@file:${tarball}`, ...beside])
    if (installed.code !== 0) {
      const output = installed.stdout + installed.stderr
      const namesBoth = output.includes("ERESOLVE") && output.includes(peerDependencies.effect)
      if (expected !== refused || !namesBoth) throw new Error(output)
      return { ...row, result: `ok: ${manager.name} refuses with ERESOLVE and names both versions` }
    }
    if (manager.again !== undefined) {
      rmSync(join(cwd, "node_modules"), { recursive: true })
      await must(cwd, manager.again[0], manager.again.slice(1), environment)
    }
    row.effect = effectVersion(cwd)
    // A package manager may upgrade effect 3 to a compatible version.
    const raised = first.length > 0 && row.effect.startsWith("3.") && `effect@${row.effect}` !== first[0]
    return { ...row, result: `ok: ${await (raised ? works : expected)(cwd)}` }
  } catch (error) {
    return { ...row, result: `FAILED: ${error.message}` }
  } finally {
    rmSync(cwd, { recursive: true, force: true })
  }
}

/** Installing the tools of docs/learn/testing.md afterwards must not fail with ERESOLVE. */
const testTools = async (tarball) => {
  const cwd = mkdtempSync(join(work, "project-"))
  writeFileSync(join(cwd, "package.json"), '{ "name": "greetings", "type": "module", "private": true }')
  const row = { manager: "npm", before: "nightshift, effect@3", install: "vitest@3 @effect/vitest@0.30", effect: "-" }
  try {
    for (const packages of [
      [`nightshift@file:${tarball}`, "effect@3"],
      ["-D", "vitest@3", "@effect/vitest@0.30"],
      []
    ]) {
      const { code, stderr } = await installs(cwd, npm, packages)
      if (code !== 0) return { ...row, result: `FAILED: ${stderr}` }
    }
    return { ...row, effect: effectVersion(cwd), result: "ok: no conflict" }
  } finally {
    rmSync(cwd, { recursive: true, force: true })
  }
}

const linted = async (name, args) => {
  const { code, stderr, stdout } = await run(work, bin(name), args, { NO_COLOR: "1" })
  return {
    manager: name,
    before: "-",
    install: "-",
    effect: "-",
    result: code === 0 ? "ok: clean" : `FAILED: ${stdout}${stderr}`
  }
}

const only = process.argv.includes("--only") ? process.argv[process.argv.indexOf("--only") + 1] : ""
const rows = []
const report = (row) => {
  rows.push(row)
  console.log(`| ${[row.manager, row.before, row.install, row.effect, row.result].join(" | ")} |`)
}

try {
  mkdirSync(tools)
  writeFileSync(join(tools, "package.json"), '{ "private": true }')
  const versions = [
    "pnpm@12.18.0",
    "yarn@1.22.22",
    "@yarnpkg/cli-dist@4.18.1",
    "bun@1.4.4",
    "publint@0.3.25",
    "@arethetypeswrong/cli@0.18.5"
  ]
  await must(tools, "npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", ...versions])
  const { filename, tarball, unpackedSize } = await pack(work)
  console.log(`${filename}: ${(unpackedSize / 1e6).toFixed(1)} MB unpacked\n`)
  console.log(
    "| package manager | before | installed with nightshift | effect | result |\n| --- | --- | --- | --- | --- |"
  )
  if (only === "") {
    report(await linted("publint", [tarball, "--strict"]))
    report(await linted("attw", [tarball, "--profile", "esm-only"]))
  }
  for (const manager of managers.filter(({ name }) => name.startsWith(only))) {
    for (const each of cases.filter((one) => concerns(one, manager))) report(await runCase(manager, each, tarball))
  }
  if ("npm".startsWith(only)) report(await testTools(tarball))
  if (unpackedSize > 10e6)
    report({ manager: "size", before: "-", install: "-", effect: "-", result: "FAILED: over 10 MB" })
} finally {
  rmSync(work, { recursive: true, force: true })
}
if (rows.some(({ result }) => result.startsWith("FAILED"))) process.exit(1)
