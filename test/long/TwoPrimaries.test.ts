import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Queue, Redacted } from "effect"
import pg from "pg"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../../src/database/embedded/EmbeddedPostgres.js"
import * as Listener from "../../src/database/Listener.js"
import * as Nightshift from "../support/Nightshift.js"

/** Starts a server with the same role and password as the other one. */
const server = Effect.gen(function* () {
  const services = yield* Layer.build(Layer.fresh(EmbeddedPostgres.layerThrowaway))
  const { port, url } = Context.get(services, EmbeddedPostgres.EmbeddedPostgres)
  const run = (statement: string) =>
    Effect.promise(async () => {
      const client = new pg.Client({ connectionString: Redacted.value(url) })
      await client.connect()
      await client.query(statement)
      await client.end()
    })
  yield* run("create role shared superuser login password 'secret'")
  return { port, run }
}).pipe(Effect.orDie)

describe("nightshift doctor with two servers", () => {
  it.scopedLive(
    "fails while both accept writes, and passes once the old primary is read-only",
    () =>
      Effect.gen(function* () {
        const [one, two] = [yield* server, yield* server]
        const cwd = yield* Nightshift.folder
        const env = {
          DATABASE_URL: `postgres://shared:secret@127.0.0.1:${one.port},127.0.0.1:${two.port}/postgres`,
          NIGHTSHIFT_ADMIN_TOKEN: "sesame"
        }
        expect(yield* Nightshift.call(["migrate"], { cwd, env })).toMatchObject({ code: 0 })
        const split = yield* Nightshift.call(["doctor"], { cwd, env })
        expect(split.code).toBe(1)
        expect(split.stdout).toMatch(
          new RegExp(`2 servers in DATABASE_URL accept writes: .*:${one.port}.*, .*:${two.port}`)
        )
        expect(split.stdout).not.toContain("secret")
        yield* two.run("alter system set default_transaction_read_only = on")
        yield* two.run("select pg_reload_conf()")
        expect(yield* Nightshift.call(["doctor"], { cwd, env })).toMatchObject({ code: 0 })
      }),
    60_000
  )
})

describe("notifications with two servers", () => {
  it.scopedLive(
    "are received from the server that accepts writes, even if a read-only one is named first",
    () =>
      Effect.gen(function* () {
        const [standby, primary] = [yield* server, yield* server]
        yield* standby.run("alter system set default_transaction_read_only = on")
        yield* standby.run("select pg_reload_conf()")
        const url = `postgres://shared:secret@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/postgres`
        yield* Effect.gen(function* () {
          const received = yield* Effect.flatMap(Listener.Listener, (listener) => listener.subscribe("jobs"))
          expect((yield* Queue.take(received))._tag).toBe("Resumed")
          yield* primary.run("select pg_notify('jobs', 'mail')")
          expect(yield* Queue.take(received)).toEqual(Listener.ListenerEvent.Notified({ payload: "mail" }))
        }).pipe(
          Effect.provide(Layer.provide(Listener.layer, [DatabaseUrl.layerOf(Redacted.make(url)), DatabaseConfig.layer]))
        )
      }),
    20_000
  )
})
