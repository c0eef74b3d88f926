import { Either } from "effect"
import type { UploadId } from "../core/Ids.js"
import type { Workspace } from "../core/Workspace.js"
import * as Filename from "./Filename.js"
import { InvalidUpload, UploadTooLarge } from "./UploadErrors.js"

/** A file that waits for a workspace. Instants are epoch milliseconds. */
export interface Upload {
  readonly id: UploadId
  readonly workspace: Workspace
  /** As the client sent it, in any script: it may start with a dot and may hold spaces and quotes. */
  readonly filename: string
  readonly mimetype: string
  readonly size: number
  /** Of its content, in hexadecimal. */
  readonly sha256: string
  readonly createdAt: number
  readonly expiresAt: number
  readonly fetchedAt: number | undefined
  readonly ackedAt: number | undefined
}

/** Where a file is on its way: nobody came for it, it was fetched, its workspace has it, or nobody came in time. */
export const uploadStates = ["waiting", "fetched", "acked", "expired"] as const
export type UploadState = (typeof uploadStates)[number]

/** An acknowledged file has arrived, whenever it would have expired. */
export const stateOf = ({ ackedAt, expiresAt, fetchedAt }: Upload, now: number): UploadState => {
  if (ackedAt !== undefined) return "acked"
  if (expiresAt <= now) return "expired"
  return fetchedAt === undefined ? "waiting" : "fetched"
}

/** A file to be stored whose content is at hand. */
export interface NewUpload {
  readonly filename: string
  readonly mimetype: string
  readonly content: Uint8Array
}

/** A part of a content: both ends belong to it. */
export interface ByteRange {
  readonly first: number
  readonly last: number
}

/** How files are to be cut for the table. Content is read and written piece by piece, so memory holds a few of these. */
export const chunkBytes = 256 * 1024

/** Half a surrogate pair, which UTF-8 has no bytes for, and NUL, which PostgreSQL has none for. */
const unstorable = /\0|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/

const faultOfFilename = (filename: string): string | undefined => {
  if (filename === "") return "must not be empty"
  if (filename.length > Filename.mostCharacters) return `must be at most ${Filename.mostCharacters} characters long`
  return unstorable.test(filename) ? "must not contain NUL characters or unpaired surrogates" : undefined
}

/** Why this cannot be the name and type of a file, or nothing. */
export const faultOfNames = (
  { filename, mimetype }: Pick<NewUpload, "filename" | "mimetype">,
  index: number
): InvalidUpload | undefined => {
  const reason = faultOfFilename(filename)
  if (reason !== undefined) return new InvalidUpload({ index, field: "filename", reason })
  if (mimetype.length > 255 || unstorable.test(mimetype)) {
    return new InvalidUpload({ index, field: "mimetype", reason: "must be at most 255 storable characters long" })
  }
  return undefined
}

/** Lets all files through, or says of the first that may not pass why: nothing is written before this. */
export const admitAll = (
  files: ReadonlyArray<NewUpload>,
  maxFile: number
): Either.Either<ReadonlyArray<NewUpload>, InvalidUpload | UploadTooLarge> => {
  for (const [index, file] of files.entries()) {
    const fault = faultOfNames(file, index)
    if (fault !== undefined) return Either.left(fault)
    const size = file.content.byteLength
    if (size === 0) return Either.left(new InvalidUpload({ index, field: "content", reason: "must not be empty" }))
    if (size > maxFile) return Either.left(new UploadTooLarge({ filename: file.filename, size, max: maxFile }))
  }
  return Either.right(files)
}
