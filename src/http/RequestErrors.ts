import { Schema } from "effect"

/** The request itself is wrong, before anything was asked of the queue. */
export class BadRequest extends Schema.TaggedError<BadRequest>()("BadRequest", {
  message: Schema.String,
  field: Schema.optional(Schema.String)
}) {}

/** Read no further than this. */
export class BodyTooLarge extends Schema.TaggedError<BodyTooLarge>()("BodyTooLarge", { mostBytes: Schema.Int }) {
  override get message(): string {
    return `The body is larger than ${this.mostBytes} bytes. Send it in several requests.`
  }
}

/** The body says of itself that it is not JSON. */
export class ContentTypeRefused extends Schema.TaggedError<ContentTypeRefused>()("ContentTypeRefused", {
  given: Schema.String
}) {
  override get message(): string {
    return `The body must be application/json in UTF-8 and not compressed, not ${this.given}.`
  }
}

/** Nobody we know. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", { message: Schema.String }) {}

/** Somebody we know, who may not do this. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", { message: Schema.String }) {}

/** A page of another site may have resolved its own name to this machine, to speak in its visitor's name. */
export class HostRefused extends Schema.TaggedError<HostRefused>()("HostRefused", {}) {
  override get message(): string {
    return "This service listens on loopback only, so the Host header must be localhost, 127.0.0.1 or [::1]."
  }
}

export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", {
  method: Schema.String,
  path: Schema.String
}) {
  override get message(): string {
    return `There is nothing at ${this.method} ${this.path}.`
  }
}

/** This process was started without a database. */
export class DatabaseOff extends Schema.TaggedError<DatabaseOff>()("DatabaseOff", {}) {
  override get message(): string {
    return "This process runs without a database, so queue, crew and uploads are off. Set DATABASE_URL or add --embedded."
  }
}

export type RequestError =
  | BadRequest
  | BodyTooLarge
  | ContentTypeRefused
  | Unauthorized
  | Forbidden
  | HostRefused
  | NotFound
  | DatabaseOff
