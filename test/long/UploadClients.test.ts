import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Schedule, Schema } from "effect"
import { Tokens } from "../../src/access/Tokens.js"
import { Workspace } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { Storage } from "../../src/uploads/Storage.js"
import { chunkBytes } from "../../src/uploads/Upload.js"
import { TestServer } from "../http/TestServer.js"
import { acme, boundary, client, form, idsOf, layerMemory, layerPostgres, tokenFor } from "../http/UploadServer.js"
import * as RawClient from "../support/RawClient.js"

const mib = 1024 * 1024
const workspaceOf = Schema.decodeSync(Workspace)

// Each story has its own Scope: its clients disconnect before the server closes, which would wait for them.

/** A client that has sent the head of an upload, and part of the body. */
const halfway = (length: number | "chunked", body: string | Buffer = "", workspace = acme) =>
  Effect.gen(function* () {
    const { port } = yield* TestServer
    const token = yield* tokenFor(workspace)
    const raw = yield* RawClient.make(port)
    const coding = length === "chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`
    yield* raw.send(
      `POST /uploads/${workspace} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n` +
        `Content-Type: multipart/form-data; boundary=${boundary}\r\n${coding}\r\n\r\n`
    )
    if (body.length > 0) yield* raw.send(body)
    return raw
  })

/** The beginning of a form whose first file is not finished. */
const beginning = (size: number) => form([{ content: Buffer.alloc(size, "x") }]).subarray(0, -(boundary.length + 8))
const ending = `\r\n--${boundary}--\r\n`

const status = (code: number) => new RegExp(`HTTP/1\\.1 ${code} [^]*\\r\\n\\r\\n([^]*)`)

const published = Effect.flatMap(Storage, (storage) => storage.list(acme))

const rows = Effect.gen(function* () {
  const { sql } = yield* Database
  const counts = yield* sql<{ contents: number; chunks: number }>`
    select (select count(*)::int from nightshift.upload_content) as contents,
      (select count(*)::int from nightshift.upload_chunk) as chunks`
  return counts[0]
})

/** Polls until the value is as expected. */
const until = <A, E, R>(look: Effect.Effect<A, E, R>, expected: (value: A) => boolean) =>
  Effect.repeat(look, { until: expected, schedule: Schedule.spaced("20 millis") })

describe("a file over the cap", () => {
  it.scopedLive("gets 413 at the cap, and the rest is not read", () =>
    Effect.gen(function* () {
      const raw = yield* halfway(1024 * mib, beginning(mib))
      const piece = Buffer.alloc(mib, "x")
      let taken = 1
      while ((yield* raw.send(piece)) && taken < 256) taken += 1
      expect(taken).toBeLessThan(64)
      expect(yield* raw.said(status(413))).not.toBeNull()
      expect(yield* published).toEqual([])
    }).pipe(Effect.scoped, Effect.provide(layerMemory({ maxFile: 2 * mib, maxRequest: 2048 * mib, quota: 4096 * mib })))
  )

  it.scopedLive("gets an answer even if the client keeps sending without reading", () =>
    Effect.gen(function* () {
      const raw = yield* halfway("chunked")
      const chunk = (data: Buffer) =>
        Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from("\r\n")])
      yield* raw.send(chunk(beginning(2 * mib)))
      yield* raw.send(chunk(Buffer.alloc(mib, "x")))
      const [, body = ""] = (yield* raw.said(status(413))) ?? []
      expect(body).toContain('"tag":"UploadTooLarge"')
    }).pipe(Effect.scoped, Effect.provide(layerMemory({ maxFile: mib })))
  )

  it.scopedLive("is refused before it is read when the request declares its length", () =>
    Effect.gen(function* () {
      const raw = yield* halfway(4 * mib)
      const [, body = ""] = (yield* raw.said(status(413))) ?? []
      expect(body).toContain('"tag":"BodyTooLarge"')
      yield* raw.closed
    }).pipe(Effect.scoped, Effect.provide(layerMemory({ maxRequest: mib })))
  )
})

describe("a client that sends Expect: 100-continue", () => {
  it.scopedLive("gets 100 Continue only if the request is acceptable", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const token = yield* tokenFor()
      const ask = (bearer: string, length: number) =>
        Effect.gen(function* () {
          const raw = yield* RawClient.make(port)
          yield* raw.send(
            `POST /uploads/acme HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${bearer}\r\nExpect: 100-continue\r\n` +
              `Content-Type: multipart/form-data; boundary=${boundary}\r\nContent-Length: ${length}\r\n\r\n`
          )
          return { raw, first: (yield* raw.said(/^HTTP\/1\.1 (\d+)/))?.[1] }
        })
      expect((yield* ask("guess", 100)).first).toBe("401")
      expect((yield* ask(token, 1024 * mib)).first).toBe("413")
      const body = form([{ content: "x" }])
      const { first, raw } = yield* ask(token, body.length)
      expect(first).toBe("100")
      yield* raw.send(body)
      expect(yield* raw.said(/HTTP\/1\.1 201 /)).not.toBeNull()
    }).pipe(Effect.scoped, Effect.provide(layerMemory()))
  )
})

