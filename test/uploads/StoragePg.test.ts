import { describe, expect, it } from "@effect/vitest"
import { Chunk, Effect, Either, Fiber, Layer, Schema, Stream, Tracer } from "effect"
import { Workspace } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { Storage } from "../../src/uploads/Storage.js"
import * as StoragePg from "../../src/uploads/StoragePg.js"
import { chunkBytes } from "../../src/uploads/Upload.js"
import { UploadsConfig } from "../../src/uploads/UploadsConfig.js"
import { scale } from "../support/Scale.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const workspace = Schema.decodeSync(Workspace)("acme")

const over = (quota: number) =>
  StoragePg.layer.pipe(
    Layer.provide(
      Layer.effect(
        UploadsConfig,
        Effect.map(UploadsConfig, (defaults) => ({ ...defaults, quota }))
      ).pipe(Layer.provide(UploadsConfig.layerDefault))
    ),
    Layer.provideMerge(TestDatabase.layer),
    Layer.provideMerge(SteppableClock.layer)
  )
const house = over(1024 ** 3)

const file = (filename: string, content = filename) => ({
  filename,
  mimetype: "text/plain",
  content: Buffer.from(content)
})

const names = Effect.gen(function* () {
  const storage = yield* Storage
  return (yield* storage.list(workspace)).map(({ filename }) => filename)
})

/** Rows left in the content and chunk tables. */
const remains = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql<{ contents: number; chunks: number }>`
    select (select count(*)::int from nightshift.upload_content) as contents,
      (select count(*)::int from nightshift.upload_chunk) as chunks`
  return rows[0]
})

/** The number of statements that an effect sends, and the duration of the longest. */
const counted = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const own = yield* Effect.tracer
    let statements = 0
    let longestMillis = 0
    const watching = Tracer.make({
      span: (name, ...rest) => {
        const span = own.span(name, ...rest)
        if (name !== "sql.execute") return span
        statements += 1
        const began = performance.now()
        const end = span.end.bind(span)
        span.end = (...last) => {
          longestMillis = Math.max(longestMillis, performance.now() - began)
          end(...last)
        }
        return span
      },
      context: own.context
    })
    const value = yield* Effect.withTracer(effect, watching)
    return { value, statements, longestMillis }
  })

describe("files in the caller's transaction", () => {
  it.scopedLive("are not undone by a refusal that the caller handles", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { transaction } = yield* Database
      yield* transaction(
        Effect.gen(function* () {
          yield* storage.put(workspace, file("kept", "12345"))
          const refused = yield* Effect.flip(storage.put(workspace, file("too much", "678901")))
          expect(refused).toMatchObject({ _tag: "QuotaExceeded", kept: 5, size: 6, max: 10 })
        })
      )
      expect(yield* names).toEqual(["kept"])
    }).pipe(Effect.provide(over(10)))
  )

  it.scopedLive("are visible at its end when published there; drafts are committed before", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { transaction } = yield* Database
      const draft = yield* storage.begin(file("d"))
      yield* transaction(Effect.zipRight(draft.append(Buffer.alloc(chunkBytes)), Effect.fail("no"))).pipe(Effect.ignore)
      expect(yield* remains).toEqual({ contents: 1, chunks: 1 })
      const whole = yield* draft.end
      yield* Effect.ignore(transaction(Effect.zipRight(storage.publish(workspace, [whole]), Effect.fail("no"))))
      expect(yield* names).toEqual([])
      yield* transaction(storage.publish(workspace, [whole]))
      expect(yield* names).toEqual(["d"])
    }).pipe(Effect.provide(house))
  )
})

