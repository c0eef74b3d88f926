// `npm run bench`: compares Nightshift with its peers. See README.md.
import { mkdirSync, writeFileSync } from "node:fs"
import { cpus, totalmem } from "node:os"
import { dirname, resolve } from "node:path"
import { query } from "../matrix/servers.mjs"
import { barsFrom } from "./bars.mjs"
import { drawCharts } from "./charts.mjs"
import { readOptions } from "./options.mjs"
import { installPeers, peerVersions } from "./peers.mjs"
import { startPostgres } from "./postgres.mjs"
import { findRedis, startRedis } from "./redis.mjs"
import { asJson, printTables } from "./report.mjs"
import { rows as allRows } from "./rows.mjs"
import { loadSystem } from "./systems.mjs"
import { measureOnce } from "./workbench.mjs"

// Server settings that affect speed, for the report.
const reportedSettings = [
  "server_version",
  "fsync",
  "synchronous_commit",
  "full_page_writes",
  "shared_buffers",
  "max_wal_size"
]

const settingsOf = async (url) => {
  const settings = "select name, current_setting(name) as value from unnest($1::text[]) as name"
  const rows = await query(url, settings, [reportedSettings])
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]))
}

const availableOf = async (ids) => {
  const systems = []
  for (const id of ids) {
    const system = { id, ...(await loadSystem(id)) }
    const reason = await system.unavailable()
    if (reason === undefined) systems.push(system)
    else console.log(`${id}: not available: ${reason}`)
  }
  return systems
}

const startStores = async (systems) => {
  const own = process.env.BENCH_DATABASE_URL === undefined
  const postgres = own ? await startPostgres() : { url: process.env.BENCH_DATABASE_URL, stop: async () => {} }
  const redis = systems.some(({ store }) => store === "redis") ? await startRedis(findRedis()) : undefined
  return {
    urls: { postgres: postgres.url, redis: redis?.url },
    stop: async () => {
      await redis?.stop()
      await postgres.stop()
    }
  }
}

// Rotates the order of the systems between rounds.
const rotated = (list, by) => list.map((_, index) => list[(index + by) % list.length])

const summary = (sample) => {
  const { error, late, overlaps, p95, refused, requests, seconds, slowest, slowestPage, value } = sample
  const { client, disk, server, wake } = sample
  if (error !== undefined) return `failed: ${error.split("\n")[0]}`
  const more = [
    p95 === undefined ? undefined : `p95 ${p95.toFixed(2)}`,
    seconds === undefined ? undefined : `${seconds.toFixed(2)} s`,
    late ? "stopped at the limit" : undefined,
    overlaps > 0 ? `${overlaps} overlaps` : undefined,
    client === undefined || server === undefined
      ? undefined
      : `CPU ${client.toFixed(0)} client, ${server.toFixed(0)} server`,
    disk === undefined ? undefined : `${(disk / 1e6).toFixed(0)} MB on disk`,
    wake === undefined ? undefined : `wakes one in ${wake.toFixed(1)} ms`,
    slowest === undefined ? undefined : `slowest page ${slowest.toFixed(0)} ms: ${slowestPage}`,
    refused > 0 ? `${refused} of ${requests} page requests rejected` : undefined
  ].filter((each) => each !== undefined)
  return `${value.toFixed(2)}${more.length > 0 ? ` (${more.join(", ")})` : ""}`
}

const sampleOf = async (task) => {
  try {
    return await measureOnce(task)
  } catch (error) {
    return { error: error.message }
  }
}

const measureAll = async ({ options, rows, stores, systems }) => {
  const results = {}
  for (let round = 1; round <= options.rounds; round++) {
    for (const row of rows) {
      if (row.once && round > 1) continue
      for (const system of rotated(systems, round - 1)) {
        if (!row.systems.includes(system.id)) continue
        const { id } = system
        const scale = { jobs: options.jobs }
        const sample = await sampleOf({ id, system, row, stores, scale, limit: options.limit })
        results[row.id] ??= {}
        results[row.id][id] ??= []
        results[row.id][id].push({ round, ...sample })
        console.log(`round ${round}  ${row.id.padEnd(15)} ${id.padEnd(17)} ${summary(sample)}`)
      }
    }
  }
  return results
}

// Rows that a bar compares with another row of the same system.
const baselines = {
  sealed: "drain",
  future: "drain",
  sleepers: "drain",
  "drain-pinned": "drain-unpinned",
  tabs: "no-tabs",
  publish: "single"
}

// Runs too small for the bars need no baselines.
const withBaselines = (ids, jobs) => {
  const brought = jobs < barsFrom ? [] : ids.flatMap((id) => baselines[id] ?? [])
  const wanted = new Set([...ids, ...brought])
  return allRows.filter(({ id }) => wanted.has(id))
}

const main = async () => {
  const options = readOptions(process.argv.slice(2))
  if (options === undefined) return
  const rows = withBaselines(options.rows, options.jobs)
  const systems = await availableOf(options.systems)
  if (systems.length === 0) throw new Error("None of the chosen systems is available")
  const peers = systems.some(({ peer }) => peer)
  if (peers) installPeers()

  const stores = await startStores(systems)
  const interrupted = () => stores.stop().finally(() => process.exit(130))
  process.once("SIGINT", interrupted)
  process.once("SIGTERM", interrupted)
  try {
    const postgres = await settingsOf(stores.urls.postgres)
    const machine = { node: process.version, cpu: cpus()[0]?.model, cores: cpus().length, memory: totalmem() }
    console.log(
      `PostgreSQL: ${Object.entries(postgres)
        .map((each) => each.join(" "))
        .join(", ")}`
    )
    console.log(`Node ${machine.node}, ${machine.cores} cores; ${options.jobs} jobs, ${options.rounds} rounds\n`)
    const results = await measureAll({ options, rows, stores: stores.urls, systems })
    const names = systems.map(({ id, title }) => ({ id, title }))
    console.log(`\n${printTables({ jobs: options.jobs, results, rows, systems: names })}`)
    if (options.charts !== undefined) {
      for (const file of drawCharts(results, options.charts)) console.log(`\nDrawn in ${file}`)
    }
    if (options.json === undefined) return
    const { jobs, limit, rounds } = options
    const versions = peers ? peerVersions() : {}
    const run = asJson({ at: new Date().toISOString(), jobs, rounds, limit, machine, postgres, versions, results })
    const file = resolve(options.json)
    mkdirSync(dirname(file), { recursive: true })
    writeFileSync(file, `${JSON.stringify(run, null, 2)}\n`)
    console.log(`\nWritten to ${file}`)
  } finally {
    await stores.stop()
  }
}

main().catch((error) => {
  console.error(`bench: ${error.message}`)
  process.exitCode = 1
})
