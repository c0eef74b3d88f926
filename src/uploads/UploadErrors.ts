import { Schema } from "effect"
import * as BytesText from "../core/BytesText.js"

/** A file that cannot be stored as it is. */
export class InvalidUpload extends Schema.TaggedError<InvalidUpload>()("InvalidUpload", {
  /** Its place among the files of the request, from 0. */
  index: Schema.Int,
  field: Schema.Literal("filename", "mimetype", "content"),
  reason: Schema.String
}) {
  override get message(): string {
    return `File ${this.index}: ${this.field} ${this.reason}.`
  }
}

/** A file larger than one may be. */
export class UploadTooLarge extends Schema.TaggedError<UploadTooLarge>()("UploadTooLarge", {
  filename: Schema.String,
  /** How much of it had come when it was refused. */
  size: Schema.Int,
  max: Schema.Int
}) {
  override get message(): string {
    return `${this.filename} is larger than the ${BytesText.format(this.max)} that one file may hold.`
  }
}

/** All files of a request together are larger than they may be. */
export class RequestTooLarge extends Schema.TaggedError<RequestTooLarge>()("RequestTooLarge", {
  /** The file that went over it. */
  filename: Schema.String,
  size: Schema.Int,
  max: Schema.Int
}) {
  override get message(): string {
    return `With ${this.filename} the files are larger than the ${BytesText.format(this.max)} that one request may hold. Send them in several.`
  }
}

/** There is no room for more files of this workspace. */
export class QuotaExceeded extends Schema.TaggedError<QuotaExceeded>()("QuotaExceeded", {
  workspace: Schema.String,
  /** What is kept already, and what was to be added. */
  kept: Schema.Int,
  size: Schema.Int,
  max: Schema.Int
}) {
  override get message(): string {
    return `Of the ${BytesText.format(this.max)} that are kept for this workspace, ${BytesText.format(this.kept)} are in use. Room comes back some time after files are acknowledged.`
  }
}

/** No file of this id waits for the workspace: there never was one, it is another's, it has expired, or it was swept. */
export class UploadNotFound extends Schema.TaggedError<UploadNotFound>()("UploadNotFound", { id: Schema.String }) {
  override get message(): string {
    return "There is no such file, or not any more."
  }
}

/** The content took so long to arrive that it was taken for a leftover. */
export class DraftLost extends Schema.TaggedError<DraftLost>()("DraftLost", {}) {
  override get message(): string {
    return "The files took too long to arrive and were given up. Send them again."
  }
}
