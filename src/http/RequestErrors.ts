import { Schema } from "effect"

/** The request is invalid. */
export class BadRequest extends Schema.TaggedError<BadRequest>()("BadRequest", {
  message: Schema.String,
  field: Schema.optional(Schema.String)
}) {}

export class BodyTooLarge extends Schema.TaggedError<BodyTooLarge>()("BodyTooLarge", { mostBytes: Schema.Int }) {
  override get message(): string {
    return `The body exceeds the limit of ${this.mostBytes} bytes. Split it into several requests.`
  }
}

/** The Content-Type or Content-Encoding is not supported. */
export class ContentTypeRefused extends Schema.TaggedError<ContentTypeRefused>()("ContentTypeRefused", {
  given: Schema.String
}) {
  override get message(): string {
    return `The body must be uncompressed application/json in UTF-8, got ${this.given}.`
  }
}

/** The credentials are missing or wrong. */
export class Unauthorized extends Schema.TaggedError<Unauthorized>()("Unauthorized", { message: Schema.String }) {}

/** The caller is known but lacks permission. */
export class Forbidden extends Schema.TaggedError<Forbidden>()("Forbidden", { message: Schema.String }) {}

/** Protects against DNS rebinding: another site's name may resolve to this machine. */
export class HostRefused extends Schema.TaggedError<HostRefused>()("HostRefused", {}) {
  override get message(): string {
    return "This service listens on loopback only, so the Host header must be localhost, 127.0.0.1 or [::1]."
  }
}

/** Protects against CSRF: only our own pages may make changes with the session cookie. */
export class CrossSiteRefused extends Schema.TaggedError<CrossSiteRefused>()("CrossSiteRefused", {}) {
  override get message(): string {
    return "A session cookie allows changes only from this service's own pages. Send a token instead."
  }
}

/** The caller exceeded its rate limit. */
export class TooManyRequests extends Schema.TaggedError<TooManyRequests>()("TooManyRequests", {
  seconds: Schema.Int
}) {
  override get message(): string {
    return `Too many requests. Try again in ${this.seconds} s.`
  }
}

/** The request timed out on the server. */
export class AnswerTooLate extends Schema.TaggedError<AnswerTooLate>()("AnswerTooLate", {
  seconds: Schema.Number
}) {
  override get message(): string {
    return `The request timed out after ${this.seconds} s; a change may have been made. Check before you retry.`
  }
}

/** No more live event streams can be opened. */
export class LiveRefused extends Schema.TaggedError<LiveRefused>()("LiveRefused", { reason: Schema.String }) {
  override get message(): string {
    return `Live events are not available: ${this.reason}. Try again later.`
  }
}

export class NotFound extends Schema.TaggedError<NotFound>()("NotFound", {
  method: Schema.String,
  path: Schema.String
}) {
  override get message(): string {
    return `No route matches ${this.method} ${this.path}.`
  }
}

/** The body arrived too slowly. */
export class RequestTimedOut extends Schema.TaggedError<RequestTimedOut>()("RequestTimedOut", {
  message: Schema.String
}) {}

/** The requested range starts after the end of the file. */
export class RangeRefused extends Schema.TaggedError<RangeRefused>()("RangeRefused", { size: Schema.Int }) {
  override get message(): string {
    return `The range starts after the end of the file, which has ${this.size} bytes.`
  }
}

/** The limit on concurrent uploads is reached. */
export class UploadsBusy extends Schema.TaggedError<UploadsBusy>()("UploadsBusy", {}) {
  override get message(): string {
    return "Too many uploads are in progress. Try again in a few seconds."
  }
}

/** No pod has registered the kind in UPLOADS_JOB_KIND. */
export class JobKindMissing extends Schema.TaggedError<JobKindMissing>()("JobKindMissing", { kind: Schema.String }) {
  override get message(): string {
    return `Uploads are not accepted: UPLOADS_JOB_KIND is "${this.kind}", a kind that no pod has registered. Start a pod that runs it, or change UPLOADS_JOB_KIND.`
  }
}

/** This process was started without a database. */
export class DatabaseOff extends Schema.TaggedError<DatabaseOff>()("DatabaseOff", {}) {
  override get message(): string {
    return "This process runs without a database, so queue, crew and uploads are off. Set DATABASE_URL or start with --embedded."
  }
}

export type RequestError =
  | BadRequest
  | BodyTooLarge
  | ContentTypeRefused
  | Unauthorized
  | Forbidden
  | HostRefused
  | CrossSiteRefused
  | TooManyRequests
  | AnswerTooLate
  | LiveRefused
  | NotFound
  | RequestTimedOut
  | RangeRefused
  | UploadsBusy
  | JobKindMissing
  | DatabaseOff
