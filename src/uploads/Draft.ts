import { createHash } from "node:crypto"
import { Duration, Effect } from "effect"
import type { UploadId } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import { chunkBytes, type NewUpload } from "./Upload.js"
import { type DraftLost, InvalidUpload, UploadTooLarge } from "./UploadErrors.js"

/** A draft whose content has arrived completely. */
export interface WholeDraft {
  /** Id that the file has once it is published. */
  readonly id: UploadId
  /** Name as the client sent it. */
  readonly filename: string
  /** Media type that the client sent. */
  readonly mimetype: string
  /** Size of the content in bytes. */
  readonly size: number
  /** SHA-256 of the content, in hexadecimal. */
  readonly sha256: string
}

/** A file whose content is still arriving. */
export interface Draft {
  /** Id that the file has once it is published. */
  readonly id: UploadId

  /** Appends bytes, in the order of the calls. Fails before storing bytes that exceed the file size limit. */
  readonly append: (bytes: Uint8Array) => Effect.Effect<void, UploadTooLarge | DraftLost | DatabaseError>

  /** Completes the content. Fails if it is empty. */
  readonly end: Effect.Effect<WholeDraft, InvalidUpload | DraftLost | DatabaseError>
}

/**
 * Lifetime of a draft in milliseconds. Longer than the request that writes it, with a margin for clock skew between
 * pods.
 */
export const lifetime = (requestTimeout: Duration.Duration): number =>
  2 * Duration.toMillis(requestTimeout) + Duration.toMillis("10 minutes")

export interface DraftOptions {
  readonly id: UploadId
  readonly file: Pick<NewUpload, "filename" | "mimetype">
  readonly index: number
  readonly maxFile: number
  /** Stores a chunk. The caller reuses the buffer afterwards. */
  readonly store: (n: number, bytes: Buffer) => Effect.Effect<void, DraftLost | DatabaseError>
}

/**
 * Splits the content into chunks, and hashes and counts it. Uses one buffer per draft, whatever the size of the pieces.
 */
export const make = ({ file, id, index, maxFile, store }: DraftOptions): Draft => {
  const hash = createHash("sha256")
  let buffer: Buffer | undefined
  let filled = 0
  let size = 0
  let stored = 0

  const flush = Effect.suspend(() => {
    const bytes = buffer?.subarray(0, filled)
    if (bytes === undefined || filled === 0) return Effect.void
    return Effect.map(store(stored, bytes), () => {
      stored += 1
      filled = 0
    })
  })

  const fill = (bytes: Uint8Array): number => {
    buffer ??= Buffer.allocUnsafe(chunkBytes)
    const taken = Math.min(bytes.byteLength, chunkBytes - filled)
    buffer.set(bytes.subarray(0, taken), filled)
    filled += taken
    return taken
  }

  return {
    id,
    // Runs for every piece of a body; most pieces only fill the buffer.
    append: (bytes) =>
      Effect.suspend((): ReturnType<Draft["append"]> => {
        size += bytes.byteLength
        if (size > maxFile) return new UploadTooLarge({ filename: file.filename, size, max: maxFile })
        hash.update(bytes)
        let taken = fill(bytes)
        if (filled < chunkBytes) return Effect.void
        return Effect.whileLoop({
          while: () => filled === chunkBytes,
          body: () => flush,
          step: () => {
            taken += fill(bytes.subarray(taken))
          }
        })
      }),
    end: Effect.gen(function* () {
      if (size === 0) return yield* new InvalidUpload({ index, field: "content", reason: "must not be empty" })
      yield* flush
      buffer = undefined
      return { id, ...file, size, sha256: hash.digest("hex") }
    })
  }
}
