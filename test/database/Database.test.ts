import { createServer, type Server, type Socket } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Fiber, Layer, Redacted } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as TestDatabase from "../support/TestDatabase.js"

const settings = (entries: Record<string, string>) =>
  Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(entries))))

const connectTo = (url: Redacted.Redacted, entries: Record<string, string> = {}) =>
  Database.layer.pipe(
    Layer.provide(DatabaseUrl.layerOf(url)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provide(settings(entries))
  )

const withChanges = (url: Redacted.Redacted, change: (url: URL) => void) => {
  const changed = new URL(Redacted.value(url))
  change(changed)
  return Redacted.make(changed.href)
}

/** A TCP proxy to the real server that accepts connections only when opened. */
const gate = (target: URL) =>
  Effect.gen(function* () {
    const state = { open: false }
    const knocked = yield* Deferred.make<void>()
    const sockets = new Set<Socket>()
    const net = yield* Effect.promise(() => import("node:net"))
    const server = yield* Effect.acquireRelease(
      Effect.async<Server>((resume) => {
        const listening = createServer((socket) => {
          Deferred.unsafeDone(knocked, Effect.void)
          if (!state.open) return socket.destroy()
          const onward = net.connect(Number(target.port), target.hostname)
          for (const end of [socket, onward]) {
            sockets.add(end)
            end.on("error", () => {})
          }
          return void socket.pipe(onward).pipe(socket)
        }).listen(0, "127.0.0.1", () => resume(Effect.succeed(listening)))
      }),
      (listening) =>
        Effect.sync(() => {
          for (const socket of sockets) socket.destroy()
          listening.close()
        })
    )
    const address = server.address()
    const port = typeof address === "object" && address !== null ? address.port : 0
    return {
      port,
      knocked: Deferred.await(knocked),
      open: Effect.sync(() => void Object.assign(state, { open: true }))
    }
  })

describe("Database", () => {
  it.scopedLive("waits at start for a server that does not answer yet", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.empty
      const door = yield* gate(new URL(Redacted.value(url)))
      const throughDoor = withChanges(url, (changed) => {
        changed.host = `127.0.0.1:${door.port}`
      })
      const boot = yield* Effect.fork(Layer.build(connectTo(throughDoor)))
      yield* door.knocked
      yield* door.open
      yield* Fiber.join(boot)
    })
  )

  it.scopedLive("does not wait for a wrong database name, and reports what is wrong", () =>
    Effect.gen(function* () {
      const url = withChanges(yield* TestDatabase.empty, (changed) => {
        changed.pathname = "/nowhere_to_be_found"
      })
      const failure = yield* Effect.flip(Layer.build(connectTo(url)))
      expect(failure).toMatchObject({
        _tag: "DatabaseRejected",
        detail: 'database "nowhere_to_be_found" does not exist'
      })
    })
  )

  it.scopedLive("tells PostgreSQL its application name, and ends statements that run too long", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.empty
      const layer = connectTo(url, { DATABASE_APPLICATION_NAME: "night porter", DATABASE_STATEMENT_TIMEOUT: "50ms" })
      yield* Effect.gen(function* () {
        const { sql, transaction } = yield* Database
        expect(yield* sql`select current_setting('application_name') as name`).toEqual([{ name: "night porter" }])
        const failure = yield* Effect.flip(transaction(sql`select pg_sleep(30)`))
        expect(failure).toMatchObject({ _tag: "DatabaseUnavailable", sqlState: "57014" })
      }).pipe(Effect.provide(layer))
    })
  )

  it.scopedLive("recovers after every one of its connections is killed", () =>
    Effect.gen(function* () {
      const { ping, sql } = yield* Database
      yield* Effect.all(
        Array.from({ length: 5 }, () => sql`select pg_sleep(0.01)`),
        { concurrency: "unbounded" }
      )
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() =>
        other.query(
          "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        )
      )
      // A pooled connection whose end was not noticed yet may fail once; the next one is new.
      yield* Effect.retry(ping, { times: 5, while: (error) => error._tag === "DatabaseUnavailable" })
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("returns JSON as it was stored, including its keys", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const rows = yield* sql`select ${JSON.stringify({ user_id: 7, deepKey: [{ a_b: 1 }] })}::jsonb as stored`
      expect(rows).toEqual([{ stored: { user_id: 7, deepKey: [{ a_b: 1 }] } }])
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )
})
