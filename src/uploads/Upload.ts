import { Either } from "effect"
import type { UploadId, Workspace } from "../core/Ids.js"
import { faultOfText, isUnstorable } from "../core/Storable.js"
import * as Filename from "./Filename.js"
import { InvalidUpload, UploadTooLarge } from "./UploadErrors.js"

/** A published file. Times are epoch milliseconds. */
export interface Upload {
  /** UUID under which the workspace fetches and acknowledges the file. */
  readonly id: UploadId
  /** Workspace that the file belongs to. */
  readonly workspace: Workspace
  /** As the client sent it, in any script. May start with a dot and contain spaces and quotes. */
  readonly filename: string
  /** Media type that the client sent. */
  readonly mimetype: string
  /** Size of the content in bytes. */
  readonly size: number
  /** SHA-256 of the content, in hexadecimal. */
  readonly sha256: string
  /** When the file was published. */
  readonly createdAt: number
  /** When the file is deleted if the workspace has not acknowledged it. */
  readonly expiresAt: number
  /** When the file was last downloaded. */
  readonly fetchedAt: number | undefined
  /** When the workspace first acknowledged the file. */
  readonly ackedAt: number | undefined
}

/**
 * waiting: not fetched yet; fetched: downloaded, not acknowledged; acked: acknowledged by the workspace; expired: not
 * acknowledged in time.
 */
export const uploadStates = ["waiting", "fetched", "acked", "expired"] as const
export type UploadState = (typeof uploadStates)[number]

/** Acknowledged takes precedence over expired. */
export const stateOf = ({ ackedAt, expiresAt, fetchedAt }: Upload, now: number): UploadState => {
  if (ackedAt !== undefined) return "acked"
  if (expiresAt <= now) return "expired"
  return fetchedAt === undefined ? "waiting" : "fetched"
}

/** A file to store, with its content in memory. */
export interface NewUpload {
  /** Name without a path, in any script. */
  readonly filename: string
  /** Media type, such as `application/pdf`. */
  readonly mimetype: string
  /** The bytes of the file. An empty file is rejected. */
  readonly content: Uint8Array
}

/** A range of bytes, both ends inclusive. */
export interface ByteRange {
  /** Offset of the first byte, from 0. */
  readonly first: number
  /** Offset of the last byte, which is included. */
  readonly last: number
}

/** Size of a stored chunk. Content is read and written chunk by chunk, so memory holds only a few. */
export const chunkBytes = 256 * 1024

/** Returns why the file name or MIME type is invalid, or undefined. */
export const faultOfNames = (
  { filename, mimetype }: Pick<NewUpload, "filename" | "mimetype">,
  index: number
): InvalidUpload | undefined => {
  const reason = faultOfText(filename, Filename.maxCharacters)
  if (reason !== undefined) return new InvalidUpload({ index, field: "filename", reason })
  if (mimetype.length > 255 || isUnstorable(mimetype)) {
    return new InvalidUpload({
      index,
      field: "mimetype",
      reason: "must be at most 255 characters long and must not contain NUL characters or unpaired surrogates"
    })
  }
  return undefined
}

/** Validates all files before anything is written. Fails with the first invalid one. */
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

const unknownMimeType = "application/octet-stream"

const mimeTypeForm = /^[a-z0-9!#$&^_.+-]{1,127}\/[a-z0-9!#$&^_.+-]{1,127}$/

/**
 * Returns the lower-case `type/subtype` without parameters, or `application/octet-stream` if the value is malformed.
 */
export const stripMimeType = (given: string): string => {
  const essence = given.slice(0, 256).split(";")[0]?.trim().toLowerCase() ?? ""
  return mimeTypeForm.test(essence) ? essence : unknownMimeType
}
