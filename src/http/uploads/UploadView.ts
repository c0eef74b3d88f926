import * as Filename from "../../uploads/Filename.js"
import { stateOf, type Upload } from "../../uploads/Upload.js"
import * as Instant from "../Instant.js"
import type { FileView } from "./UploadsContract.js"

/** A file in the response to its upload. */
export const ofNew = ({ filename, id, mimetype, sha256, size, workspace }: Upload) => ({
  id,
  uri: `nightshift-upload:${workspace}/${id}`,
  name: Filename.sanitize(filename),
  originalName: filename,
  mimeType: mimetype,
  size,
  sha256
})

/** A file in responses to its workspace. */
export const of = (upload: Upload) => ({
  ...ofNew(upload),
  createdAt: Instant.format(upload.createdAt),
  expiresAt: Instant.format(upload.expiresAt),
  fetchedAt: upload.fetchedAt === undefined ? null : Instant.format(upload.fetchedAt)
})

/** A file in responses to operators. */
export const forOperators = (upload: Upload, now: number): FileView => ({
  id: upload.id,
  workspace: upload.workspace,
  name: Filename.sanitize(upload.filename),
  originalName: upload.filename,
  mimeType: upload.mimetype,
  size: upload.size,
  sha256: upload.sha256,
  state: stateOf(upload, now),
  createdAt: Instant.format(upload.createdAt),
  expiresAt: Instant.format(upload.expiresAt),
  fetchedAt: upload.fetchedAt === undefined ? null : Instant.format(upload.fetchedAt),
  ackedAt: upload.ackedAt === undefined ? null : Instant.format(upload.ackedAt)
})
