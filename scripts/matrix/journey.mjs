// A producer and real pods work while the set-up is disturbed; then every acknowledged job is accounted for.
import { spawn } from "node:child_process"
import { randomUUID } from "node:crypto"
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { fileURLToPath } from "node:url"
import { connect, job } from "../../dist/client.js"
import { execute, query } from "./servers.mjs"

const root = fileURLToPath(new URL("../..", import.meta.url))
const command = join(root, "dist", "nightshift.js")
const app = fileURLToPath(new URL("app.mjs", import.meta.url))

const anything = { "~standard": { version: 1, vendor: "matrix", validate: (value) => ({ value }) } }
const kinds = ["recorded", "recorded_once"].map((name) => job(name, { payload: anything, queue: "ledger" }))

// Jobs of a killed pod return after seconds instead of a minute.
const soon = { QUEUE_STALE_AFTER: "3s", QUEUE_HEARTBEAT: "500ms", QUEUE_REAPER_INTERVAL: "1s", LOG_LEVEL: "warning" }

/** Runs a command of Nightshift to its end. */
export const nightshift = (args, { cwd, env }) =>
  new Promise((done) => {
    const child = spawn(process.execPath, [command, ...args], { cwd, env: { PATH: process.env.PATH, ...env } })
    let output = ""
    for (const stream of [child.stdout, child.stderr]) stream.on("data", (chunk) => (output += chunk))
    child.once("close", (code) => done({ code, output }))
  })

const startPod = async (cwd, env) => {
  const args = [command, "serve", "--app", app, "--port", "0"]
  const child = spawn(process.execPath, args, { cwd, env: { PATH: process.env.PATH, ...soon, ...env } })
  let output = ""
  const closed = new Promise((done) => child.once("close", (code, signal) => done({ code, signal })))
  const up = new Promise((done) => {
    for (const stream of [child.stdout, child.stderr]) {
      stream.on("data", (chunk) => {
        output += chunk
        if (output.includes("is up")) done(true)
      })
    }
  })
  if ((await Promise.race([up, closed])) !== true) throw new Error(`a process ended at its start:\n${output}`)
  return { child, closed, output: () => output }
}

/** Enqueues until stopped. A call that fails is repeated with the same id until it is acknowledged. */
const startProducer = (shift) => {
  const history = []
  const underWay = new Set()
  let stopped = false
  const store = async (entry) => {
    for (;;) {
      try {
        await shift.enqueue(kinds[entry.n % 2], { n: entry.n }, { id: entry.id })
        entry.acknowledgedAt = performance.now()
        return
      } catch (error) {
        entry.failures += 1
        // An earlier call stored the job, but its response was lost.
        if (error.name === "JobIdTakenError") {
          entry.acknowledgedAt = performance.now()
          return
        }
        await sleep(100)
      }
    }
  }
  const loop = (async () => {
    while (!stopped) {
      for (let many = 0; many < 6 && underWay.size < 200; many += 1) {
        const entry = { n: history.length, id: randomUUID(), failures: 0, acknowledgedAt: undefined }
        history.push(entry)
        const task = store(entry).finally(() => underWay.delete(task))
        underWay.add(task)
      }
      await sleep(20)
    }
  })()
  return {
    history,
    stop: async () => {
      stopped = true
      await loop
      await Promise.race([Promise.all(underWay), sleep(60_000)])
    }
  }
}

const plainLedger = ["drop table if exists ledger", "create table ledger (n int not null)"]
const unfinished = "select count(*)::int as count from nightshift.job where status in ('pending', 'running')"

const drained = async (url, limit) => {
  const begun = performance.now()
  for (;;) {
    const [{ count }] = await query(url, unfinished)
    if (count === 0) return
    if (performance.now() - begun > limit) {
      const rows = await query(
        url,
        "select id, status, kind, attempt, last_error from nightshift.job where status in ('pending', 'running') limit 5"
      )
      throw new Error(`${count} jobs did not finish within ${limit / 1000} s: ${JSON.stringify(rows)}`)
    }
    await sleep(200)
  }
}

const count = (values) => {
  const counts = new Map()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return counts
}

