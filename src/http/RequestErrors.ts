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

/** A browser sends its cookie along whichever page asks; only our own pages may make it change something. */
export class CrossSiteRefused extends Schema.TaggedError<CrossSiteRefused>()("CrossSiteRefused", {}) {
  override get message(): string {
    return "A login counts for changes only when a page of this very service asks for them. Send a token instead."
  }
}

/** Faster than this is not taken. */
export class TooManyRequests extends Schema.TaggedError<TooManyRequests>()("TooManyRequests", {
  seconds: Schema.Int
}) {
  override get message(): string {
    return `Too many requests. Try again in ${this.seconds} s.`
  }
}

/** It took too long, and was given up. */
export class AnswerTooLate extends Schema.TaggedError<AnswerTooLate>()("AnswerTooLate", {
  seconds: Schema.Number
}) {
  override get message(): string {
    return `This took longer than ${this.seconds} s and was given up; a change may have been made. Look before trying again.`
  }
}

/** Nobody more can follow live events, now. */
export class LiveRefused extends Schema.TaggedError<LiveRefused>()("LiveRefused", { reason: Schema.String }) {
  override get message(): string {
    return `Live events cannot be followed now: ${this.reason}. Try again later.`
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

/** The body comes too slowly to wait for it any longer. */
export class RequestTimedOut extends Schema.TaggedError<RequestTimedOut>()("RequestTimedOut", {
  message: Schema.String
}) {}

/** The part that was asked for begins after the end. */
export class RangeRefused extends Schema.TaggedError<RangeRefused>()("RangeRefused", { size: Schema.Int }) {
  override get message(): string {
    return `The file has ${this.size} bytes, and the range begins after them.`
  }
}

/** As many files are on their way in as this process takes at once. */
export class UploadsBusy extends Schema.TaggedError<UploadsBusy>()("UploadsBusy", {}) {
  override get message(): string {
    return "Too many files are being uploaded at this moment. Try again in a few seconds."
  }
}

/** Files are to become jobs of a kind that no pod has registered. */
export class JobKindMissing extends Schema.TaggedError<JobKindMissing>()("JobKindMissing", { kind: Schema.String }) {
  override get message(): string {
    return `No file can be taken in: each is to become a job of the kind "${this.kind}", which no pod has registered. Start one that serves it, or change UPLOADS_JOB_KIND.`
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
