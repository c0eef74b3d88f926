import { type ParseResult, Predicate, Schema } from "effect"
import { type Answer, Expected } from "../core/ExpectedError.js"
import { jobPrefix } from "../core/InvalidJob.js"
import { fieldOf } from "../core/JsonNumbers.js"

/** The request is invalid. */
export class BadRequest extends Expected<BadRequest>(400)("BadRequest", {
  message: Schema.String,
  field: Schema.optional(Schema.String)
}) {}

export class BodyTooLarge extends Expected<BodyTooLarge>(413)("BodyTooLarge", { maxBytes: Schema.Int }) {
  override get message(): string {
    return `The body exceeds the limit of ${this.maxBytes} bytes. Split it into several requests.`
  }
}

/** The Content-Type or Content-Encoding is not supported. */
export class ContentTypeRefused extends Expected<ContentTypeRefused>(415)("ContentTypeRefused", {
  given: Schema.String
}) {
  override get message(): string {
    return `The body must be uncompressed application/json in UTF-8, got ${this.given}.`
  }
}

/** The credentials are missing or wrong. */
export class Unauthorized extends Expected<Unauthorized>(401, { headers: { "www-authenticate": "Bearer" } })(
  "Unauthorized",
  { message: Schema.String }
) {}

/** The caller is known but lacks permission. */
export class Forbidden extends Expected<Forbidden>(403)("Forbidden", { message: Schema.String }) {}

/** A request of another cell's service that is not for this cell, or that would have to be forwarded again. */
export class Misdirected extends Expected<Misdirected>(421)("Misdirected", { message: Schema.String }) {}

/** Protects against DNS rebinding: another site's name may resolve to this machine. */
export class HostRefused extends Expected<HostRefused>(403)("HostRefused", {}) {
  override get message(): string {
    return "This server listens on loopback only, so the Host header must be localhost, 127.0.0.1 or [::1]. Let a proxy send one of them, or listen on another address with HOST (in a worker: health.host or NIGHTSHIFT_WORKER_HOST)."
  }
}

/** Protects against CSRF: only our own pages may make changes with a cookie, ours or that of the app around us. */
export class CrossSiteRefused extends Expected<CrossSiteRefused>(403)("CrossSiteRefused", {}) {
  override get message(): string {
    return "Changes with a browser login must come from Mission Control's own pages. In a program, send a token to `nightshift serve` instead."
  }
}

/** The caller exceeded its rate limit. */
export class TooManyRequests extends Expected<TooManyRequests>(429)("TooManyRequests", { seconds: Schema.Int }) {
  override get message(): string {
    return `Too many requests. Try again in ${this.seconds} s.`
  }

  override get answer(): Answer {
    return { ...TooManyRequests.answer, headers: { "retry-after": String(this.seconds) } }
  }
}

/** No pod has registered this kind. */
export class KindNotFound extends Expected<KindNotFound>(404)("KindNotFound", { kind: Schema.String }) {
  override get message(): string {
    return `No process has registered the kind "${this.kind}". Start a process with a handler for it.`
  }
}

/** The request timed out on the server. */
export class ResponseTimeout extends Expected<ResponseTimeout>(503)("ResponseTimeout", { seconds: Schema.Number }) {
  override get message(): string {
    return `The request timed out after ${this.seconds} s; a change may have been made. Check before you retry.`
  }
}

/** The change was not made in the time that the caller allowed. */
export class DeadlinePassed extends Expected<DeadlinePassed>(412)("DeadlinePassed", { seconds: Schema.Int }) {
  override get message(): string {
    return `The deadline in X-Deadline passed ${this.seconds} s ago, so nothing was changed. Check that the service and its database respond, then try again.`
  }
}

/** The database failed while an ask was stored or awaited. A second ask with its id calls the handler at most once. */
export class AskInterrupted extends Expected<AskInterrupted>(503, {
  headers: { "retry-after": "1" },
  logged: true
})("AskInterrupted", {
  execution: Schema.String,
  name: Schema.String,
  id: Schema.String,
  detail: Schema.String
}) {
  override get message(): string {
    return `${this.answer.message} ${this.detail}`
  }

  override get answer(): Answer {
    return {
      ...AskInterrupted.answer,
      message: `The database failed before execution "${this.execution}" answered the ask "${this.name}". The ask may be stored. Repeat the request with the id "${this.id}" to get the answer; the handler runs at most once.`
    }
  }
}

