import type { Upload } from "../../uploads/Upload.js"
import * as Instant from "../Instant.js"

/** A file as whoever brings it is told of it. */
export const ofNew = ({ filename, id, mimetype, sha256, size, workspace }: Upload) => ({
  id,
  uri: `nightshift-upload:${workspace}/${id}`,
  name: filename,
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
