import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { UploadId } from "../../core/Ids.js"
import { uploadStates } from "../../uploads/Upload.js"
import { Moment, pageQuery, problem } from "../Contract.js"
import * as WireText from "../WireText.js"

const UploadsView = Schema.Struct({
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

const UploadState = Schema.Literal(...uploadStates).annotations(
  WireText.said(`must be one of ${uploadStates.join(", ")}`)
)

const FileView = Schema.Struct({
  id: UploadId,
  workspace: Schema.String,
  name: Schema.String.annotations({ description: "Safe on every system: letters, digits, `_`, `.` and `-`." }),
  originalName: Schema.String.annotations({ description: "The name as the client sent it, without its path." }),
  mimeType: Schema.String,
  size: Schema.Int,
  sha256: Schema.String,
  state: Schema.Literal(...uploadStates),
  createdAt: Moment,
  expiresAt: Moment,
  fetchedAt: Schema.NullOr(Moment),
  ackedAt: Schema.NullOr(Moment)
}).annotations({ identifier: "UploadedFile" })
export type FileView = typeof FileView.Type

export const group = HttpApiGroup.make("uploads")
  .add(
    HttpApiEndpoint.get("overview", "/uploads")
      .addSuccess(UploadsView)
      .annotateContext(
        OpenApi.annotations({ description: "Count files by state, and list workspaces that do not fetch theirs." })
      )
  )
  .add(
    HttpApiEndpoint.get("files", "/uploads/files")
      .setUrlParams(
        Schema.Struct({
          state: WireText.optional(UploadState),
          workspace: WireText.optional(WireText.Text),
          ...pageQuery
        }).annotations(WireText.strict)
      )
      .addSuccess(Schema.Struct({ files: Schema.Array(FileView), next: Schema.NullOr(Schema.String) }))
      .addError(problem(400))
      .annotateContext(OpenApi.annotations({ description: "List files of all workspaces, newest first." }))
  )
