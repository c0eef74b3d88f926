import { Schema } from "effect"

/** The service cannot be asked at this moment. */
export class ServiceUnreachable extends Schema.TaggedError<ServiceUnreachable>()("ServiceUnreachable", {
  url: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.url} cannot be reached: ${this.reason}.`
  }
}

/** The service does not let us do this, and asking again would not change it. */
export class ServiceRefused extends Schema.TaggedError<ServiceRefused>()("ServiceRefused", {
  message: Schema.String
}) {}

/** The file is not there any more: it expired, or somebody else has it. */
export class FileGone extends Schema.TaggedError<FileGone>()("FileGone", {}) {
  override get message(): string {
    return "It is not there any more."
  }
}

/** What came is not what was sent. */
export class FileDamaged extends Schema.TaggedError<FileDamaged>()("FileDamaged", { name: Schema.String }) {
  override get message(): string {
    return `${this.name} arrived damaged and was thrown away. It is fetched again at the next try.`
  }
}

/** The folder cannot be used. */
export class FolderUnusable extends Schema.TaggedError<FolderUnusable>()("FolderUnusable", {
  folder: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `Files cannot be kept in ${this.folder}: ${this.reason}.`
  }
}
