import { createHash } from "node:crypto"
import * as SqlClient from "@effect/sql/SqlClient"
import { Clock, Context, Duration, Effect, Either } from "effect"
import type { IdGenerator, UploadId, Workspace } from "../core/Ids.js"
import type { SubjectDigest } from "../core/Subject.js"
import type { Database } from "../database/Database.js"
import { DatabaseConflict, type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import * as Draft from "./Draft.js"
import type { Storage } from "./Storage.js"
import { admitAll, chunkBytes, faultOfNames, type NewUpload, type Upload } from "./Upload.js"
import { DraftLost, QuotaExceeded } from "./UploadErrors.js"
import type { UploadSql } from "./UploadSql.js"
import type { UploadsConfig } from "./UploadsConfig.js"

/** Bounds the connections used by concurrent uploads, so the queue keeps some. */
const writersAtOnce = 3

const sizeOf = (files: ReadonlyArray<{ readonly size: number }>) => files.reduce((sum, { size }) => sum + size, 0)

/** Leaves the caller's transaction: draft chunks commit as they arrive. */
const outsideTransactions = Effect.mapInputContext((context: Context.Context<never>) =>
  Context.omit(SqlClient.TransactionConnection)(context as Context.Context<SqlClient.TransactionConnection>)
)

type Intake = Pick<typeof Storage.Service, "put" | "putMany" | "begin" | "publish" | "discard" | "kept">

/** The writing half of the storage. */
export const make = (
  database: typeof Database.Service,
  statements: UploadSql,
  ids: IdGenerator,
  config: typeof UploadsConfig.Service
): Effect.Effect<Intake> =>
  Effect.gen(function* () {
    const { sql, transaction } = database
    const writing = yield* Effect.makeSemaphore(writersAtOnce)

    const kept = (workspace: Workspace) =>
      Effect.map(mapErrors(sql.unsafe<{ kept: number }>(statements.kept, [workspace])), (rows) => rows[0]?.kept ?? 0)

    /**
     * Checks the quota and locks the workspace, so no concurrent upload uses the same room before this transaction
     * ends.
     */
    const reserveQuota = (workspace: Workspace, size: number) =>
      Effect.gen(function* () {
        yield* mapErrors(sql.unsafe(statements.holdWorkspace, [workspace]))
        const held = yield* kept(workspace)
        if (held + size > config.quota) {
          return yield* new QuotaExceeded({ workspace, kept: held, size, max: config.quota })
        }
      })

    const insertUploads = (
      workspace: Workspace,
      files: ReadonlyArray<Draft.WholeDraft>,
      subject: SubjectDigest | undefined
    ) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const expiresAt = now + Duration.toMillis(config.expiry)
        yield* mapErrors(
          sql.unsafe(statements.insertUploads, [
            files.map(({ id }) => id),
            workspace,
            files.map(({ filename }) => filename),
            files.map(({ mimetype }) => mimetype),
            files.map(({ size }) => size),
            files.map(({ sha256 }) => sha256),
            chunkBytes,
            now,
            expiresAt,
            subject ?? null
          ])
        )
        const times = { createdAt: now, expiresAt, fetchedAt: undefined, ackedAt: undefined }
        return files.map((file): Upload => ({ ...file, workspace, ...times }))
      })

    const insertContent = (id: UploadId, content: Uint8Array) =>
      Effect.gen(function* () {
        for (let n = 0; n * chunkBytes < content.byteLength; n += 1) {
          const piece = content.subarray(n * chunkBytes, (n + 1) * chunkBytes)
          const bytes = Buffer.from(piece.buffer, piece.byteOffset, piece.byteLength)
          yield* mapErrors(
            n === 0
              ? sql.unsafe(statements.insertContent, [id, n, bytes, null])
              : sql.unsafe(statements.insertChunk, [id, n, bytes])
          )
        }
      })

    const putMany = Effect.fn("Storage.putMany")(function* (
      workspace: Workspace,
      given: ReadonlyArray<NewUpload>,
      subject?: SubjectDigest
    ) {
      const admitted = admitAll(given, config.maxFile)
      if (Either.isLeft(admitted)) return yield* admitted.left
      if (given.length === 0) return []
      const now = yield* Clock.currentTimeMillis
      const files = given.map(({ content, filename, mimetype }) => ({
        id: ids.upload(now),
        filename,
        mimetype,
        size: content.byteLength,
        sha256: createHash("sha256").update(content).digest("hex"),
        content
      }))
      yield* transaction(
        Effect.gen(function* () {
          yield* reserveQuota(workspace, sizeOf(files))
          yield* Effect.forEach(files, ({ content, id }) => insertContent(id, content), { discard: true })
          yield* insertUploads(workspace, files, subject)
        })
      )
      return files.map(({ id }) => id)
    })

    const storeDraft = (id: UploadId, draftUntil: number) => (n: number, bytes: Buffer) =>
      mapErrors(
        n === 0
          ? sql.unsafe(statements.beginDraft, [id, n, bytes, draftUntil])
          : sql.unsafe(statements.continueDraft, [id, n, bytes])
      ).pipe(
        outsideTransactions,
        writing.withPermits(1),
        Effect.asVoid,
        // The content row no longer exists: the sweeper deleted the draft because it had expired.
        Effect.catchIf(
          (error): error is DatabaseConflict =>
            error instanceof DatabaseConflict && error.constraint === "upload_chunk_content_fkey",
          (): Effect.Effect<void, DraftLost | DatabaseError> => new DraftLost()
        )
      )

    return {
      putMany,
      put: (workspace, file) =>
        Effect.flatMap(putMany(workspace, [file]), ([id]) =>
          id === undefined ? Effect.dieMessage("putMany returned no id") : Effect.succeed(id)
        ),
      begin: (file, index = 0) =>
        Effect.gen(function* () {
          const fault = faultOfNames(file, index)
          if (fault !== undefined) return yield* fault
          const now = yield* Clock.currentTimeMillis
          const id = ids.upload(now)
          const store = storeDraft(id, now + Draft.lifetime(config.timeout))
          return Draft.make({ id, file, index, maxFile: config.maxFile, store })
        }),
      publish: Effect.fn("Storage.publish")(function* (workspace, drafts, subject) {
        if (drafts.length === 0) return []
        return yield* transaction(
          Effect.gen(function* () {
            yield* reserveQuota(workspace, sizeOf(drafts))
            const ended = yield* mapErrors(
              sql.unsafe(statements.endDrafts, [drafts.map(({ id }) => id), drafts.map(({ size }) => size), chunkBytes])
            )
            if (ended.length !== drafts.length) return yield* new DraftLost()
            return yield* insertUploads(workspace, drafts, subject)
          })
        )
      }),
      discard: Effect.fn("Storage.discard")(function* (drafts) {
        if (drafts.length > 0) yield* mapErrors(sql.unsafe(statements.discard, [drafts]))
      }),
      kept
    }
  })
