// `node scripts/bench/fleet.mjs [jobs] [rounds] [statements]`: CPU time per job with one and with three cells. The cells are
// databases of one PostgreSQL server, so that the machine does the same work; a process stores jobs by key and runs them in every
// cell. Three cells get as many jobs as one together, so that each has a third of its load, and then as many each. With
// `statements` it prints how many statements that takes, and how many of them the server plans, which depends less on the load.
import { loadavg } from "node:os"
import pg from "pg"
import { z } from "zod"
import { connect, job, worker } from "../../dist/client.js"
import { serverCpu } from "./cpu.mjs"
import { startPostgres } from "./postgres.mjs"
import { median } from "./statistics.mjs"

const [jobs = 30_000, rounds = 3] = process.argv.slice(2, 4).map(Number)
const isCounting = process.argv[4] === "statements"
const batch = 1_000

const letter = job("letter", { payload: z.object({ number: z.number(), text: z.string() }), queue: "mail" })
const text = "x".repeat(200)

const cpu = (client) => {
  const { system, user } = process.cpuUsage()
  return { process: user + system, server: 1e6 * serverCpu(client.processID) }
}

const statements = `select case when query ~ 'insert into nightshift.job\\M' then 'store' when query ~ '^\\s*with entered' then 'claim'
      when query ~ '^\\s*with lock_wait' then 'end' else 'other' end as statement,
    round(1000 * sum(calls) / $1, 1)::float8 as "per 1,000 jobs", round(sum(rows) / sum(calls))::int as rows,
    round(1000 * sum(plans) / $1, 1)::float8 as "plans per 1,000 jobs"
  from pg_stat_statements group by 1 order by 1`

/** Stores and runs jobs in this many cells, `calls` at a time. Returns microseconds of CPU time per job. */
const measure = async (client, url, cells, calls, round) => {
  const count = jobs * calls
  const names = Array.from({ length: cells }, (_, number) => `cell-${number + 1}`)
  const databases = names.map((name) => `bench_${cells}_${calls}_${round}_${name.replace("-", "_")}`)
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
    let at = from
    const store = async () => {
      while (at < from + count) {
        const first = at
        at = Math.min(first + batch, from + count)
        const some = Array.from({ length: at - first }, (_, number) => ({ number: first + number, text }))
        await shift.enqueueMany(letter, some, { key: ({ number }) => `k${number}`, acrossCells: true })
      }
    }
    await Promise.all([all, ...Array.from({ length: calls }, store)])
  }
  for (const cell of names) {
    const own = await connect({ fleet, cell, log: false })
    opened.push(own)
    await worker(own, { handlers: [handler], queues: { mail: 40 } })
  }
  // Boot, plans and caches are not measured.
  await run(Math.ceil(count / 5), 0)
  if (isCounting) await client.query("select pg_stat_statements_reset()")
  const before = cpu(client)
  await run(count, count)
  const after = cpu(client)
  if (isCounting) console.table((await client.query(statements, [count])).rows)
  for (const each of [...opened, shift]) await each.close()
  for (const name of databases) await client.query(`drop database ${name} with (force)`)
  return { process: (after.process - before.process) / count, server: (after.server - before.server) / count }
}

const postgres = await startPostgres()
const client = new pg.Client(postgres.url)
await client.connect()
if (isCounting) {
  await client.query("create extension pg_stat_statements")
  await client.query("alter role current_user set pg_stat_statements.track = 'top'")
  await client.query("alter role current_user set pg_stat_statements.track_planning = on")
}
/** Cells, and calls that store jobs at a time. */
const settings = { one: [1, 1], shared: [3, 1], each: [3, 3] }
try {
  const found = { one: [], shared: [], each: [] }
  for (let round = 0; round < rounds; round += 1) {
    const names = Object.keys(settings)
    // The order alternates: a machine that becomes busier would favour one of them.
    for (const name of round % 2 === 0 ? names : names.toReversed()) {
      const [cells, calls] = settings[name]
      const result = await measure(client, postgres.url, cells, calls, round)
      found[name].push(result.process + result.server)
      const parts = `process ${result.process.toFixed(1)}, server ${result.server.toFixed(1)}`
      const load = `load ${loadavg()[0]?.toFixed(1)}`
      console.log(`round ${round + 1}, ${jobs * calls} jobs in ${cells} cells: ${parts} µs per job (${load})`)
    }
  }
  const against = (name) => median(found.one.map((one, round) => found[name][round] / one)).toFixed(3)
  console.log(`CPU per job of three cells against one, median of ${rounds} rounds:`)
  console.log(`  as many jobs together, a third of the load for each: ${against("shared")}`)
  console.log(`  as many jobs for each, the same load: ${against("each")}`)
} finally {
  await client.end()
  await postgres.stop()
}
