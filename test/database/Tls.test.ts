import { chmodSync, readFileSync } from "node:fs"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Redacted } from "effect"
import type pg from "pg"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl, fault } from "../../src/database/DatabaseUrl.js"
import { EmbeddedPostgres, layerThrowaway } from "../../src/database/embedded/EmbeddedPostgres.js"
import * as TestDatabase from "../support/TestDatabase.js"

// The server's certificate is for `localhost`, signed by the authority in ca.pem.

const name = "localhost"
const ip = "127.0.0.1"

const file = (name: string) => fileURLToPath(new URL(`fixtures/tls/${name}`, import.meta.url))

const patience = ConfigProvider.fromMap(new Map([["DATABASE_BOOT_TIMEOUT", "1ms"]]))

/** "plain", "tls" with the subject of the client's certificate, or why the connection was refused. */
const connectionOf = (url: URL, host: string, parameters: Readonly<Record<string, string>>) => {
  const to = new URL(url)
  to.hostname = host
  for (const [name, value] of Object.entries(parameters)) to.searchParams.set(name, value)
  const layer = Database.layer.pipe(
    Layer.provide(DatabaseUrl.layerOf(Redacted.make(to.href))),
    Layer.provide(DatabaseConfig.layer)
  )
  return Effect.gen(function* () {
    const { sql } = yield* Database
    const [row] = yield* sql<{ ssl: boolean; client_dn: string | null }>`
      select ssl, client_dn from pg_stat_ssl where pid = pg_backend_pid()`
    return row?.ssl === true ? `tls${row.client_dn ?? ""}` : "plain"
  }).pipe(
    Effect.provide(layer),
    Effect.withConfigProvider(patience),
    Effect.catchAll((error) => Effect.succeed(`refused: ${error.message}`))
  )
}

/** Writes a file into the server's data directory, as the server's user. */
const put = (session: pg.Client, name: string, source: string) =>
  Effect.promise(async () => {
    const { rows } = await session.query("select current_setting('data_directory') as folder")
    const lines = session.escapeLiteral(readFileSync(file(source), "utf8").trim())
    const target = `${rows[0]?.folder}/${name}`
    await session.query(`copy (select unnest(string_to_array(${lines}, chr(10)))) to ${session.escapeLiteral(target)}`)
    chmodSync(target, 0o600)
  })

const encrypt = (session: pg.Client, server: URL) =>
  Effect.gen(function* () {
    yield* put(session, "server.crt", "server.pem")
    yield* put(session, "server.key", "server.key")
    yield* put(session, "root.crt", "ca.pem")
    for (const [name, value] of [
      ["ssl", "on"],
      ["ssl_ca_file", "root.crt"]
    ])
      yield* Effect.promise(() => session.query(`alter system set ${name} = '${value}'`))
    yield* Effect.promise(() => session.query("select pg_reload_conf()"))
    yield* Effect.repeat(connectionOf(server, ip, { sslmode: "require" }), { until: (found) => found === "tls" })
  })

const ca = { sslrootcert: file("ca.pem") }
const other = { sslrootcert: file("other-ca.pem") }
const client = { sslcert: file("client.pem"), sslkey: file("client.key") }

describe("sslmode", () => {
  it.scopedLive("encrypts and verifies as libpq does", () =>
    Effect.gen(function* () {
      const { url } = yield* EmbeddedPostgres
      const server = new URL(Redacted.value(url))
      const session = yield* TestDatabase.connection.pipe(Effect.provideService(DatabaseUrl, url))
      expect(yield* connectionOf(server, ip, { sslmode: "prefer" })).toBe("plain")
      expect(yield* connectionOf(server, ip, { sslmode: "require" })).toMatch(/^refused: .*does not support SSL/)
      yield* encrypt(session, server)
      const cases: ReadonlyArray<readonly [host: string, given: Readonly<Record<string, string>>, expected: RegExp]> = [
        [ip, {}, /^plain$/],
        [ip, { sslmode: "disable" }, /^plain$/],
        [ip, { sslmode: "allow" }, /^plain$/],
        [ip, { sslmode: "prefer" }, /^tls$/],
        [ip, { sslmode: "require" }, /^tls$/],
        [ip, { sslmode: "require", ...ca }, /^tls$/],
        [ip, { sslmode: "require", ...other }, /^refused: .*certificate/],
        [ip, { sslmode: "verify-ca", ...ca }, /^tls$/],
        [ip, { sslmode: "verify-ca", ...other }, /^refused: .*certificate/],
        [ip, { sslmode: "verify-full", ...ca }, /^refused: .*127\.0\.0\.1/],
        [name, { sslmode: "verify-full", ...ca }, /^tls$/],
        [name, { sslmode: "verify-full" }, /^refused: .*certificate/],
        [name, { sslmode: "verify-full", sslrootcert: "system" }, /^refused: .*certificate/],
        [name, { ...ca }, /^tls$/],
        [ip, { sslmode: "require", ...client }, /^tls\/CN=postgres$/]
      ]
      const found = yield* Effect.forEach(cases, ([host, given]) => connectionOf(server, host, given), {
        concurrency: 5
      })
      for (const [index, [host, given, expected]] of cases.entries())
        expect(found[index], `${host} ${JSON.stringify(given)}`).toMatch(expected)
    }).pipe(Effect.provide(layerThrowaway))
  )

  it("is checked before a connection is opened", () => {
    const refusal = (query: string) => fault(`postgres://ada@db/app?${query}`)
    expect(refusal("sslmode=on")).toMatch(
      /sslmode to be one of disable, allow, prefer, require, verify-ca, verify-full/
    )
    expect(refusal("sslmode=verify-ca")).toMatch(/sslrootcert with sslmode=verify-ca/)
    expect(refusal("sslmode=require&sslrootcert=system")).toMatch(/sslmode=verify-full with sslrootcert=system/)
    expect(refusal("sslmode=require&sslcert=/a.pem")).toMatch(/sslcert and sslkey together/)
    expect(refusal("sslmode=require&sslrootcert=/nowhere.pem")).toMatch(/sslrootcert to be a readable file \(ENOENT/)
    expect(refusal(`sslmode=verify-ca&sslrootcert=${encodeURIComponent(ca.sslrootcert)}`)).toBeUndefined()
  })
})
