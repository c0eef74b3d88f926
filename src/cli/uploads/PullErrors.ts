import { Schema } from "effect"

/** The service cannot be reached; the request can be retried. */
export class ServiceUnreachable extends Schema.TaggedError<ServiceUnreachable>()("ServiceUnreachable", {
  url: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.url} is not reachable: ${this.reason}.`
  }
}

/** The service rejected the request; a retry would not help. */
export class ServiceRefused extends Schema.TaggedError<ServiceRefused>()("ServiceRefused", {
  message: Schema.String
}) {}

/** The file expired or was acknowledged by another client. */
export class FileGone extends Schema.TaggedError<FileGone>()("FileGone", {}) {
  override get message(): string {
    return "The file expired or was already acknowledged."
  }
}

/** The downloaded content does not match its hash. */
export class FileDamaged extends Schema.TaggedError<FileDamaged>()("FileDamaged", { name: Schema.String }) {
  override get message(): string {
    return `${this.name} did not match its hash and was discarded. The next round fetches it again.`
  }
}

/** The target folder cannot be read or written. */
export class FolderUnusable extends Schema.TaggedError<FolderUnusable>()("FolderUnusable", {
  folder: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Cannot store files in ${this.folder}: ${this.reason}.`
  }
}
