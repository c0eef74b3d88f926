// Packs this package and installs it with npm, pnpm, yarn and bun beside nothing, effect 3.18, effect 3.22 and effect 4. In every
// project the promise form works, with `import` and `require`, and `serve --app` runs the program of
// docs/learn/getting-started.md. The form for Effect works with 3.22 and says one sentence otherwise. Prints a table and exits 1
// if a case failed. `--only pnpm` runs one package manager.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { command, must, pack, root, run, start } from "./installed.mjs"
import { limits } from "./release/package.mjs"

const work = mkdtempSync(join(tmpdir(), "nightshift-install-"))
const tools = join(work, "tools")
const bin = (name) => join(tools, "node_modules", ".bin", name)
const { effectPackages, overrides } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))

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
  // A new project has no lock file, and in CI yarn refuses to create one.
  YARN_ENABLE_IMMUTABLE_INSTALLS: "0",
  YARN_ENABLE_HARDENED_MODE: "0"
}

const managers = [
  { name: "npm", command: ["npm", "install", "--no-audit", "--no-fund", "--prefer-offline"] },
  {
    name: "pnpm 12",
    // Effect's packages bring one with an install script.
    command: [bin("pnpm"), "add", "--allow-build=msgpackr-extract"],
    // As in CI, from the lock file alone.
    again: [bin("pnpm"), "install", "--frozen-lockfile"]
  },
  { name: "yarn 1", command: [process.execPath, join(tools, "node_modules/yarn/bin/yarn.js"), "add", "--no-progress"] },
  { name: "yarn 4", command: [process.execPath, join(tools, "node_modules/@yarnpkg/cli-dist/bin/yarn.js"), "add"] },
  { name: "bun", command: [bin("bun"), "add"] }
]

/** What the command of the error message installs. */
const effect3 = Object.entries(effectPackages)
  .filter(([name]) => name !== "@effect/workflow")
  .map(([name, range]) => `${name}@${range.slice(1).split(".").slice(0, 2).join(".")}`)

const cases = {
  nothing: [],
  "effect 3.18": ["effect@3.18.4"],
  "effect 3.22": effect3,
  "effect 4": ["effect@4.1.0"]
}

/** The programs of the page. Those with promises have no types in them, so JavaScript runs them. */
const page = readFileSync(join(root, "docs/learn/getting-started.md"), "utf8")
const programs = (language) =>
  [...page.matchAll(new RegExp(`^\`\`\`${language}\n// (\\S+?)[.\\s][^\n]*\n([\\s\\S]*?)^\`\`\`$`, "gm"))].map(
    ([, name, text]) => [name, text]
  )
const withPromises = programs("ts").map(([name, text]) => [`promises-${name}.mjs`, text])
const withEffect = [...page.matchAll(/^```js\n\/\/ (\S+)\n([\s\S]*?)^```$/gm)].map(([, name, text]) => [name, text])

const required = `
const { connect, job, worker } = require("nightshift/client")
const { testShift } = require("nightshift/testing")
const { z } = require("zod")
const greet = job("required", { payload: z.object({ name: z.string() }), queue: "required" })
const handlers = [greet.handle(({ name }) => "hello " + name)]
const main = async () => {
  const test = await testShift({ handlers })
  const tested = await test.enqueue(greet, { name: "test" })
  console.log(await test.result(tested.id))
  await test.close()
  const shift = await connect(process.env.DATABASE_URL, { log: false })
  await worker(shift, { handlers })
  console.log(await shift.result((await shift.enqueue(greet, { name: "Ada" })).id, { timeout: "30s" }))
  await shift.close()
}
main().catch((error) => { console.error(error); process.exit(1) })
`

/** Starts the service with an app, enqueues from a program, and expects its result. */
const roundTrip = async (cwd, app, program, env) => {
  const service = await start(cwd, command(cwd), ["serve", "--app", app], { env, sign: " is up" })
  try {
    const { stderr, stdout } = await must(cwd, process.execPath, [program], env)
    if (!stdout.includes("said: 'hello Grace'")) throw new Error(`${program} printed ${stdout}${stderr}`)
  } finally {
    await service.stop("SIGINT")
  }
}

const promiseForm = async (cwd, env) => {
  await roundTrip(cwd, "./promises-app.mjs", "promises-enqueue.mjs", env)
  const { stdout } = await must(cwd, process.execPath, ["--no-warnings", "required.cjs"], env)
  if (stdout !== "hello test\nhello Ada\n") throw new Error(`required.cjs printed ${stdout}`)
}

