import type { Vitest } from "@effect/vitest"
import { Chunk, Clock, type Duration, Effect, Schema, Stream } from "effect"
import { Tokens } from "../../src/access/Tokens.js"
import { type UploadId, Workspace } from "../../src/core/Ids.js"
import { Transactions } from "../../src/queue/Transactions.js"
import type { WholeDraft } from "../../src/uploads/Draft.js"
import { Storage } from "../../src/uploads/Storage.js"
import type { ByteRange, NewUpload } from "../../src/uploads/Upload.js"

export type Ports = Storage | Tokens | Transactions

/** Advances the clock of a law. */
export type Advance = (by: Duration.DurationInput) => Effect.Effect<void>

/** The context of a law: the ports, and a workspace that no other law uses. */
export interface Inbox {
  readonly storage: typeof Storage.Service
  readonly tokens: typeof Tokens.Service
  readonly transactions: typeof Transactions.Service
  readonly workspace: Workspace
  readonly advance: Advance
  readonly now: Effect.Effect<number>
  /** Stores one file and returns its id. */
  readonly put: (content?: string | Uint8Array, more?: Partial<NewUpload>) => Effect.Effect<UploadId, unknown>
  /** Writes a complete draft, in pieces. */
  readonly draft: (pieces: ReadonlyArray<Uint8Array>, filename?: string) => Effect.Effect<WholeDraft, unknown>
  /** The content of a file, or of a part of it. */
  readonly read: (id: UploadId, range?: ByteRange) => Effect.Effect<Buffer, unknown>
  /** Names of the waiting files. */
  readonly names: Effect.Effect<ReadonlyArray<string>, unknown>
  /** Deletes the data of other laws. */
  readonly clean: Effect.Effect<void, unknown>
}

let opened = 0

/** A workspace that no other law uses. */
export const newWorkspace = (): Workspace => {
  opened += 1
  return Schema.decodeSync(Workspace)(`law-${opened}`)
}

const open = (advance: Advance): Effect.Effect<Inbox, never, Ports> =>
  Effect.gen(function* () {
    const storage = yield* Storage
    const tokens = yield* Tokens
    const transactions = yield* Transactions
    const workspace = newWorkspace()
    yield* advance("1 second")
    return {
      storage,
      tokens,
      transactions,
      workspace,
      advance,
      now: Clock.currentTimeMillis,
      put: (content = "hello", more = {}) =>
        storage.put(workspace, { filename: "a.txt", mimetype: "text/plain", content: Buffer.from(content), ...more }),
      draft: (pieces, filename = "a.txt") =>
        Effect.gen(function* () {
          const draft = yield* storage.begin({ filename, mimetype: "text/plain" })
          for (const piece of pieces) yield* draft.append(piece)
          return yield* draft.end
        }),
      read: (id, range) =>
        Effect.gen(function* () {
          const { content } = yield* storage.get(workspace, id)
          return Buffer.concat(Chunk.toReadonlyArray(yield* Stream.runCollect(content(range))))
        }),
      names: Effect.map(storage.list(workspace), (uploads) => uploads.map(({ filename }) => filename)),
      clean: Effect.zipRight(advance("48 hours"), storage.sweep(0))
    }
  })

/** Declares a law as a test. */
export type Law = (name: string, story: (inbox: Inbox) => Effect.Effect<void, unknown>) => void

export const lawOf =
  (test: Vitest.Test<Ports>, advance: Advance): Law =>
  (name, story) =>
    test(name, () => Effect.flatMap(open(advance), story))
