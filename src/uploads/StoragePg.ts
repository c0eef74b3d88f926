import { Chunk, Clock, Duration, Effect, Layer, Option, Stream } from "effect"
import { BadCursor } from "../core/BadCursor.js"
import { isId, makeGenerator, type UploadId, type Workspace } from "../core/Ids.js"
import { Database, within } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { named } from "../database/Statements.js"
import * as IntakePg from "./IntakePg.js"
import { maxCounted, maxListedFiles, Storage, type StuckWorkspace, type Swept, type UploadCounts } from "./Storage.js"
import { type ByteRange, chunkBytes } from "./Upload.js"
import { UploadNotFound } from "./UploadErrors.js"
import * as UploadSql from "./UploadSql.js"
import { toUpload, type UploadRow } from "./UploadSql.js"
import { UploadsConfig } from "./UploadsConfig.js"

/** Limits of one sweep statement, which keep its transaction short. */
const sweepBatch = { files: 1_000, bytes: 256 * 1024 * 1024 }

/** Maximum number of files that are erased in one transaction. */
const erasedFiles = 50

/** A sweep starts no further batch after this many milliseconds. */
const sweepBudget = Duration.toMillis("20 seconds")

/** Time limit for operators' queries over all workspaces. */
const browseTimeout = Duration.seconds(5)

/** Bounds the connections used by concurrent downloads, so the queue keeps some. */
const readersAtOnce = 3

/** Chunks that a download reads at once and holds in memory. */
const chunksPerRead = 2

interface SweptRow {
  readonly acked: number
  readonly expired: number
  readonly leftovers: number
  readonly more: boolean
}

const make = Effect.gen(function* () {
  const database = yield* Database
  const config = yield* UploadsConfig
  const { direct, schema, sql } = database
  const statements = named("upload", UploadSql.make(schema))
  const intake = yield* IntakePg.make(database, statements, yield* makeGenerator, config)
  const reading = yield* Effect.makeSemaphore(readersAtOnce)
  const bounded = within(database, browseTimeout)

  const readChunks = (id: UploadId, first: number, last: number) =>
    Effect.filterOrFail(
      reading.withPermits(1)(direct.bytes(statements.chunk, [id, first, last])),
      (chunks) => chunks.length === last - first + 1,
      () => new UploadNotFound({ id })
    )

  /** Holds no connection between two reads, so a slow client does not block others. */
  const contentOf = (row: UploadRow) => (range?: ByteRange) => {
    const { first, last } = range ?? { first: 0, last: row.size_bytes - 1 }
    const lastChunk = Math.floor(last / row.chunk_bytes)
    return Stream.paginateChunkEffect(Math.floor(first / row.chunk_bytes), (n) => {
      const until = Math.min(n + chunksPerRead - 1, lastChunk)
      return Effect.map(readChunks(row.file_id, n, until), (chunks) => {
        const pieces = chunks.map((bytes, index): Uint8Array => {
          const start = (n + index) * row.chunk_bytes
          return bytes.subarray(Math.max(0, first - start), last - start + 1)
        })
        return [Chunk.unsafeFromArray(pieces), until < lastChunk ? Option.some(until + 1) : Option.none()] as const
      })
    })
  }

  /** Runs a statement on one readable file. Fails if it returns no row. */
  const onReadable = <Row extends object>(statement: string, workspace: Workspace, id: UploadId) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* mapErrors(sql.unsafe<Row>(statement, [id, workspace, now]))
      return row === undefined ? yield* new UploadNotFound({ id }) : row
    })

  const sweep = Effect.fn("Storage.sweep")(function* (ackRetention: Duration.DurationInput) {
    const retention = Duration.toMillis(ackRetention)
    const began = yield* Clock.currentTimeMillis
    let sum = { acked: 0, expired: 0, leftovers: 0 }
    for (;;) {
      const now = yield* Clock.currentTimeMillis
      const parameters = [now - retention, now, sweepBatch.files, sweepBatch.bytes, chunkBytes]
      const [row] = yield* mapErrors(sql.unsafe<SweptRow>(statements.sweep, parameters))
      if (row === undefined) return yield* Effect.dieMessage("the sweep statement returned no row")
      sum = {
        acked: sum.acked + row.acked,
        expired: sum.expired + row.expired,
        leftovers: sum.leftovers + row.leftovers
      }
      if (!row.more || now - began > sweepBudget) break
    }
    return { ...sum, total: sum.acked + sum.expired } satisfies Swept
  })

  return Storage.of({
    ...intake,
    list: Effect.fn("Storage.list")(function* (workspace, limit = maxListedFiles) {
      const now = yield* Clock.currentTimeMillis
      const most = Math.min(limit, maxListedFiles)
      return (yield* mapErrors(sql.unsafe<UploadRow>(statements.list, [workspace, now, most]))).map(toUpload)
    }),
    get: Effect.fn("Storage.get")(function* (workspace, id) {
      const row = yield* onReadable<UploadRow>(statements.get, workspace, id)
      return { upload: toUpload(row), content: contentOf(row) }
    }),
    markFetched: Effect.fn("Storage.markFetched")(function* (workspace, id) {
      yield* onReadable(statements.markFetched, workspace, id)
    }),
    ack: Effect.fn("Storage.ack")(function* (workspace, id) {
      yield* onReadable(statements.ack, workspace, id)
    }),
    sweep,
    erase: (subject, act) =>
      act === "count"
        ? Effect.map(
            mapErrors(sql.unsafe<{ count: number }>(statements.countOfSubject, [subject])),
            ([row]) => row?.count ?? 0
          )
        : Effect.map(mapErrors(sql.unsafe(statements.erase, [subject, erasedFiles])), ({ length }) => length),
    browse: Effect.fn("Storage.browse")(function* ({ state, workspace }, { cursor, limit }) {
      if (cursor !== undefined && !isId(cursor)) return yield* new BadCursor({ cursor })
      const now = yield* Clock.currentTimeMillis
      const parameters = [workspace ?? null, state ?? null, cursor ?? null, now, limit + 1]
      const rows = yield* bounded(sql.unsafe<UploadRow>(statements.browse, parameters))
      const uploads = rows.slice(0, limit).map(toUpload)
      return { uploads, next: rows.length > limit ? uploads.at(-1)?.id : undefined }
    }),
    counts: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* mapErrors(sql.unsafe<UploadCounts>(statements.counts, [now, maxCounted]))
      return row ?? { waiting: 0, fetched: 0, acked: 0, expired: 0 }
    }),
    stuck: Effect.fn("Storage.stuck")(function* (waitingFor) {
      const now = yield* Clock.currentTimeMillis
      const since = now - Duration.toMillis(waitingFor)
      return yield* mapErrors(sql.unsafe<StuckWorkspace>(statements.stuck, [since, now, maxCounted]))
    })
  })
})

/** Stores files in PostgreSQL, with their content in chunks. */
export const layer: Layer.Layer<Storage, never, Database | UploadsConfig> = Layer.effect(Storage, make)