const sentence =
  /^nightshift: "nightshift" of Nightshift \S+ needs effect \^\S+, [^\n]+: run `[a-z]+ (install|add)( --allow-build=\S+)? effect@3\.22 @effect\/[^`]+`\. "nightshift\/client" needs none of it\.\n$/

const effectForm = async (cwd, beside, env) => {
  if (beside === "effect 3.22") {
    await roundTrip(cwd, "./app.js", "enqueue.js", { ...env, DATABASE_SCHEMA: `${env.DATABASE_SCHEMA}_effect` })
    return "works"
  }
  const service = await run(cwd, command(cwd), ["serve", "--app", "./app.js"], env)
  const program = await run(cwd, process.execPath, ["enqueue.js"], env)
  if (!sentence.test(service.stderr) || service.code !== 1) throw new Error(`serve --app said ${service.stderr}`)
  // Without effect, Node reports the program's own import of it first.
  const says = beside === "nothing" ? "Cannot find package 'effect'" : "WrongEffectVersion"
  if (!program.stderr.includes(says)) throw new Error(program.stderr)
  if (beside !== "nothing" && /^ +at /m.test(program.stderr)) throw new Error(program.stderr)
  return "one sentence"
}

const installs = async (cwd, manager, packages) => {
  if (packages.length > 0) await must(cwd, manager.command[0], [...manager.command.slice(1), ...packages], environment)
}

const runCase = async (manager, beside, tarball, databaseUrl, number) => {
  const cwd = mkdtempSync(join(work, "project-"))
  const env = { DATABASE_URL: databaseUrl, DATABASE_SCHEMA: `case_${number}`, PORT: "0", LOG_LEVEL: "error" }
  // yarn stops at a release of which the registry lacks the binaries of some platforms, so it gets this repository's choice.
  const manifest = { name: "greetings", version: "1.0.0", type: "module", private: true, resolutions: overrides }
  writeFileSync(join(cwd, "package.json"), JSON.stringify(manifest))
  for (const [name, text] of [...withPromises, ...withEffect, ["required.cjs", required]])
    writeFileSync(join(cwd, name), text)
  const row = { manager: manager.name, beside, promises: "-", effect: "-" }
  try {
    await installs(cwd, manager, cases[beside])
    await installs(cwd, manager, [`nightshift@file:${tarball}`, "zod@4"])
    if (manager.again !== undefined) {
      rmSync(join(cwd, "node_modules"), { recursive: true })
      await must(cwd, manager.again[0], manager.again.slice(1), environment)
    }
    await promiseForm(cwd, env)
    row.promises = "works"
    return { ...row, effect: await effectForm(cwd, beside, env) }
  } catch (error) {
    return { ...row, failure: error.message }
  } finally {
    rmSync(cwd, { recursive: true, force: true })
  }
}

/** The packages of the production tree and their size in MB, without optional ones. */
const measured = async (tarball) => {
  const cwd = mkdtempSync(join(work, "project-"))
  writeFileSync(join(cwd, "package.json"), '{ "private": true }')
  await must(cwd, "npm", ["install", "--no-audit", "--no-fund", "--omit=optional", tarball, "zod@4"], environment)
  const { packages } = JSON.parse(readFileSync(join(cwd, "node_modules/.package-lock.json"), "utf8"))
  const { stdout } = await must(cwd, "du", ["-sk", "node_modules"])
  const scripts = Object.keys(packages).filter((name) => packages[name].hasInstallScript)
  return { count: Object.keys(packages).length, megabytes: Number.parseInt(stdout, 10) / 1000, scripts }
}

const linted = async (name, args) => {
  const { code, stderr, stdout } = await run(work, bin(name), args, { NO_COLOR: "1" })
  return code === 0 ? undefined : `${name}: ${stdout}${stderr}`
}

const only = process.argv.includes("--only") ? process.argv[process.argv.indexOf("--only") + 1] : ""
const failures = []
let database
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
  const { count, megabytes, scripts } = await measured(tarball)
  console.log(
    `${filename}: ${(unpackedSize / 1e6).toFixed(1)} MB unpacked. With zod: ${count} packages, ${megabytes.toFixed(1)} MB on disk\n`
  )
  if (unpackedSize > limits.unpacked) failures.push(`the package is over ${limits.unpacked / 1e6} MB`)
  if (count > 12 || scripts.length > 0) failures.push(`${count} packages, with install scripts: ${scripts.join(", ")}`)
  if (only === "") {
    failures.push(
      ...[await linted("publint", [tarball, "--strict"]), await linted("attw", [tarball, "--profile", "esm-only"])]
    )
  }
  // One server for all projects, from this repository. Every project has its own schema.
  const cwd = mkdtempSync(join(work, "database-"))
  database = await start(
    cwd,
    process.execPath,
    [join(root, "dist/nightshift.js"), "serve", "--embedded", "--queues", "none"],
    {
      env: { PORT: "0" },
      sign: "Stop it with"
    }
  )
  const stored = (name) => readFileSync(join(cwd, ".nightshift", name), "utf8").trim()
  const databaseUrl = `postgres://postgres:${stored("password")}@127.0.0.1:${stored("port")}/postgres`
  console.log("| package manager | beside | promises | Effect |\n| --- | --- | --- | --- |")
  let number = 0
  for (const manager of managers.filter(({ name }) => name.startsWith(only))) {
    for (const beside of Object.keys(cases)) {
      number += 1
      const { failure, ...row } = await runCase(manager, beside, tarball, databaseUrl, number)
      console.log(`| ${Object.values(row).join(" | ")} |${failure === undefined ? "" : " FAILED"}`)
      if (failure !== undefined) failures.push(`${manager.name}, ${beside}: ${failure}`)
    }
  }
} finally {
  await database?.stop("SIGINT")
  rmSync(work, { recursive: true, force: true })
}
const found = failures.filter((failure) => failure !== undefined)
if (found.length > 0) {
  console.error(`\n${found.join("\n\n")}`)
  process.exit(1)
}