describe("a draft", () => {
  it.scopedLive("is not published if the server has lost one of its chunks, in a crash", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { sql } = yield* Database
      const drafts = yield* Effect.forEach(["whole", "lost"], (name) => storage.begin(file(name)))
      yield* Effect.forEach(drafts, (draft) => draft.append(Buffer.alloc(2 * chunkBytes + 1)))
      const [whole, lost] = yield* Effect.forEach(drafts, (draft) => draft.end)
      const gone = yield* sql`delete from nightshift.upload_chunk where file_id = ${lost?.id} and n = 1 returning n`
      expect(gone).toHaveLength(1)
      const publish = (...all: ReadonlyArray<typeof whole>) =>
        storage.publish(
          workspace,
          all.filter((each) => each !== undefined)
        )
      expect(yield* Effect.flip(publish(whole, lost))).toMatchObject({ _tag: "DraftLost" })
      expect(yield* names).toEqual([])
      yield* publish(whole)
      expect(yield* names).toEqual(["whole"])
    }).pipe(Effect.provide(house))
  )
})

describe("content", () => {
  /** Every byte value, over several reads. */
  const content = Buffer.from(Array.from({ length: 5 * chunkBytes + 1 }, (_, n) => (n * 31 + (n >> 8)) & 0xff))
  const large = { filename: "large", mimetype: "text/plain", content }

  it.scopedLive("is readable inside the transaction that stores it", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { transaction } = yield* Database
      const pieces = yield* transaction(
        Effect.gen(function* () {
          const id = yield* storage.put(workspace, large)
          return yield* Stream.runCollect((yield* storage.get(workspace, id)).content())
        })
      )
      expect(Buffer.concat(Chunk.toReadonlyArray(pieces)).equals(content)).toBe(true)
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("ends with an error if the file is deleted meanwhile", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { sql } = yield* Database
      const id = yield* storage.put(workspace, large)
      const stored = yield* storage.get(workspace, id)
      let received = 0
      const read = Stream.runForEach(stored.content(), (piece) => {
        received += piece.length
        return sql`delete from nightshift.upload_content where file_id = ${id}`
      })
      expect(yield* Effect.flip(read)).toMatchObject({ _tag: "UploadNotFound", id })
      expect(received).toBeGreaterThan(0)
      expect(received).toBeLessThan(content.length)
    }).pipe(Effect.provide(house))
  )
})

describe("the quota", () => {
  it.scopedLive("holds under concurrency", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const puts = yield* Effect.forEach(
        Array.from({ length: 20 }, (_, n) => file(`f${n}`, "1234567890")),
        (one) => Effect.either(storage.put(workspace, one)),
        { concurrency: "unbounded" }
      )
      expect(puts.filter(Either.isRight)).toHaveLength(3)
      expect(yield* storage.kept(workspace)).toBe(30)
    }).pipe(Effect.provide(over(35)))
  )
})

