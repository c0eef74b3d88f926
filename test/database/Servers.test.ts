import { connect, createServer } from "node:net"
import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, LogLevel, Redacted } from "effect"
import type pg from "pg"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { address, DatabaseUrl, fault, serversOf } from "../../src/database/DatabaseUrl.js"
import { Outage } from "../../src/database/Outage.js"
import * as Startup from "../../src/database/Startup.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const several = (before: string, url: Redacted.Redacted) =>
  Redacted.make(Redacted.value(url).replace(/@([^/]+)/, `@${before},$1`))

const connected = (url: Redacted.Redacted, entries: Record<string, string> = {}) =>
  Database.layer.pipe(
    Layer.provide(DatabaseUrl.layerOf(url)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(entries))))),
    Layer.provide(Logger.minimumLogLevel(LogLevel.None))
  )

describe("a url", () => {
  it.scopedLive("may name a database with any characters, and the directory of a socket", () =>
    Effect.gen(function* () {
      const url = new URL(Redacted.value(yield* TestDatabase.empty))
      const own = Redacted.make(url.href)
      const owner = yield* Effect.provide(TestDatabase.connection, DatabaseUrl.layerOf(own))
      const name = `${url.pathname.slice(1)} a?b#c%d/e`
      yield* Effect.acquireRelease(
        Effect.promise(() => owner.query(`create database "${name}"`)),
        () => Effect.promise(() => owner.query(`drop database "${name}" with (force)`))
      )
      const folder = yield* Nightshift.folder
      const sockets = createServer((socket) => {
        const server = connect(Number(url.port), url.hostname)
        socket.pipe(server).pipe(socket)
        for (const end of [socket, server]) end.on("error", () => {})
      })
      yield* Effect.acquireRelease(
        Effect.async<void>((resume) => void sockets.listen(join(folder, ".s.PGSQL.6543"), () => resume(Effect.void))),
        () => Effect.sync(() => sockets.close())
      )
      const account = `${url.username}:${url.password}`
      const database = encodeURIComponent(name)
      const directory = encodeURIComponent(folder)
      for (const [to, shown] of [
        [`postgres://${account}@${url.host}/${database}`, `${url.host}/${name}`],
        [`postgres://${account}@/${database}?host=${directory}&port=6543`, `${folder}:6543/${name}`],
        [`postgres://${account}@/?host=${folder}&port=6543&dbname=${database}`, `${folder}:6543/${name}`],
        [`postgresql://${account}@${directory}:6543/${database}`, `${folder}:6543/${name}`]
      ] as const) {
        expect(fault(to), to).toBeUndefined()
        expect(address(Redacted.make(to))).toBe(shown)
        const current = Effect.flatMap(Database, ({ sql }) => sql`select current_database() as name`)
        expect(yield* Effect.provide(current, connected(Redacted.make(to))), to).toEqual([{ name }])
      }
    })
  )
})

