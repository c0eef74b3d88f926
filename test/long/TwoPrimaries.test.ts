import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Layer, Redacted } from "effect"
import pg from "pg"
import * as EmbeddedPostgres from "../../src/database/embedded/EmbeddedPostgres.js"
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
