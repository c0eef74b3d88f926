import { createHash } from "node:crypto"
import { Clock, Duration, Effect, Either, Layer, Stream } from "effect"
import { BadCursor } from "../core/BadCursor.js"
import { isId, makeGenerator, type UploadId, type Workspace } from "../core/Ids.js"
import { idleUntil } from "../core/Loop.js"
import * as Rollback from "../core/Rollback.js"
import type { SubjectDigest } from "../core/Subject.js"
import * as Draft from "./Draft.js"
import { maxListedFiles, Storage, type StuckWorkspace, type UploadPage } from "./Storage.js"
import { admitAll, type ByteRange, chunkBytes, faultOfNames, stateOf, type Upload } from "./Upload.js"
import { DraftLost, QuotaExceeded, UploadNotFound } from "./UploadErrors.js"
import { UploadsConfig } from "./UploadsConfig.js"

interface Content {
  readonly chunks: Array<Buffer>
  /** Expiry of the draft, in epoch milliseconds; undefined once published. */
  readonly draftUntil: number | undefined
}

const isReadable = (upload: Upload, now: number) => upload.ackedAt !== undefined || upload.expiresAt > now

const byAge = (left: Upload, right: Upload) => left.createdAt - right.createdAt || (left.id < right.id ? -1 : 1)

/** Groups waiting files, which are sorted by age, by workspace. */
const byWorkspace = (waiting: ReadonlyArray<Upload>): ReadonlyArray<StuckWorkspace> => {
  const workspaces = new Map<Workspace, StuckWorkspace>()
  for (const { createdAt, size, workspace } of waiting) {
    const known = workspaces.get(workspace) ?? { workspace, files: 0, bytes: 0, oldest: createdAt }
    workspaces.set(workspace, { ...known, files: known.files + 1, bytes: known.bytes + size })
  }
  return [...workspaces.values()]
}

const chunksOf = (content: Uint8Array): Array<Buffer> =>
  Array.from({ length: Math.ceil(content.byteLength / chunkBytes) }, (_, n) =>
    Buffer.from(content.subarray(n * chunkBytes, (n + 1) * chunkBytes))
  )

const piecesOf = (content: Content, { first, last }: ByteRange): ReadonlyArray<Uint8Array> =>
  content.chunks
    .map((chunk, n) => chunk.subarray(Math.max(0, first - n * chunkBytes), Math.max(0, last - n * chunkBytes + 1)))
    .filter((piece) => piece.byteLength > 0)

