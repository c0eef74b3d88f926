import { Schema } from "effect"

/** The service cannot be reached; the request can be retried. */
export class ServiceUnreachable extends Schema.TaggedError<ServiceUnreachable>()("ServiceUnreachable", {
  url: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.url} cannot be reached: ${this.reason}.`
  }
}

/** The service rejected the request; a retry would not help. */
export class ServiceRefused extends Schema.TaggedError<ServiceRefused>()("ServiceRefused", {
  message: Schema.String
}) {}

/** The file expired or was acknowledged by another client. */
export class FileGone extends Schema.TaggedError<FileGone>()("FileGone", {}) {
  override get message(): string {
    return "It is not there any more."
  }
}

/** The downloaded content does not match its hash. */
export class FileDamaged extends Schema.TaggedError<FileDamaged>()("FileDamaged", { name: Schema.String }) {
  override get message(): string {
    return `${this.name} arrived damaged and was thrown away. It is fetched again at the next try.`
  }
}

/** The target folder cannot be read or written. */
export class FolderUnusable extends Schema.TaggedError<FolderUnusable>()("FolderUnusable", {
  folder: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Files cannot be kept in ${this.folder}: ${this.reason}.`
  }
}