describe("a body with a wrong Content-Length", () => {
  it.scopedLive("is malformed when it is longer than declared", () =>
    Effect.gen(function* () {
      const body = form([{ content: "x".repeat(100) }])
      const raw = yield* halfway(body.length - 20, body)
      expect(yield* raw.said(status(400))).not.toBeNull()
      expect(yield* published).toEqual([])
    }).pipe(Effect.scoped, Effect.provide(layerMemory()))
  )

  it.scopedLive("publishes nothing when it is shorter and the client waits for an answer", () =>
    Effect.gen(function* () {
      const body = form([{ content: Buffer.alloc(2 * chunkBytes, "x") }])
      const raw = yield* halfway(body.length + 10, body)
      const [, answer = ""] = (yield* raw.said(status(408))) ?? []
      expect(answer).toContain('"tag":"RequestTimedOut"')
      expect(yield* published).toEqual([])
      expect(yield* rows).toEqual({ contents: 0, chunks: 0 })
    }).pipe(Effect.scoped, Effect.provide(layerPostgres({ stallTimeout: Duration.millis(300) })))
  )

  it.scopedLive("publishes nothing when it is shorter and the client disconnects", () =>
    Effect.gen(function* () {
      const body = form([{ content: Buffer.alloc(2 * chunkBytes, "x") }])
      const raw = yield* halfway(body.length + 10, body)
      yield* until(rows, (counts) => counts?.chunks === 2)
      yield* raw.vanish
      yield* until(rows, (counts) => counts?.contents === 0)
      expect(yield* published).toEqual([])
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )
})

describe("a client that disconnects in the middle", () => {
  it.scopedLive("leaves no files behind, even of several", () =>
    Effect.gen(function* () {
      const whole = form([{ content: Buffer.alloc(chunkBytes, "x") }, { content: Buffer.alloc(3 * chunkBytes, "y") }])
      const raw = yield* halfway(whole.length, whole.subarray(0, -chunkBytes))
      yield* until(rows, (counts) => counts?.contents === 2 && counts.chunks === 3)
      yield* raw.vanish
      yield* until(rows, (counts) => counts?.contents === 0 && counts.chunks === 0)
      expect(yield* published).toEqual([])
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )
})

describe("a client that trickles", () => {
  it.scopedLive("holds no connection and no transaction meanwhile, and is served in the end", () =>
    Effect.gen(function* () {
      const { poolUse, sql } = yield* Database
      // A little more than a chunk: the parser holds back what might be the start of a delimiter.
      const size = chunkBytes + 100
      const raw = yield* halfway(beginning(size + 3).length + ending.length, beginning(size))
      yield* until(rows, (counts) => counts?.chunks === 1)
      for (const byte of ["a", "b", "c"]) {
        yield* raw.send(byte)
        const open = yield* sql`select state, query from pg_stat_activity
          where datname = current_database() and pid <> pg_backend_pid() and (xact_start is not null or backend_xmin is not null)`
        expect(open).toEqual([])
        expect(yield* poolUse).toMatchObject({ busy: 0, waiting: 0 })
      }
      expect(yield* published).toEqual([])
      yield* raw.send(ending)
      expect(yield* raw.said(status(201))).not.toBeNull()
      expect(yield* published).toMatchObject([{ size: size + 3 }])
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )

  it.scopedLive("is dropped when the whole upload takes too long", () =>
    Effect.gen(function* () {
      const raw = yield* halfway(100 * mib, beginning(10))
      const trickling = yield* Effect.fork(Effect.repeat(raw.send("x"), Schedule.spaced("20 millis")))
      expect(yield* raw.said(status(408))).not.toBeNull()
      expect(trickling).toBeDefined()
      expect(yield* published).toEqual([])
    }).pipe(Effect.scoped, Effect.provide(layerMemory({ timeout: Duration.millis(400) })))
  )
})

describe("a client that downloads without reading", () => {
  it.scopedLive("holds no connection of the database meanwhile", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const { poolUse } = yield* Database
      const { token, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: Buffer.alloc(24 * mib, "x") }))
      const raw = yield* RawClient.make(port)
      yield* raw.send(
        `GET /uploads/acme/${id}/content HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`
      )
      expect(yield* raw.said(/HTTP\/1\.1 200/)).not.toBeNull()
      yield* raw.ignore
      // The socket buffers are full; then the server stops querying the database.
      yield* until(poolUse, ({ busy }) => busy === 0)
      yield* raw.vanish
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )
})

describe("a file that is swept during a download", () => {
  it.scopedLive("closes the connection, so that the client does not accept a partial file", () =>
    Effect.gen(function* () {
      const { port } = yield* TestServer
      const storage = yield* Storage
      const { ack, token, upload } = yield* client()
      const [id = ""] = idsOf(yield* upload({ content: Buffer.alloc(24 * mib, "x") }))
      const raw = yield* RawClient.make(port)
      yield* raw.send(
        `GET /uploads/acme/${id}/content HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${token}\r\n\r\n`
      )
      expect(yield* raw.said(/HTTP\/1\.1 200/)).not.toBeNull()
      yield* raw.ignore
      yield* ack(id)
      expect(yield* storage.sweep(0)).toMatchObject({ acked: 1 })
      const heard = yield* raw.readOut
      expect(heard).toContain(`content-length: ${24 * mib}`)
      expect(heard.length).toBeLessThan(24 * mib)
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )
})

describe("a database that cuts all connections", () => {
  it.scopedLive("is not noticed by a client in the middle of an upload", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const size = chunkBytes + 100
      const raw = yield* halfway(beginning(size).length + ending.length, beginning(size))
      yield* until(rows, (counts) => counts?.chunks === 1)
      yield* Effect.ignore(
        sql`select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()`
      )
      yield* raw.send(ending)
      expect(yield* raw.said(status(201))).not.toBeNull()
      expect(yield* published).toMatchObject([{ size }])
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )
})

describe("a token that is revoked while files arrive", () => {
  it.scopedLive("publishes none of them", () =>
    Effect.gen(function* () {
      const tokens = yield* Tokens
      const raw = yield* halfway(beginning(10).length + ending.length, beginning(10))
      yield* Effect.forEach(yield* tokens.list(acme), ({ id }) => tokens.revoke(acme, id))
      yield* raw.send(ending)
      const [, answer = ""] = (yield* raw.said(status(401))) ?? []
      expect(answer).toContain('"tag":"Unauthorized"')
      expect(yield* published).toEqual([])
      expect(yield* rows).toEqual({ contents: 0, chunks: 0 })
    }).pipe(Effect.scoped, Effect.provide(layerPostgres()))
  )
})

describe("more clients than the process accepts at once", () => {
  const length = beginning(10).length + ending.length
  const clients = (workspace: Workspace, count: number) =>
    Effect.all(Array.from({ length: count }, () => halfway(length, beginning(10), workspace)))

  it.scopedLive("get a retry delay, and earlier ones are served", () =>
    Effect.gen(function* () {
      const first = (yield* Effect.forEach(["acme", "b", "c", "d"], (name) => clients(workspaceOf(name), 16))).flat()
      const late = yield* halfway(length, beginning(10), workspaceOf("e"))
      const [, answer = ""] = (yield* late.said(status(503))) ?? []
      expect(answer).toContain('"tag":"UploadsBusy"')
      for (const raw of first) yield* raw.send(ending)
      for (const raw of first) expect(yield* raw.said(status(201))).not.toBeNull()
      expect(yield* published).toHaveLength(16)
    }).pipe(Effect.scoped, Effect.provide(layerMemory()))
  )

  it.scopedLive("of one workspace leave room for others", () =>
    Effect.gen(function* () {
      yield* clients(acme, 16)
      const late = yield* halfway(length, beginning(10))
      expect(yield* late.said(status(503))).not.toBeNull()
      const other = yield* halfway(length, beginning(10), workspaceOf("b"))
      yield* other.send(ending)
      expect(yield* other.said(status(201))).not.toBeNull()
    }).pipe(Effect.scoped, Effect.provide(layerMemory()))
  )
})

describe("a workspace's unfinished uploads", () => {
  it.scopedLive("count towards its quota until their sender disconnects", () =>
    Effect.gen(function* () {
      const first = yield* halfway(8 * mib, beginning(3 * mib))
      const second = yield* halfway(8 * mib, beginning(3 * mib))
      const [answer, other] = yield* Effect.race(
        Effect.map(first.said(status(413)), (answer) => [answer?.[1], second] as const),
        Effect.map(second.said(status(413)), (answer) => [answer?.[1], first] as const)
      )
      expect(answer).toContain('"tag":"QuotaExceeded"')
      yield* other.vanish
      const { upload } = yield* client()
      yield* until(upload({ content: Buffer.alloc(3 * mib) }), ({ status }) => status === 201)
    }).pipe(Effect.scoped, Effect.provide(layerMemory({ quota: 5 * mib })))
  )
})
