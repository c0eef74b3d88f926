import * as Filename from "../../uploads/Filename.js"
import { stateOf, type Upload } from "../../uploads/Upload.js"
import * as Instant from "../Instant.js"
import type { FileView } from "./UploadsContract.js"

/** A file as whoever brings it is told of it. */
export const ofNew = ({ filename, id, mimetype, sha256, size, workspace }: Upload) => ({
  id,
  uri: `nightshift-upload:${workspace}/${id}`,
  name: Filename.sanitize(filename),
  originalName: filename,
  mimeType: mimetype,
  size,
  sha256
})

/** A file as the workspace that is to fetch it sees it. */
export const of = (upload: Upload) => ({
  ...ofNew(upload),
  createdAt: Instant.format(upload.createdAt),
  expiresAt: Instant.format(upload.expiresAt),
  fetchedAt: upload.fetchedAt === undefined ? null : Instant.format(upload.fetchedAt)
})

/** A file as those who run the service see it. */
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