/** No more live event streams can be opened. */
export class EventsUnavailable extends Expected<EventsUnavailable>(503, { headers: { "retry-after": "10" } })(
  "EventsUnavailable",
  {
    reason: Schema.String
  }
) {
  override get message(): string {
    return `Live events are not available: ${this.reason}. Try again later.`
  }
}

/** The process is stopping and claims no more jobs, for remote workers neither. */
export class ClaimsRefused extends Expected<ClaimsRefused>(503, { headers: { "retry-after": "1" } })(
  "ClaimsRefused",
  {}
) {
  override get message(): string {
    return "This process is shutting down and hands out no more jobs. Repeat the request: another process answers it, or this one after its restart."
  }
}

export class NotFound extends Expected<NotFound>(404)("NotFound", {
  method: Schema.String,
  path: Schema.String
}) {
  override get message(): string {
    return `No route matches ${this.method} ${this.path}. GET /api/v1/openapi.json describes all routes.`
  }
}

/** The body arrived too slowly. */
export class RequestTimedOut extends Expected<RequestTimedOut>(408)("RequestTimedOut", { message: Schema.String }) {}

/** The requested range starts after the end of the file. */
export class RangeRefused extends Expected<RangeRefused>(416)("RangeRefused", { bytes: Schema.Int }) {
  override get message(): string {
    return `The range starts after the end of the file. The file has ${this.bytes} bytes.`
  }

  override get answer(): Answer {
    return { ...RangeRefused.answer, headers: { "content-range": `bytes */${this.bytes}` } }
  }
}

/** The limit on concurrent uploads is reached. */
export class UploadsBusy extends Expected<UploadsBusy>(503, { headers: { "retry-after": "5" } })("UploadsBusy", {}) {
  override get message(): string {
    return "Too many uploads are in progress. Try again in a few seconds."
  }
}

/** No pod has registered the kind in UPLOADS_JOB_KIND. */
export class JobKindMissing extends Expected<JobKindMissing>(503, { headers: { "retry-after": "30" }, logged: true })(
  "JobKindMissing",
  { kind: Schema.String }
) {
  override get message(): string {
    return `Uploads are not accepted: UPLOADS_JOB_KIND is "${this.kind}", a kind that no process has registered. Start a process with a handler for it, or change UPLOADS_JOB_KIND.`
  }
}

/** This process was started without a database. */
export class DatabaseOff extends Expected<DatabaseOff>(503)("DatabaseOff", {}) {
  override get message(): string {
    return "This process runs without a database, so queues, workers and uploads are off. Set DATABASE_URL, or start it with --embedded."
  }
}

type Issue = Pick<ParseResult.ArrayFormatterIssue, "_tag" | "path" | "message">

/** The fields that a schema knows, from Effect's message about one that it does not: `…, expected: "a" | "b"`. */
const knownFields = (message: string): ReadonlyArray<string> =>
  [...message.slice(message.indexOf("expected: ")).matchAll(/"([^"]+)"/g)].map(([, name = ""]) => name)

const reasonOf = ({ _tag, message }: Issue): string => {
  if (_tag === "Missing") return "is missing"
  if (_tag === "Unexpected") return `is not a known field. The known ones are ${knownFields(message).join(", ")}`
  return message
}

/** Makes the error for a field of the body, with the same wording as the queue's `InvalidJob`. */
export const faultAt = (path: ReadonlyArray<PropertyKey>, reason: string, body: unknown = undefined): BadRequest => {
  const [first, index, ...rest] = path
  if (path.length === 0) return new BadRequest({ message: `The body ${reason}.` })
  const field = fieldOf(path)
  if (first !== "jobs" || typeof index !== "number") return new BadRequest({ message: `${field} ${reason}.`, field })
  const named = rest.length === 0 ? "it" : fieldOf(rest)
  return new BadRequest({ message: `${jobPrefix({ index, jobs: jobsIn(body) ?? 2 })}${named} ${reason}.`, field })
}

/** Number of jobs in the body; undefined if it has no list of jobs. */
export const jobsIn = (body: unknown): number | undefined =>
  Predicate.hasProperty(body, "jobs") && Array.isArray(body.jobs) ? body.jobs.length : undefined

/** Reports the first issue, which is the only one: decoding stops there. */
export const faultOfIssues = (issues: ReadonlyArray<Issue>, body?: unknown): BadRequest => {
  const [issue] = issues
  if (issue === undefined) return new BadRequest({ message: "The request does not match this route's schema." })
  return faultAt(issue.path, reasonOf(issue), body)
}