/** Differences between the history and the database. */
const compare = async (history, readUrl, ledger) => {
  const stored = new Map(
    (await query(readUrl, "select id, status from nightshift.job")).map(({ id, status }) => [id, status])
  )
  const rows = count((await query(readUrl, "select n from ledger")).map(({ n }) => n))
  const runs = count(
    readFileSync(ledger, "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map(Number)
  )
  const acknowledged = history.filter(({ acknowledgedAt }) => acknowledgedAt !== undefined)
  const kept = acknowledged.filter(({ id }) => stored.has(id))
  return {
    acknowledged: acknowledged.length,
    unacknowledged: history.length - acknowledged.length,
    lost: acknowledged.filter(({ id }) => !stored.has(id)),
    notDone: kept.filter(({ id }) => stored.get(id) !== "done"),
    neverRan: kept.filter(({ n }) => !runs.has(n)),
    ranAgain: acknowledged.filter(({ n }) => (runs.get(n) ?? 0) > 1).length,
    effectsWrong: kept.filter(({ n }) => n % 2 === 1 && rows.get(n) !== 1)
  }
}

/** The longest time in which no enqueue was acknowledged, in milliseconds. */
const longestPause = (history) => {
  const times = history.map(({ acknowledgedAt }) => acknowledgedAt).toSorted((a, b) => a - b)
  return Math.max(...times.slice(1).map((time, index) => time - times[index]))
}

/**
 * Runs the journey. `disturb` receives `pods`, a function that kills one and starts another, and returns when the fault is over.
 * `readUrl` names the server before and after the fault. Throws if a promise was broken; `mayLose` lets acknowledged jobs be missing.
 */
export const journey = async ({ cwd, disturb, env, ledger: tables = plainLedger, mayLose = false, readUrl, url }) => {
  const ledger = join(cwd, "ledger.txt")
  if (existsSync(ledger)) rmSync(ledger)
  writeFileSync(ledger, "")
  const podEnv = { DATABASE_URL: url, MATRIX_LEDGER: ledger, ...env }
  const migrated = await nightshift(["migrate"], { cwd, env: podEnv })
  if (migrated.code !== 0) throw new Error(`nightshift migrate failed:\n${migrated.output}`)
  await execute(readUrl.before, tables)
  const shift = await connect(url, { log: false })
  const pods = [await startPod(cwd, podEnv), await startPod(cwd, podEnv)]
  const killPod = async () => {
    const victim = pods.shift()
    victim.child.kill("SIGKILL")
    await victim.closed
    pods.push(await startPod(cwd, podEnv))
  }
  try {
    const producer = startProducer(shift)
    await sleep(2000)
    await disturb({ killPod })
    const overAt = performance.now()
    const resumed = () => producer.history.some(({ acknowledgedAt }) => acknowledgedAt > overAt)
    while (!resumed() && performance.now() - overAt < 60_000) await sleep(20)
    await sleep(2000)
    await producer.stop()
    await drained(readUrl.after, 90_000)
    const found = await compare(producer.history, readUrl.after, ledger)
    const broken = []
    if (found.unacknowledged > 0) broken.push(`${found.unacknowledged} enqueues were never acknowledged`)
    if (found.lost.length > 0 && !mayLose) broken.push(`${found.lost.length} acknowledged jobs are missing`)
    for (const [what, text] of [
      ["notDone", "jobs are not done"],
      ["neverRan", "jobs are done but never ran"],
      ["effectsWrong", "transactional jobs do not have exactly one effect"]
    ]) {
      if (found[what].length > 0) broken.push(`${found[what].length} ${text}, such as ${found[what][0].id}`)
    }
    for (const pod of pods) {
      if (pod.child.exitCode !== null) broken.push(`a process exited unexpectedly:\n${pod.output().slice(-2000)}`)
      pod.child.kill("SIGTERM")
      const { code } = await pod.closed
      if (code !== 0) broken.push(`a process ended with code ${code}:\n${pod.output().slice(-2000)}`)
    }
    if (broken.length > 0) throw new Error(broken.join("; "))
    return {
      jobs: found.acknowledged,
      lost: found.lost,
      ranAgain: found.ranAgain,
      longestPause: longestPause(producer.history),
      log: pods.map((pod) => pod.output()).join("")
    }
  } finally {
    for (const { child } of pods) child.kill("SIGKILL")
    await shift.close()
  }
}
