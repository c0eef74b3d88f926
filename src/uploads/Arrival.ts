import { Schema } from "effect"
import { UploadId, Workspace } from "../core/Ids.js"
import * as Filename from "./Filename.js"
import type { Upload } from "./Upload.js"

/** The payload of the job enqueued for each arrived file if UPLOADS_JOB_KIND is set. */
export const Arrival = Schema.Struct({
  /** Id of the file in the upload inbox. */
  fileId: UploadId,
  /** Workspace that the file belongs to. */
  workspace: Workspace,
  /** Name that is safe on every system: letters, digits, `_`, `.` and `-`. */
  name: Schema.String,
  /** The name as the client sent it, without its path. Jobs stored by earlier versions do not have it. */
  originalName: Schema.optional(Schema.String),
  /** Media type that the client sent. */
  mimeType: Schema.String,
  /** Size of the content in bytes. */
  size: Schema.Int,
  /** SHA-256 of the content, in hexadecimal. */
  sha256: Schema.String
})
export type Arrival = typeof Arrival.Type

export const of = ({ filename, id, mimetype, sha256, size, workspace }: Upload): Arrival => ({
  fileId: id,
  workspace,
  name: Filename.sanitize(filename),
  originalName: filename,
  mimeType: mimetype,
  size,
  sha256
})