const make = Effect.gen(function* () {
  const config = yield* UploadsConfig
  const ids = yield* makeGenerator
  const contents = new Map<UploadId, Content>()
  const uploads = new Map<UploadId, Upload>()
  const subjects = new Map<UploadId, SubjectDigest>()

  const keptNow = (workspace: Workspace) =>
    [...uploads.values()].reduce((sum, upload) => sum + (upload.workspace === workspace ? upload.size : 0), 0)

  const waitingNow = (now: number) =>
    [...uploads.values()].filter(({ ackedAt, expiresAt }) => ackedAt === undefined && expiresAt > now).sort(byAge)

  /** When the next file or draft can be swept. */
  const nextSweep = (ackRetention: number) => {
    let next = Number.POSITIVE_INFINITY
    for (const { ackedAt, expiresAt } of uploads.values())
      next = Math.min(next, ackedAt === undefined ? expiresAt : ackedAt + ackRetention)
    for (const { draftUntil } of contents.values()) next = Math.min(next, draftUntil ?? next)
    return next
  }

  /** How to take back what the current change has written. */
  let written: Array<() => void> = []

  /** Sets or deletes an entry. An enclosing transaction that fails restores it, unless another change has written it since. */
  const set = <V>(map: Map<UploadId, V>, id: UploadId, value: V | undefined) => {
    const before = map.get(id)
    const write = (next: V | undefined) => void (next === undefined ? map.delete(id) : map.set(id, next))
    write(value)
    written.push(() => {
      if (map.get(id) === value) write(before)
    })
  }

  /** Runs a change. It is synchronous: no other change runs between its reads and its writes. */
  const atomically = <A>(act: (now: number) => A): Effect.Effect<A> =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Effect.suspend(() => {
        written = []
        const answer = act(now)
        const reverts = written.toReversed()
        return Effect.as(
          Rollback.remember(() => {
            for (const revert of reverts) revert()
          }),
          answer
        )
      })
    )

  const step = <A, E>(act: (now: number) => Either.Either<A, E>): Effect.Effect<A, E> => Effect.flatten(atomically(act))

  const quotaFault = (workspace: Workspace, drafts: ReadonlyArray<Draft.WholeDraft>): QuotaExceeded | undefined => {
    const size = drafts.reduce((sum, draft) => sum + draft.size, 0)
    const kept = keptNow(workspace)
    return kept + size > config.quota ? new QuotaExceeded({ workspace, kept, size, max: config.quota }) : undefined
  }

  const publishNow = (
    workspace: Workspace,
    drafts: ReadonlyArray<Draft.WholeDraft>,
    now: number,
    subject: SubjectDigest | undefined
  ): ReadonlyArray<Upload> => {
    const times = { createdAt: now, expiresAt: now + Duration.toMillis(config.expiry) }
    return drafts.map((draft) => {
      const upload: Upload = { ...draft, workspace, ...times, fetchedAt: undefined, ackedAt: undefined }
      set(uploads, upload.id, upload)
      if (subject !== undefined) set(subjects, upload.id, subject)
      const content = contents.get(upload.id)
      if (content !== undefined) set(contents, upload.id, { ...content, draftUntil: undefined })
      return upload
    })
  }

  /** Outside of transactions, as in PostgreSQL: chunks of drafts are stored as they arrive. */
  const storeDraft = (id: UploadId, draftUntil: number) => (n: number, bytes: Buffer) =>
    Effect.suspend(() => {
      if (n === 0) contents.set(id, { chunks: [], draftUntil })
      const content = contents.get(id)
      if (content === undefined) return new DraftLost()
      content.chunks.push(Buffer.from(bytes))
      return Effect.void
    })

  const find = (workspace: Workspace, id: UploadId, now: number): Either.Either<Upload, UploadNotFound> => {
    const upload = uploads.get(id)
    return upload?.workspace === workspace && isReadable(upload, now)
      ? Either.right(upload)
      : Either.left(new UploadNotFound({ id }))
  }

  const remove = (id: UploadId) => {
    set(uploads, id, undefined)
    set(contents, id, undefined)
    set(subjects, id, undefined)
  }

  const contentOf = (upload: Upload) => (range?: ByteRange) =>
    Stream.suspend(() => {
      const content = contents.get(upload.id)
      if (content === undefined) return Stream.fail(new UploadNotFound({ id: upload.id }))
      return Stream.fromIterable(piecesOf(content, range ?? { first: 0, last: upload.size - 1 }))
    })

  const putMany: typeof Storage.Service.putMany = (workspace, files, subject) =>
    step((now) =>
      Either.flatMap(admitAll(files, config.maxFile), () => {
        const drafts = files.map(({ content, filename, mimetype }) => ({
          id: ids.upload(now),
          filename,
          mimetype,
          size: content.byteLength,
          sha256: createHash("sha256").update(content).digest("hex")
        }))
        const fault = quotaFault(workspace, drafts)
        if (fault !== undefined) return Either.left(fault)
        for (const [index, { id }] of drafts.entries()) {
          const chunks = chunksOf(files[index]?.content ?? new Uint8Array())
          set(contents, id, { chunks, draftUntil: undefined })
        }
        return Either.right(publishNow(workspace, drafts, now, subject).map(({ id }) => id))
      })
    )

  return Storage.of({
    putMany,
    put: (workspace, file) =>
      Effect.flatMap(putMany(workspace, [file]), ([id]) =>
        id === undefined ? Effect.dieMessage("putMany returned no id") : Effect.succeed(id)
      ),
    begin: (file, index = 0) =>
      step((now) => {
        const fault = faultOfNames(file, index)
        if (fault !== undefined) return Either.left(fault)
        const id = ids.upload(now)
        const store = storeDraft(id, now + Draft.lifetime(config.timeout))
        return Either.right(Draft.make({ id, file, index, maxFile: config.maxFile, store }))
      }),
    publish: (workspace, drafts, subject) =>
      step((now): Either.Either<ReadonlyArray<Upload>, DraftLost | QuotaExceeded> => {
        const fault = quotaFault(workspace, drafts)
        if (fault !== undefined) return Either.left(fault)
        if (drafts.some(({ id }) => contents.get(id)?.draftUntil === undefined)) return Either.left(new DraftLost())
        return Either.right(publishNow(workspace, drafts, now, subject))
      }),
    discard: (drafts) =>
      atomically(() => {
        for (const id of drafts) if (!uploads.has(id)) set(contents, id, undefined)
      }),
    kept: (workspace) => Effect.sync(() => keptNow(workspace)),
    list: (workspace, limit = maxListedFiles) =>
      Effect.map(Clock.currentTimeMillis, (now) =>
        waitingNow(now)
          .filter((upload) => upload.workspace === workspace)
          .slice(0, Math.min(limit, maxListedFiles))
      ),
    get: (workspace, id) =>
      step((now) => Either.map(find(workspace, id, now), (upload) => ({ upload, content: contentOf(upload) }))),
    markFetched: (workspace, id) =>
      step((now) => Either.map(find(workspace, id, now), (upload) => set(uploads, id, { ...upload, fetchedAt: now }))),
    ack: (workspace, id) =>
      step((now) =>
        Either.map(find(workspace, id, now), (upload) =>
          set(uploads, id, { ...upload, ackedAt: upload.ackedAt ?? now })
        )
      ),
    sweep: (ackRetention) =>
      atomically((now) => {
        const ackedUntil = now - Duration.toMillis(ackRetention)
        const all = [...uploads.values()]
        const acked = all.filter(({ ackedAt }) => ackedAt !== undefined && ackedAt <= ackedUntil)
        const expired = all.filter((upload) => !isReadable(upload, now))
        const leftovers = [...contents].filter(([, { draftUntil }]) => draftUntil !== undefined && draftUntil <= now)
        for (const { id } of [...acked, ...expired]) remove(id)
        for (const [id] of leftovers) remove(id)
        return {
          acked: acked.length,
          expired: expired.length,
          total: acked.length + expired.length,
          leftovers: leftovers.length
        }
      }).pipe(Effect.zipLeft(idleUntil(() => nextSweep(Duration.toMillis(ackRetention))))),
    browse: ({ state, workspace }, { cursor, limit }) =>
      step((now): Either.Either<UploadPage, BadCursor> => {
        if (cursor !== undefined && !isId(cursor)) return Either.left(new BadCursor({ cursor }))
        const fits = (upload: Upload) =>
          (workspace === undefined || upload.workspace === workspace) &&
          (state === undefined || stateOf(upload, now) === state) &&
          (cursor === undefined || upload.id < cursor)
        const found = [...uploads.values()].filter(fits).sort((left, right) => (left.id < right.id ? 1 : -1))
        const page = found.slice(0, limit)
        return Either.right({ uploads: page, next: found.length > limit ? page.at(-1)?.id : undefined })
      }),
    counts: Effect.map(Clock.currentTimeMillis, (now) => {
      const all = [...uploads.values()]
      const waiting = waitingNow(now)
      const fetched = waiting.filter(({ fetchedAt }) => fetchedAt !== undefined).length
      return {
        waiting: waiting.length - fetched,
        fetched,
        acked: all.filter(({ ackedAt }) => ackedAt !== undefined).length,
        expired: all.filter((upload) => !isReadable(upload, now)).length
      }
    }),
    erase: (subject, act) =>
      atomically(() => {
        const found = [...subjects].filter(([, own]) => own === subject)
        if (act === "erase") for (const [id] of found) remove(id)
        return found.length
      }),
    stuck: (waitingFor) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const since = now - Duration.toMillis(waitingFor)
        return byWorkspace(waitingNow(now).filter(({ createdAt }) => createdAt <= since))
      })
  })
})

/** In memory, for deterministic tests. */
export const layer: Layer.Layer<Storage, never, UploadsConfig> = Layer.effect(Storage, make)