describe("a pooler that rejects start-up options", () => {
  const rejections = [
    ["08P01", "unsupported startup parameter: options"],
    ["0A000", "Feature not supported: RDS Proxy currently doesn’t support command-line options."]
  ] as const
  it.scopedLive.each(rejections)("is used without them: %s %s", ([code, message]) =>
    Effect.gen(function* () {
      let rejected = 0
      const url = yield* LosingProxy.listen(yield* TestDatabase.empty, (client, server) => {
        server.pipe(client).on("close", () => server.destroy())
        client.on("data", (bytes) => {
          if (!bytes.includes("array_nulls")) return server.write(bytes)
          rejected += 1
          const body = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${message}\0\0`)
          const head = Buffer.from("E\0\0\0\0")
          head.writeInt32BE(body.length + 4, 1)
          return client.end(Buffer.concat([head, body]))
        })
      })
      yield* Effect.provide(
        Effect.flatMap(Database, ({ ping }) => ping),
        connected(url)
      )
      expect(rejected).toBe(1)
    })
  )
})

describe("a url with several servers", () => {
  it("names each server, is printed without its password, and requires one that accepts writes", () => {
    const url = "postgres://ada:secret@one:5432,two:5433/app?sslmode=require"
    expect(serversOf(url)).toEqual({
      urls: [
        "postgres://ada:secret@one:5432/app?sslmode=require",
        "postgres://ada:secret@two:5433/app?sslmode=require"
      ],
      needsWrites: true
    })
    expect(address(Redacted.make(url))).toBe("one:5432,two:5433/app")
    expect(fault(url)).toBeUndefined()
    expect(serversOf("postgres://one/app").needsWrites).toBe(false)
    expect(serversOf("postgres://one/app?target_session_attrs=read-write").needsWrites).toBe(true)
    expect(fault("postgres://one/app?target_session_attrs=standby")).toMatch(/any, read-write, primary/)
    expect(fault("postgres://one:port,two/app")).toMatch(/a URL like/)
    for (const given of [
      "one:0/app",
      "one:65536/app",
      "one:5432,two:99999/app",
      "one/app?port=abc",
      "one/app?port=",
      "one/app?port=70000"
    ])
      expect(fault(`postgres://${given}`), given).toMatch(/a URL like .* with a port from 1 to 65535/)
    for (const given of ["one:1/app", "one:65535/app", "one:/app", "one/app?port=5433"])
      expect(fault(`postgres://${given}`), given).toBeUndefined()
  })

  it.scopedLive("connects to the first server that answers", () =>
    Effect.gen(function* () {
      const url = several("127.0.0.1:1", yield* TestDatabase.empty)
      yield* Effect.provide(
        Effect.flatMap(Database, ({ ping }) => ping),
        connected(url)
      )
    })
  )

  it.scopedLive("skips a read-only server, and reports it when there is no other", () =>
    Effect.gen(function* () {
      const readOnly = yield* TestDatabase.empty
      const name = new URL(Redacted.value(readOnly)).pathname.slice(1)
      const owner = yield* Effect.provide(TestDatabase.connection, DatabaseUrl.layerOf(readOnly))
      yield* Effect.promise(() => owner.query(`alter database ${name} set default_transaction_read_only = on`))
      const picky = Redacted.make(`${Redacted.value(readOnly)}?target_session_attrs=read-write`)
      const failure = yield* Effect.flip(Layer.build(connected(picky, { DATABASE_BOOT_TIMEOUT: "1s" })))
      expect(failure.message).toMatch(/the server at .* is read-only/)
    })
  )
})

describe("connections that fail at the same time", () => {
  const startupOf = (url: string) =>
    Startup.make(Redacted.make(url), Effect.runSync(Effect.provide(DatabaseConfig, DatabaseConfig.layer)), () => {})
  const noTls = new Error("The server does not support SSL connections")
  const tlsOnly = new Error('no pg_hba.conf entry for host "10.0.0.9", user "ada", database "app", no encryption')
  const gone = new Error("connect ECONNREFUSED 10.0.0.1:5432")
  const serverOf = ({ host, ssl }: pg.ClientConfig) => `${host}${ssl === false ? "" : " with TLS"}`

  it("choose the encryption once, and keep it in an outage", () => {
    const startup = startupOf("postgres://one/app?sslmode=prefer")
    const first = Array.from({ length: 4 }, () => startup.config("ours"))
    expect(first.map(serverOf)).toEqual(Array(4).fill("one with TLS"))
    expect(first.map((config) => startup.failed(noTls, config))).toEqual(Array(4).fill("settings rejected"))
    const second = startup.config("ours")
    expect(serverOf(second)).toBe("one")
    expect(startup.failed(gone, second)).toBe("unavailable")
    expect(serverOf(startup.config("program"))).toBe("one")
    // The server has been changed to require encryption.
    expect(startup.failed(tlsOnly, startup.config("ours"))).toBe("unavailable")
    expect(serverOf(startup.config("ours"))).toBe("one with TLS")
  })

  it("choose the encryption of each server, and go on to the next server once", () => {
    const startup = startupOf("postgres://one,two/app?sslmode=prefer")
    startup.failed(noTls, startup.config("ours"))
    const failing = [startup.config("ours"), startup.config("program")]
    expect(failing.map(serverOf)).toEqual(["one", "one"])
    expect(failing.map((config) => startup.failed(gone, config))).toEqual(["unavailable", "unavailable"])
    expect(serverOf(startup.config("ours"))).toBe("two with TLS")
  })

  it("go on from a read-only server once, and name the server that each of them used", async () => {
    const startup = startupOf("postgres://one:5432,two:5433,three:5434/app")
    const readOnly = { query: async () => ({ rows: [{ started: "monday", read_only: true }] }) } as unknown as pg.Client
    const open = [startup.config("ours"), startup.config("program")]
    const faults = await Promise.all(open.map((config) => startup.check(readOnly, config)))
    expect(faults.map((fault) => fault?.message)).toEqual(Array(2).fill("the server at one:5432/app is read-only"))
    expect(startup.config("ours").host).toBe("two")
  })

  it("omit rejected settings once", () => {
    const startup = startupOf("postgres://one,two/app")
    const failing = [startup.config("ours"), startup.config("program")]
    const rejected = Object.assign(new Error("unsupported startup parameter in options: array_nulls"), {
      code: "08P01"
    })
    expect(failing.map((config) => startup.failed(rejected, config))).toEqual(Array(2).fill("settings rejected"))
    expect(startup.config("ours")).toMatchObject({ host: "one" })
    expect(startup.sendsSettings()).toBe(false)
  })
})

describe("connections to a server that the address no longer resolves to", () => {
  it("are noticed by the first one that reaches another server", async () => {
    const others: Array<string> = []
    const config = Effect.runSync(Effect.provide(DatabaseConfig, DatabaseConfig.layer))
    const startup = Startup.make(
      Redacted.make("postgres://one/app"),
      config,
      (server, restarted) => void others.push(`${server}${restarted ? ", restarted" : ""}`)
    )
    const check = (client: pg.Client) => startup.check(client, startup.config("ours"))
    const leadingTo = (server: string) => {
      const [, address, started] = /^(.*) (\w+)$/.exec(server) ?? []
      return {
        query: async () => ({ rows: [{ server, address, started, read_only: false }] })
      } as unknown as pg.Client
    }
    expect(await check(leadingTo("10.0.0.1 5432 monday"))).toBeUndefined()
    expect(await check(leadingTo("10.0.0.1 5432 monday"))).toBeUndefined()
    // The same server by its other address.
    await check(leadingTo("fd00::1 5432 monday"))
    await check(leadingTo("10.0.0.1 5432 monday"))
    expect(others).toEqual([])
    await check(leadingTo("10.0.0.2 5432 tuesday"))
    await check(leadingTo("10.0.0.2 5432 wednesday"))
    expect(others).toEqual(["10.0.0.2 5432 tuesday", "10.0.0.2 5432 wednesday, restarted"])
  })
})

describe("the log of an outage", () => {
  it("has its begin and its end, once a connection was open and no server of the URL is left", () => {
    const lines: Array<string> = []
    let now = 0
    const outage = new Outage(
      { address: "one,two/app", servers: 2, log: (level, text) => void lines.push(`${level} ${text}`) },
      () => now
    )
    const refused = new Error("connect ECONNREFUSED")
    for (let attempt = 0; attempt < 5; attempt += 1) outage.failed(refused)
    outage.opened()
    outage.failed(refused)
    outage.opened()
    expect(lines).toEqual([])
    for (let attempt = 0; attempt < 5; attempt += 1) outage.failed(refused)
    now = 12_345
    outage.opened()
    outage.opened()
    expect(lines).toEqual([
      "error database at one,two/app unavailable, retrying: connect ECONNREFUSED",
      "info database at one,two/app available again after 12s"
    ])
  })
})