describe("a sweep", () => {
  it.scopedLive("is one statement, and deletes the chunks with their files", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const ids = yield* storage.putMany(workspace, [file("a"), file("b"), file("c", "x".repeat(chunkBytes + 1))])
      yield* Effect.forEach(ids.slice(1), (id) => storage.ack(workspace, id))
      const abandoned = yield* storage.begin(file("abandoned"))
      yield* abandoned.append(Buffer.alloc(chunkBytes + 1))
      yield* SteppableClock.advance("12 hours")
      yield* storage.put(workspace, file("young"))
      expect(yield* remains).toEqual({ contents: 5, chunks: 6 })
      const { statements, value } = yield* counted(storage.sweep("1 hour"))
      expect(value).toEqual({ acked: 2, expired: 0, total: 2, leftovers: 1 })
      expect(statements).toBe(1)
      expect(yield* remains).toEqual({ contents: 2, chunks: 2 })
      yield* SteppableClock.advance("12 hours")
      expect(yield* counted(storage.sweep("1 hour"))).toMatchObject({
        value: { acked: 0, expired: 1, total: 1, leftovers: 0 },
        statements: 1
      })
      expect(yield* counted(storage.sweep("1 hour"))).toMatchObject({ value: { total: 0 }, statements: 1 })
      expect(yield* names).toEqual(["young"])
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("leaves locked files to the next sweep, and waits for no lock", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const [held] = yield* storage.putMany(workspace, [file("held"), file("free")])
      yield* SteppableClock.advance("24 hours")
      const somebody = yield* TestDatabase.connection
      yield* Effect.promise(() => somebody.query("begin"))
      yield* Effect.promise(() =>
        somebody.query("select 1 from nightshift.upload where file_id = $1 for update", [held])
      )
      expect(yield* storage.sweep(0)).toMatchObject({ expired: 1 })
      yield* Effect.promise(() => somebody.query("rollback"))
      expect(yield* storage.sweep(0)).toMatchObject({ expired: 1 })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive("deletes large files in separate statements", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { sql } = yield* Database
      yield* storage.putMany(
        workspace,
        Array.from({ length: 12 }, (_, n) => file(`f${n}`))
      )
      // A statement is bounded by the sizes that the rows declare.
      yield* sql`update nightshift.upload set size_bytes = 100 * 1024 * 1024`
      yield* SteppableClock.advance("24 hours")
      expect(yield* counted(storage.sweep(0))).toMatchObject({ value: { expired: 12 }, statements: 4 })
    }).pipe(Effect.provide(house))
  )

  it.scopedLive(
    "processes many files in bounded statements, while others are fetched",
    () =>
      Effect.gen(function* () {
        const storage = yield* Storage
        const { sql, transaction } = yield* Database
        const many = scale("SWEPT_FILES", { usual: 4_000, long: 100_000 })
        const content = "x".repeat(2 * chunkBytes)
        const wanted = yield* storage.put(workspace, file("wanted", content))
        yield* transaction(
          Effect.gen(function* () {
            // Skips foreign key checks, which would take most of the test; the rows are consistent.
            yield* sql`set local session_replication_role = replica`
            yield* sql`insert into nightshift.upload_content (file_id) select gen_random_uuid() from generate_series(1, ${many}::int)`
            yield* sql`insert into nightshift.upload_chunk (file_id, n, bytes)
        select file_id, 0, 'x' from nightshift.upload_content where file_id <> ${wanted}`
            yield* sql`insert into nightshift.upload (file_id, created_at, expires_at, acked_at, size_bytes, chunk_bytes,
          workspace_id, filename, mimetype, sha256)
        select file_id, at, at, case when row_number() over () % 2 = 0 then at end, 1, ${chunkBytes}::int, 'other', 'f',
          'text/plain', repeat('0', 64)
        from nightshift.upload_content, (select '2020-01-01Z'::timestamptz as at) t where file_id <> ${wanted}`
          })
        )
        yield* sql`analyze nightshift.upload_content, nightshift.upload_chunk, nightshift.upload`
        const fetches = yield* Effect.gen(function* () {
          const stored = yield* storage.get(workspace, wanted)
          const pieces = yield* Stream.runCollect(stored.content())
          expect(Buffer.concat(Chunk.toReadonlyArray(pieces)).toString()).toBe(content)
        }).pipe(Effect.forever, Effect.fork)
        const { longestMillis, statements, value } = yield* counted(storage.sweep("1 hour"))
        yield* Fiber.interrupt(fetches)
        expect(value).toEqual({ acked: many / 2, expired: many / 2, total: many, leftovers: 0 })
        expect(statements).toBeGreaterThanOrEqual(many / 2_000)
        expect(yield* remains).toEqual({ contents: 1, chunks: 2 })
        yield* Effect.log(`swept ${many} in ${statements} statements, the longest took ${longestMillis.toFixed(0)} ms`)
      }).pipe(Effect.provide(house)),
    // A busy machine needs a minute to store the files of a long run.
    240_000
  )
})

describe("the tables", () => {
  it.scopedLive("refuse an invalid row from any writer", () =>
    Effect.gen(function* () {
      const storage = yield* Storage
      const { sql } = yield* Database
      const id = yield* storage.put(workspace, file("a"))
      const broken = (set: string) =>
        Effect.flip(sql.unsafe(`update nightshift.upload set ${set} where file_id = $1`, [id]))
      for (const set of ["size_bytes = 0", "filename = ''", "filename = repeat('x', 256)", "sha256 = 'short'"]) {
        expect(String((yield* broken(set)).cause)).toContain("violates check constraint")
      }
    }).pipe(Effect.provide(house))
  )
})
