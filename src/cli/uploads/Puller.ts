import { Effect } from "effect"
import type { UploadId } from "../../core/Ids.js"
import { maxListedFiles } from "../../uploads/Storage.js"
import {
  type FileDamaged,
  FileGone,
  type FolderUnusable,
  type PullClient,
  type ServiceRefused,
  type ServiceUnreachable,
  type WaitingFile
} from "./PullClient.js"
import type { PullFolder } from "./PullFolder.js"

/** A downloaded file. */
export interface Pulled {
  readonly file: WaitingFile
  readonly path: string
}

/** Callbacks for the progress and result of each file. */
export interface Listeners {
  readonly progress: (file: WaitingFile, bytes: number) => void
  readonly pulled: (pulled: Pulled) => Effect.Effect<void>
  readonly missed: (file: WaitingFile, error: FileDamaged | FileGone) => Effect.Effect<void>
}

export interface Round {
  readonly pulled: number
  readonly missed: number
}

type Failure = ServiceUnreachable | ServiceRefused | FolderUnusable

/** Runs one round: acknowledges files already in place, then fetches the waiting ones, one at a time. */
export const round = (client: PullClient, folder: PullFolder, listeners: Listeners): Effect.Effect<Round, Failure> =>
  Effect.gen(function* () {
    const acknowledge = (id: UploadId) =>
      client.ack(id).pipe(
        // In place here and gone from the service: there is nothing to acknowledge.
        Effect.catchTag("FileGone", () => Effect.void),
        Effect.zipRight(folder.forget(id))
      )

    const pull = (file: WaitingFile) =>
      Effect.gen(function* () {
        const path = yield* folder.receive(file, (part) =>
          client.content(file, part.size(), {
            restart: part.restart,
            piece: async (bytes) => {
              await part.piece(bytes)
              listeners.progress(file, part.size())
            }
          })
        )
        yield* acknowledge(file.id)
        yield* listeners.pulled({ file, path })
        return true
      }).pipe(
        Effect.catchTags({
          FileDamaged: (error) => Effect.as(listeners.missed(file, error), false),
          FileGone: () => Effect.as(listeners.missed(file, new FileGone()), false)
        })
      )

    yield* Effect.forEach(yield* folder.delivered, acknowledge, { discard: true })
    const files = yield* client.list
    if (files.length < maxListedFiles) yield* folder.keepOnly(new Set(files.map(({ id }) => id)))
    const results = yield* Effect.forEach(files, pull)
    const pulled = results.filter(Boolean).length
    return { pulled, missed: files.length - pulled }
  })
