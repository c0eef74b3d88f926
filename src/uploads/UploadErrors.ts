import { Schema } from "effect"
import * as BytesText from "../core/BytesText.js"
import { type Answer, Expected } from "../core/ExpectedError.js"

/** A file with an invalid name, type or content. */
export class InvalidUpload extends Expected<InvalidUpload>(400)("InvalidUpload", {
  /** Index of the file in the request, from 0. */
  index: Schema.Int,
  /** Which part of the file is invalid. */
  field: Schema.Literal("filename", "mimetype", "content"),
  /** What is wrong with it, as the end of a sentence. */
  reason: Schema.String
}) {
  override get message(): string {
    return `File ${this.index}: ${this.field} ${this.reason}.`
  }

  override get answer(): Answer {
    return { ...InvalidUpload.answer, field: `files[${this.index}].${this.field}` }
  }
}

/** A file exceeds the size limit. */
export class UploadTooLarge extends Expected<UploadTooLarge>(413)("UploadTooLarge", {
  /** Name of the file that is too large. */
  filename: Schema.String,
  /** Bytes received when the file was rejected. */
  size: Schema.Int,
  /** Limit for one file, in bytes. */
  max: Schema.Int
}) {
  override get message(): string {
    return `${this.filename} is larger than ${BytesText.format(this.max)}, the limit for one file.`
  }
}

/** The files of a request exceed the size limit of a request. */
export class RequestTooLarge extends Expected<RequestTooLarge>(413)("RequestTooLarge", {
  /** The file that exceeded the limit. */
  filename: Schema.String,
  size: Schema.Int,
  max: Schema.Int
}) {
  override get message(): string {
    return `With ${this.filename} the files exceed ${BytesText.format(this.max)}, the limit for one request. Send them in several requests.`
  }
}

/** The workspace's quota is exhausted. */
export class QuotaExceeded extends Expected<QuotaExceeded>(413)("QuotaExceeded", {
  /** Workspace whose quota is exhausted. */
  workspace: Schema.String,
  /** Bytes that the workspace stored before the request. */
  kept: Schema.Int,
  /** Bytes that the request would add. */
  size: Schema.Int,
  /** Most bytes that the workspace may store. */
  max: Schema.Int
}) {
  override get message(): string {
    return `This workspace uses ${BytesText.format(this.kept)} of its ${BytesText.format(this.max)} quota. Acknowledge files and retry after they have been swept.`
  }
}

/** The workspace has no such file: it never existed, belongs to another workspace, expired or was swept. */
export class UploadNotFound extends Expected<UploadNotFound>(404)("UploadNotFound", {
  /** Id that was looked up. */
  id: Schema.String
}) {
  override get message(): string {
    return "The file does not exist, has expired or was deleted."
  }
}

/** The draft expired before its content was complete, and the sweeper deleted it; or the database lost a part of it in a crash. */
export class DraftLost extends Expected<DraftLost>(408)("DraftLost", {}) {
  override get message(): string {
    return "The upload took too long or the database crashed during it, so its files were discarded. Send them again."
  }
}
