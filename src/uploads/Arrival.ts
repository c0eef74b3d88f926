import { Schema } from "effect"
import { UploadId, Workspace } from "../core/Ids.js"
import * as Filename from "./Filename.js"
import type { Upload } from "./Upload.js"

/** The payload of the job enqueued for each arrived file if UPLOADS_JOB_KIND is set. */
export const Arrival = Schema.Struct({
  fileId: UploadId,
  workspace: Workspace,
  /** Safe on every system: letters, digits, `_`, `.` and `-`. */
  name: Schema.String,
  /** The name as the client sent it, without its path. Jobs stored by earlier versions do not have it. */
  originalName: Schema.optional(Schema.String),
  mimeType: Schema.String,
  size: Schema.Int,
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
