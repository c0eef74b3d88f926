// `node scripts/bench/fleet.mjs [jobs] [rounds]`: CPU time per job with one and with three cells. The cells are databases of
// one PostgreSQL server, so that the machine does the same work; a process stores jobs by key and runs them in every cell.
import { loadavg } from "node:os"
import pg from "pg"
import { z } from "zod"
import { connect, job, worker } from "../../dist/client.js"
import { serverCpu } from "./cpu.mjs"
import { startPostgres } from "./postgres.mjs"
import { median } from "./statistics.mjs"

const [jobs = 30_000, rounds = 3] = process.argv.slice(2).map(Number)
const batch = 1_000

const letter = job("letter", { payload: z.object({ number: z.number(), text: z.string() }), queue: "mail" })
const text = "x".repeat(200)

const cpu = (client) => {
  const { system, user } = process.cpuUsage()
  return { process: user + system, server: 1e6 * serverCpu(client.processID) }
}

/** Stores and runs jobs in this many cells. Returns microseconds of CPU time per job. */
const measure = async (client, url, cells, round) => {
  const names = Array.from({ length: cells }, (_, number) => `cell-${number + 1}`)
  const databases = names.map((name) => `bench_${cells}_${round}_${name.replace("-", "_")}`)
  for (const name of databases) await client.query(`create database ${name}`)
  const urlOf = (name) => Object.assign(new URL(url), { pathname: `/${name}` }).href
  const fleet = {
    cells: Object.fromEntries(names.map((name, place) => [name, { database: urlOf(databases[place]) }])),
    queues: { mail: cells === 1 ? names[0] : { cells: names, by: "key" } },
    default: names[0]
  }
  let done = 0
  let target = Number.POSITIVE_INFINITY
  let ended = () => {}
  const handler = letter.handle(async () => {
    done += 1
    if (done === target) ended()
  })
  const shift = await connect({ fleet, log: false })
  const opened = []
  const run = async (count, from) => {
    const all = new Promise((resolve) => {
      ended = resolve
    })
    target = done + count
    for (let at = 0; at < count; at += batch) {
      const some = Array.from({ length: Math.min(batch, count - at) }, (_, number) => ({
        number: from + at + number,
        text
      }))
      await shift.enqueueMany(letter, some, { key: ({ number }) => `k${number}`, acrossCells: true })
    }
    await all
  }
  for (const cell of names) {
    const own = await connect({ fleet, cell, log: false })
    opened.push(own)
    await worker(own, { handlers: [handler], queues: { mail: 40 } })
  }
  // Boot, plans and caches are not measured.
  await run(Math.ceil(jobs / 5), 0)
  const before = cpu(client)
  await run(jobs, jobs)
  const after = cpu(client)
  for (const each of [...opened, shift]) await each.close()
  for (const name of databases) await client.query(`drop database ${name} with (force)`)
  return { process: (after.process - before.process) / jobs, server: (after.server - before.server) / jobs }
}

const postgres = await startPostgres()
const client = new pg.Client(postgres.url)
await client.connect()
try {
  const found = { 1: [], 3: [] }
  for (let round = 0; round < rounds; round += 1) {
    // The order alternates: a machine that becomes busier would favour one of them.
    for (const cells of round % 2 === 0 ? [1, 3] : [3, 1]) {
      const result = await measure(client, postgres.url, cells, round)
      found[cells].push(result.process + result.server)
      const parts = `process ${result.process.toFixed(1)}, server ${result.server.toFixed(1)}`
      console.log(`round ${round + 1}, ${cells} cells: ${parts} µs per job (load ${loadavg()[0]?.toFixed(1)})`)
    }
  }
  const ratios = found[1].map((one, round) => found[3][round] / one)
  console.log(`CPU per job with three cells against one: ${median(ratios).toFixed(3)} (median of ${rounds} rounds)`)
} finally {
  await client.end()
  await postgres.stop()
}
