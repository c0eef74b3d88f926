// Programs between Nightshift and PostgreSQL, from the system's packages: PgBouncer and HAProxy.
import { spawn, spawnSync } from "node:child_process"
import { chownSync, openSync, readFileSync, writeFileSync } from "node:fs"
import { createServer } from "node:http"
import { connect } from "node:net"
import { join } from "node:path"
import { setTimeout as sleep } from "node:timers/promises"
import { freePort } from "../bench/postgres.mjs"

/** Finds a program, or throws with instructions to install it. */
const programOf = (name, variable, versionFlag) => {
  const program = process.env[variable] ?? name
  const asked = spawnSync(program, [versionFlag], {
    encoding: "utf8",
    env: { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
  })
  if (asked.error !== undefined) {
    const reason = `${program} cannot be run: install ${name} (apt-get install ${name}), or set ${variable} to its path.`
    throw Object.assign(new Error(reason), { isMissing: true })
  }
  return { program, version: /\d+\.\d+\.\d+/.exec(asked.stdout + asked.stderr)?.[0] ?? "unknown" }
}

const answers = (port) =>
  new Promise((done) => {
    const socket = connect(port, "127.0.0.1", () => done(true))
    socket.on("error", () => done(false))
    socket.on("connect", () => socket.destroy())
  })

const run = async (program, args, { account = {}, base, name, port }) => {
  const log = join(base, `${name}.log`)
  const out = openSync(log, "a")
  const env = { ...process.env, PATH: `${process.env.PATH}:/usr/sbin` }
  const child = spawn(program, args, { ...account, cwd: base, env, stdio: ["ignore", out, out] })
  const ended = new Promise((done) => child.once("exit", done))
  for (let waited = 0; !(await answers(port)); waited += 50) {
    if (child.exitCode !== null || waited > 10_000)
      throw new Error(`${name} did not start:\n${readFileSync(log, "utf8")}`)
    await sleep(50)
  }
  return {
    log,
    stop: async () => {
      child.kill("SIGKILL")
      await ended
    }
  }
}

/** PgBouncer in transaction mode with its default settings, in front of every database of a server. */
export const startPgBouncer = async ({ account, base }, server) => {
  const { program, version } = programOf("pgbouncer", "PGBOUNCER", "-V")
  const port = await freePort()
  const config = join(base, "pgbouncer.ini")
  const users = join(base, "users.txt")
  const prepares = Number(version.split(".")[1]) >= 21
  writeFileSync(users, '"postgres" ""\n')
  writeFileSync(
    config,
    `[databases]
* = host=127.0.0.1 port=${server.port} user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = ${port}
unix_socket_dir =
auth_type = trust
auth_file = ${users}
pool_mode = transaction
default_pool_size = 20
max_client_conn = 500
${prepares ? "max_prepared_statements = 200" : ""}
`
  )
  for (const file of [config, users]) if (account.uid !== undefined) chownSync(file, account.uid, account.gid)
  const running = await run(program, [config], { account, base, name: "pgbouncer", port })
  return { ...running, prepares, version, port, url: `postgres://postgres@127.0.0.1:${port}/postgres` }
}

/** Returns 200 if the server accepts writes, like the REST interface of Patroni. */
const startRoleCheck = async (server) => {
  const check = createServer(async (_, response) => {
    const primary = await server.query("select pg_is_in_recovery() as standby").then(
      ([row]) => row.standby === false,
      () => false
    )
    response.writeHead(primary ? 200 : 503).end()
  })
  await new Promise((done) => check.listen(0, "127.0.0.1", done))
  return { port: check.address().port, stop: () => check.close() }
}

/** HAProxy that forwards to the server whose role check returns 200, and closes connections to other servers. */
export const startHAProxy = async ({ base }, servers) => {
  const { program, version } = programOf("haproxy", "HAPROXY", "-v")
  const port = await freePort()
  const config = join(base, "haproxy.cfg")
  const checks = await Promise.all(servers.map(startRoleCheck))
  const lines = servers.map(
    (server, index) =>
      `  server s${index} 127.0.0.1:${server.port} check port ${checks[index].port} inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions`
  )
  writeFileSync(
    config,
    `defaults
  mode tcp
  timeout connect 2s
  timeout client 30m
  timeout server 30m
frontend postgres
  bind 127.0.0.1:${port}
  default_backend primary
backend primary
  option httpchk GET /primary
${lines.join("\n")}
`
  )
  const running = await run(program, ["-f", config, "-db"], { base, name: "haproxy", port })
  return {
    ...running,
    version,
    url: `postgres://postgres@127.0.0.1:${port}/postgres`,
    stop: async () => {
      await running.stop()
      for (const check of checks) check.stop()
    }
  }
}
