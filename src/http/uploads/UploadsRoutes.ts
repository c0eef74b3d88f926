import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, type Layer, Schema } from "effect"
import { UploadId } from "../../core/Ids.js"
import { reading } from "../../database/Replica.js"
import * as Filename from "../../uploads/Filename.js"
import { Storage, stuckAfter } from "../../uploads/Storage.js"
import { stateOf, type Upload, uploadStates } from "../../uploads/Upload.js"
import { about, apiOf, pageLimits, pageQuery } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as WireText from "../WireText.js"

export const UploadsView = Schema.Struct({
  counts: Schema.Struct({
    waiting: Schema.Int,
    fetched: Schema.Int,
    acked: Schema.Int,
    expired: Schema.Int
  }).annotations({ description: "Each counted up to 100,000." }),
  stuck: Schema.Array(
    Schema.Struct({
      workspace: Schema.String,
      files: Schema.Int,
      bytes: Schema.Int,
      waitingSeconds: Schema.Number
    })
  ).annotations({ description: "Workspaces whose files have waited for an hour or longer, longest wait first." })
}).annotations({ identifier: "Uploads" })

export const FileView = Schema.Struct({
  id: UploadId,
  workspace: Schema.String,
  name: Schema.String.annotations({ description: "Safe on every system: letters, digits, `_`, `.` and `-`." }),
  originalName: Schema.String.annotations({ description: "The name as the client sent it, without its path." }),
  mimeType: Schema.String,
  size: Schema.Int,
  sha256: Schema.String,
  state: Schema.Literal(...uploadStates),
  createdAt: Instant.Moment,
  expiresAt: Instant.Moment,
  fetchedAt: Schema.NullOr(Instant.Moment),
  ackedAt: Schema.NullOr(Instant.Moment)
}).annotations({ identifier: "UploadedFile" })
export type FileView = typeof FileView.Type

export const group = HttpApiGroup.make("uploads")
  .add(
    HttpApiEndpoint.get("overview", "/uploads")
      .addSuccess(UploadsView)
      .annotateContext(about("Count files by state, and list workspaces that do not fetch theirs."))
  )
  .add(
    HttpApiEndpoint.get("files", "/uploads/files")
      .setUrlParams(
        Schema.Struct({
          state: WireText.optional(WireText.oneOf(uploadStates, "Only files in this state.")),
          workspace: WireText.optional(WireText.Text.annotations({ description: "Only files of this workspace." })),
          ...pageQuery
        }).annotations(WireText.strict)
      )
      .addSuccess(Schema.Struct({ files: Schema.Array(FileView), next: Schema.NullOr(Schema.String) }))
      .annotateContext(about("List files of all workspaces, newest first."))
  )

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
  fetchedAt: Instant.formatOrNull(upload.fetchedAt)
})

/** A file in responses to operators. */
const forOperators = (upload: Upload, now: number): FileView => {
  const { uri: _, ...file } = of(upload)
  const { ackedAt, workspace } = upload
  return { ...file, workspace, state: stateOf(upload, now), ackedAt: Instant.formatOrNull(ackedAt) }
}

export const layer: Layer.Layer<HttpApiGroup.ApiGroup<"nightshift", "uploads">, never, Storage> = HttpApiBuilder.group(
  apiOf(group),
  "uploads",
  (handlers) =>
    Effect.map(Storage, (storage) =>
      handlers
        .handle("overview", () =>
          Effect.gen(function* () {
            const counts = yield* storage.counts
            const stuck = yield* storage.stuck(stuckAfter)
            const now = yield* Clock.currentTimeMillis
            return {
              counts,
              stuck: stuck.map(({ oldest, ...workspace }) => ({ ...workspace, waitingSeconds: (now - oldest) / 1000 }))
            }
          })
        )
        .handle("files", ({ urlParams: { cursor, limit = pageLimits.default, ...filter } }) =>
          Effect.gen(function* () {
            const { next, uploads } = yield* reading(storage.browse(filter, { limit, cursor }))
            const now = yield* Clock.currentTimeMillis
            return { files: uploads.map((upload) => forOperators(upload, now)), next: next ?? null }
          })
        )
    )
)
