import type { UploadId, Workspace } from "../core/Ids.js"
import type { Upload } from "./Upload.js"

export interface UploadRow {
  readonly file_id: UploadId
  readonly workspace_id: Workspace
  readonly filename: string
  readonly mimetype: string
  readonly size_bytes: number
  readonly sha256: string
  readonly chunk_bytes: number
  readonly created_at: number
  readonly expires_at: number
  readonly fetched_at: number | null
  readonly acked_at: number | null
}

export const toUpload = (row: UploadRow): Upload => ({
  id: row.file_id,
  workspace: row.workspace_id,
  filename: row.filename,
  mimetype: row.mimetype,
  size: row.size_bytes,
  sha256: row.sha256,
  createdAt: row.created_at,
  expiresAt: row.expires_at,
  fetchedAt: row.fetched_at ?? undefined,
  ackedAt: row.acked_at ?? undefined
})
