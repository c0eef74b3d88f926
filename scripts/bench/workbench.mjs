// Runs one measurement of one system with a fresh database, its processes and the server's statistics.
import { setTimeout as sleep } from "node:timers/promises"
import pg from "pg"
import { serverCpu } from "./cpu.mjs"
import { startChild } from "./processes.mjs"

// Timeout of boot, load and verification in seconds; generous, because other programs may use the machine.
const patienceFor = (jobs) => 60 + Math.min(1, jobs / 30_000) * 300

const connected = async (url) => {
  const client = new pg.Client(url)
  client.on("error", () => {})
  await client.connect()
  return client
}

const within = (url, database) => {
  const inside = new URL(url)
  inside.pathname = `/${database}`
  return inside.href
}

// Counts statements with pg_stat_statements, or transactions if the server lacks it.
const counterOf = async (admin, database) => {
  try {
    await admin.query("create extension if not exists pg_stat_statements")
    await admin.query("select from pg_stat_statements limit 1")
    return `select coalesce(sum(calls), 0)::int as n from pg_stat_statements
      where dbid = (select oid from pg_database where datname = '${database}')`
  } catch {
    return `select (xact_commit + xact_rollback)::int as n from pg_stat_database where datname = '${database}'`
  }
}

const openDatabase = async (serverUrl, database) => {
  const admin = await connected(serverUrl)
  await admin.query(`create database ${database}`)
  const url = within(serverUrl, database)
  const inside = await connected(url)
  const countStatements = async ({ seconds, settle }) => {
    await inside.end()
    const counter = await counterOf(admin, database)
    await sleep(settle * 1000)
    const before = (await admin.query(counter)).rows[0].n
    await sleep(seconds * 1000)
    return ((await admin.query(counter)).rows[0].n - before) / seconds
  }
  return {
    url,
    // Finishes work left over from loading: hint bits, statistics and a checkpoint.
    settle: async () => {
      await inside.query("vacuum (analyze)")
      await inside.query("checkpoint")
    },
    // Holds an old snapshot open for the whole run, so that vacuum and index scans cannot clean up.
    pin: () => inside.query("begin isolation level repeatable read; select txid_current()"),
    longestStatement: async (like) => {
      await admin.query("create extension if not exists pg_stat_statements")
      const { rows } = await admin.query(
        `select max(max_exec_time) as longest from pg_stat_statements join pg_database on pg_database.oid = dbid
         where datname = $1 and query ilike $2`,
        [database, like]
      )
      return rows[0].longest ?? undefined
    },
    // The server's usage so far: CPU seconds, if it runs on this machine, and bytes of WAL.
    used: async () => {
      const query = "select pg_backend_pid() as pid, pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::float8 as wal"
      const { pid, wal } = (await admin.query(query)).rows[0]
      return { cpu: serverCpu(pid), wal }
    },
    /** The server's time per row of a statement, in microseconds. */
    timePerRow: async (like) => {
      await admin.query("create extension if not exists pg_stat_statements")
      const { rows } = await admin.query(
        `select sum(total_exec_time) * 1000 / nullif(sum(rows), 0) as each
         from pg_stat_statements join pg_database on pg_database.oid = dbid where datname = $1 and query ilike $2`,
        [database, like]
      )
      return rows[0].each ?? undefined
    },
    trackStatements: () =>
      admin.query(`alter database ${database} set pg_stat_statements.track = 'top'`).catch(() => {}),
    statements: countStatements,
    close: async () => {
      await inside.end().catch(() => {})
      await admin.query(`drop database ${database} with (force)`)
      await admin.query("checkpoint").catch(() => {})
      await admin.end()
    }
  }
}

const redisStore = (url) => ({
  url,
  settle: async () => {},
  trackStatements: async () => {},
  close: async () => {}
})

let made = 0

/** Runs one row for one system and always cleans up. */
export const measureOnce = async ({ id, limit, row, scale, stores, system }) => {
  const database = `bench_${process.pid}_${++made}`
  const store = system.store === "redis" ? redisStore(stores.redis) : await openDatabase(stores.postgres, database)
  const children = []
  const start = (measure, given, onProgress) => {
    const isDrain = measure === "drain"
    const params = isDrain ? { ...given, limit } : given
    const seconds = patienceFor(scale.jobs) + (isDrain ? limit : 0)
    const child = startChild({ system: id, url: store.url, measure, params, seconds, onProgress })
    children.push(child)
    return child
  }
  const child = (measure, params) => start(measure, params).result
  try {
    if (row.tracked) await store.trackStatements()
    const { longestStatement, pin, settle, statements, timePerRow, used } = store
    const drain = (params) => child("drain", params)
    return await row.measure(
      { start, child, drain, settle, pin, statements, longestStatement, timePerRow, used },
      scale
    )
  } finally {
    await Promise.allSettled(children.map(({ end }) => end()))
    await store.close()
  }
}
