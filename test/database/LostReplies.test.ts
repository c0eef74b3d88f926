import { expect, layer } from "@effect/vitest"
import { Effect, Layer, type Redacted } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { mapErrors } from "../../src/database/DatabaseError.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

// What a lost connection proves about a statement: a read has written nothing, nor has a statement of a transaction without a
// COMMIT, but a write outside a transaction may have been committed.

const over = (url: Redacted.Redacted) =>
  Database.layer.pipe(Layer.provide(DatabaseUrl.layerOf(url)), Layer.provide(DatabaseConfig.layer))

/** Runs an effect that fails, over a connection whose statements with the word get no reply. */
const failureOf = <A, E>(word: string, effect: (database: typeof Database.Service) => Effect.Effect<A, E>) =>
  Effect.gen(function* () {
    const url = yield* LosingProxy.open(yield* DatabaseUrl, word)
    return yield* Effect.provide(
      Effect.flatMap(Database, (database) => Effect.flip(effect(database))),
      over(url)
    )
  })

/** An ErrorResponse, as a pooler sends it when the connection to its server breaks. */
const fatal = (code: string, text: string) => {
  const body = Buffer.from(`SFATAL\0VFATAL\0C${code}\0M${text}\0\0`)
  const head = Buffer.from("E\0\0\0\0")
  head.writeInt32BE(body.length + 4, 1)
  return Buffer.concat([head, body])
}

/** A proxy that forwards a message with the word, and answers it with an error of its own. */
const crashing = (target: Redacted.Redacted, word: string) =>
  LosingProxy.listen(target, (client, server) => {
    server.pipe(client)
    client.on("close", () => server.end())
    client.on("data", (bytes) => {
      if (!bytes.includes(word)) return server.write(bytes)
      server.unpipe(client)
      return server.end(bytes, () => client.end(fatal("08P01", "server conn crashed?")))
    })
  })

layer(TestDatabase.layerEmpty, { excludeTestServices: true })("A lost reply", (it) => {
  const table = (name: string) =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      yield* sql.unsafe(`create table ${name} (n int)`)
      const rows = Effect.map(sql.unsafe<{ n: number }>(`select n from ${name}`), (found) => found.map(({ n }) => n))
      // The server may still be committing when the client notices the lost connection.
      return { rows, written: Effect.repeat(rows, { until: (found) => found.length > 0 }) }
    })
  const lost = { _tag: "DatabaseUnavailable", nothingWritten: false }
  const harmless = { _tag: "DatabaseUnavailable", nothingWritten: true }

  it.scoped("to a write outside a transaction leaves unknown whether it was committed", () =>
    Effect.gen(function* () {
      const { written } = yield* table("direct")
      const failure = yield* failureOf("into direct", ({ direct }) =>
        direct.count("insert into direct values ($1)", [1])
      )
      expect(failure).toMatchObject(lost)
      expect(yield* written).toEqual([1])
    })
  )

  it.scoped("to a write of the SQL client outside a transaction leaves it unknown as well", () =>
    Effect.gen(function* () {
      const { written } = yield* table("client")
      const failure = yield* failureOf("into client", ({ sql }) => mapErrors(sql`insert into client values (${1})`))
      expect(failure).toMatchObject(lost)
      expect(yield* written).toEqual([1])
    })
  )

  it.scoped("to a call of a function that may write leaves it unknown as well", () =>
    Effect.gen(function* () {
      const { written } = yield* table("called")
      const { sql } = yield* Database
      yield* sql.unsafe(`create function public.called() returns void language sql as 'insert into called values (1)'`)
      const failure = yield* failureOf("public.called", ({ direct }) => direct.rows("select public.called()", []))
      expect(failure).toMatchObject(lost)
      expect(yield* written).toEqual([1])
    })
  )

  it.scoped("to a read proves that nothing was written", () =>
    Effect.gen(function* () {
      yield* table("read")
      const text = "select n, current_timestamp as updated_at from read"
      expect(yield* failureOf("from read", ({ direct }) => direct.rows(text, []))).toMatchObject(harmless)
      expect(yield* failureOf("from read", ({ sql }) => mapErrors(sql.unsafe(text)))).toMatchObject(harmless)
    })
  )

  it.scoped("to a statement of a transaction proves that nothing was written", () =>
    Effect.gen(function* () {
      const { rows } = yield* table("inside")
      const failure = yield* failureOf("into inside", ({ direct, transaction }) =>
        transaction(direct.count("insert into inside values ($1)", [1]))
      )
      expect(failure).toMatchObject(harmless)
      expect(yield* rows).toEqual([])
    })
  )

  it.scoped("to a new connection proves that its statement was not sent", () =>
    Effect.gen(function* () {
      const { rows } = yield* table("unsent")
      let isBroken = false
      const url = yield* LosingProxy.listen(yield* DatabaseUrl, (client, server) => {
        if (isBroken) return client.destroy()
        server.pipe(client)
        return client.on("data", (bytes) => {
          if (!bytes.includes("from broken")) return server.write(bytes)
          isBroken = true
          return client.destroy()
        })
      })
      const failures = yield* Effect.gen(function* () {
        const { direct } = yield* Database
        const first = yield* Effect.flip(direct.rows("select 1 from broken", []))
        return [first, yield* Effect.flip(direct.count("insert into unsent values ($1)", [1]))]
      }).pipe(Effect.provide(over(url)))
      expect(failures).toMatchObject([harmless, harmless])
      expect(yield* rows).toEqual([])
    })
  )

  it.scoped("to a COMMIT, reported by a pooler as an error, leaves unknown whether it was committed", () =>
    Effect.gen(function* () {
      const { written } = yield* table("pooled")
      const url = yield* crashing(yield* DatabaseUrl, "COMMIT")
      const failure = yield* Effect.gen(function* () {
        const { sql, transaction } = yield* Database
        return yield* Effect.flip(transaction(sql`insert into pooled values (1)`))
      }).pipe(Effect.provide(over(url)))
      expect(failure).toMatchObject({ ...lost, sqlState: "08P01" })
      expect(yield* written).toEqual([1])
    })
  )
})
