import { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import { RouteNotFound } from "@effect/platform/HttpServerError"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Cause, Clock, Context, Effect, Match, Option, Schema } from "effect"
import type { IdempotencyKeyBusy, IdempotencyKeyReused } from "../access/Idempotency.js"
import type { TooManyViews, ViewExists, ViewNotFound } from "../access/SavedViews.js"
import type { TokenNotFound } from "../access/Tokens.js"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { RepeatedLines } from "../core/RepeatedLines.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { InvalidLimit, UnknownScope } from "../limits/Limit.js"
import type { TooMuchToMerge } from "../measures/MinuteBuckets.js"
import type { TooManyPoints } from "../measures/TimeGrid.js"
import type { FilterRefused } from "../queue/admin/OperationScope.js"
import type { OperationNotFound, OperationNotUndoable } from "../queue/admin/Operations.js"
import type { BatchClosed, BatchNotFound, InvalidBatch } from "../queue/batch/Batches.js"
import type { KindRefused } from "../queue/enqueue/JobRequests.js"
import type {
  DedupeKeyHeld,
  JobIdTaken,
  JobNotFound,
  JobNotInState,
  QueueFull,
  UndoRefused,
  UnknownKind
} from "../queue/JobErrors.js"
import type { BadCursor, SearchTooSlow } from "../queue/search/JobSearch.js"
import type { InvalidSetting, QueueNotFound } from "../queue/settings/QueueSettings.js"
import type {
  ExecutionExists,
  ExecutionNotFound,
  InvalidStep,
  NotAWorkflow,
  StepNotFound
} from "../queue/workflow/WorkflowErrors.js"
import type { PreviousRunActive } from "../schedule/ScheduledJobs.js"
import type { InvalidSchedule, ScheduleExists, ScheduleNotFound } from "../schedule/ScheduleErrors.js"
import type {
  DraftLost,
  InvalidUpload,
  QuotaExceeded,
  RequestTooLarge,
  UploadNotFound,
  UploadTooLarge
} from "../uploads/UploadErrors.js"
import { faultOfIssues, NotFound, type RequestError } from "./RequestErrors.js"

/** The body of every error response. */
export const Body = Schema.Struct({
  error: Schema.Struct({
    tag: Schema.String.annotations({ description: "Error code, for programs." }),
    message: Schema.String.annotations({ description: "What failed and what to do, for people." }),
    field: Schema.optional(Schema.String.annotations({ description: "The invalid field, such as jobs[2].priority." })),
    filename: Schema.optional(Schema.String.annotations({ description: "The rejected file." })),
    size: Schema.optional(Schema.Int.annotations({ description: "Actual size in bytes." })),
    max: Schema.optional(Schema.Int.annotations({ description: "Maximum size in bytes." }))
  })
}).annotations({ identifier: "Problem" })

/** Optional fields of an error response. */
type ErrorDetails = Partial<Omit<typeof Body.Type.error, "tag" | "message">>

/** Makes an error response: a tag for programs, a message for people and optional details. */
export const respond = (
  status: number,
  tag: string,
  message: string,
  details: ErrorDetails = {}
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson({ error: { tag, message, ...details } }, { status })

/** Every expected failure of a route. */
export type ExpectedError =
  | RequestError
  | InvalidJob
  | JobIdTaken
  | QueueFull
  | QueueNotFound
  | InvalidSetting
  | JobNotFound
  | JobNotInState
  | DedupeKeyHeld
  | UndoRefused
  | OperationNotUndoable
  | KindRefused
  | BadCursor
  | UnknownKind
  | InvalidSchedule
  | ScheduleExists
  | ScheduleNotFound
  | PreviousRunActive
  | InvalidLimit
  | UnknownScope
  | TooManyPoints
  | TooMuchToMerge
  | TokenNotFound
  | ViewNotFound
  | ViewExists
  | TooManyViews
  | InvalidUpload
  | UploadTooLarge
  | RequestTooLarge
  | QuotaExceeded
  | UploadNotFound
  | DraftLost
  | SearchTooSlow
  | FilterRefused
  | OperationNotFound
  | BatchNotFound
  | BatchClosed
  | InvalidBatch
  | ExecutionNotFound
  | NotAWorkflow
  | StepNotFound
  | ExecutionExists
  | InvalidStep
  | IdempotencyKeyReused
  | IdempotencyKeyBusy
  | DatabaseError

interface ErrorResponse {
  readonly status: number
  readonly message: string
  /** Overrides the error's own tag. */
  readonly tag?: string
  readonly field?: string | undefined
  readonly about?: Omit<ErrorDetails, "field">
  readonly headers?: Readonly<Record<string, string>>
  /** Log the error, because the response omits details that only operators may see. */
  readonly logged?: boolean
}

const plain =
  (status: number, more: Omit<ErrorResponse, "status" | "message"> = {}) =>
  (error: Error): ErrorResponse => ({ status, message: error.message, ...more })

const tooLarge = (
  error: Error & { readonly filename?: string; readonly size: number; readonly max: number }
): ErrorResponse => {
  const { filename, max, message, size } = error
  return { status: 413, message, about: { ...(filename === undefined ? {} : { filename }), size, max } }
}

/** Maps a queue's setting to the field of a request. */
const fieldOf = (field: string): string => (/^(rate|perKey|depthCap)\b/.test(field) ? `limits.${field}` : field)

const retryAfter = { "retry-after": "1" }
/** SQLSTATE of a character that has no equivalent in the database's encoding. */
const untranslatable = "22P05"

/** Maps each error to its response. */
const responseOf = Match.typeTags<ExpectedError, ErrorResponse>()({
  BadRequest: ({ field, message }) => ({ status: 400, message, field }),
  InvalidJob: (error) => ({ status: 400, message: error.message, field: `jobs[${error.index}].${error.field}` }),
  BadCursor: plain(400, { field: "cursor" }),
  InvalidLimit: (error) => ({ status: 400, message: error.message, field: error.field }),
  TooManyPoints: plain(400, { field: "bucket" }),
  TooMuchToMerge: plain(400, { field: "bucket" }),
  InvalidSetting: ({ field, reason }) => ({
    status: 400,
    message: `${fieldOf(field)} ${reason}.`,
    field: fieldOf(field)
  }),
  InvalidSchedule: (error) => ({ status: 400, message: error.message, field: error.field }),
  FilterRefused: (error) => ({ status: 400, message: error.message, field: error.field }),
  Unauthorized: plain(401, { headers: { "www-authenticate": "Bearer" } }),
  Forbidden: plain(403),
  HostRefused: plain(403),
  CrossSiteRefused: plain(403),
  NotFound: plain(404),
  JobNotFound: plain(404),
  UnknownScope: (error) => ({
    status: 404,
    message: `Rate limit "${error.scope.slice(0, 64)}" does not exist. GET /api/v1/limits lists all limits.`
  }),
  QueueNotFound: plain(404),
  KindNotFound: plain(404),
  ScheduleNotFound: plain(404),
  OperationNotFound: plain(404),
  BatchNotFound: plain(404),
  InvalidBatch: (error) => ({ status: 400, message: error.message, field: error.field }),
  BatchClosed: plain(409),
  ExecutionNotFound: plain(404),
  StepNotFound: plain(404, { field: "step" }),
  NotAWorkflow: plain(422, { field: "workflow" }),
  ExecutionExists: plain(409, { field: "as" }),
  InvalidStep: plain(400),
  JobNotInState: plain(409),
  DedupeKeyHeld: plain(409),
  UndoRefused: plain(409),
  OperationNotUndoable: plain(409),
  ScheduleExists: plain(409, { field: "name" }),
  PreviousRunActive: plain(409),
  JobIdTaken: (error) => ({ status: 409, message: error.message, field: `jobs[${error.index}].id` }),
  TokenNotFound: plain(404),
  ViewNotFound: plain(404),
  ViewExists: plain(409, { field: "name" }),
  TooManyViews: plain(409),
  UploadNotFound: plain(404),
  InvalidUpload: (error) => ({ status: 400, message: error.message, field: `files[${error.index}].${error.field}` }),
  RequestTimedOut: plain(408),
  ResponseTimeout: plain(503),
  DraftLost: plain(408),
  IdempotencyKeyBusy: plain(409, { headers: retryAfter }),
  IdempotencyKeyReused: plain(422),
  BodyTooLarge: plain(413),
  UploadTooLarge: tooLarge,
  RequestTooLarge: tooLarge,
  QuotaExceeded: tooLarge,
  RangeRefused: (error) => ({
    status: 416,
    message: error.message,
    headers: { "content-range": `bytes */${error.size}` }
  }),
  ContentTypeRefused: plain(415),
  KindRefused: (error) => ({
    status: 422,
    tag: "UnknownKind",
    message: error.message,
    field: `jobs[${error.index}].kind`
  }),
  QueueFull: plain(429, { headers: { "retry-after": "5" } }),
  UnknownKind: plain(422, { field: "kind" }),
  DatabaseOff: plain(503),
  UploadsBusy: plain(503, { headers: { "retry-after": "5" } }),
  JobKindMissing: plain(503, { headers: { "retry-after": "30" }, logged: true }),
  TooManyRequests: (error) => ({
    status: 429,
    message: error.message,
    headers: { "retry-after": String(error.seconds) }
  }),
  EventsUnavailable: plain(503, { headers: { "retry-after": "10" } }),
  SearchTooSlow: plain(503),
  DatabaseUnavailable: ({ nothingWritten }) => ({
    status: 503,
    message: nothingWritten
      ? "The database is unavailable; nothing was changed. Try again."
      : "The database connection was lost during a write, so the change may have been made. Check before you retry.",
    headers: retryAfter,
    logged: true
  }),
  DatabaseConflict: () => ({
    status: 409,
    message: "The request conflicts with existing data. See the server log for details.",
    logged: true
  }),
  DatabaseFault: ({ sqlState }) =>
    sqlState === untranslatable
      ? {
          status: 400,
          message:
            "The request has a character that the database cannot store. Remove it, or use a database with the encoding UTF8."
        }
      : { status: 500, message: "The database rejected a statement. See the log for details.", logged: true }
})

/** Limits the log lines about failed requests. Without it, each one is logged. */
export class FailedRequests extends Context.Tag("nightshift/http/FailedRequests")<FailedRequests, RepeatedLines>() {}

/** Logs one line per cause and ten seconds: in an outage, every request fails. */
const logFailure = (text: string, error: unknown, logged: unknown): Effect.Effect<void> =>
  Effect.flatMap(Effect.serviceOption(FailedRequests), (lines) =>
    Option.isNone(lines)
      ? Effect.logError(text, logged)
      : Effect.flatMap(Clock.currentTimeMillis, (now) =>
          lines.value.line(`${text}: ${error}`, now, (more) => Effect.logError(`${text}${more}`, logged))
        )
  )

/** Converts an error to its response. */
export const toResponse = (
  error: ExpectedError,
  named: (field: string) => string = (field) => field
): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  const { about, field: whole, headers, logged, message, status, tag } = responseOf(error)
  const field = whole === undefined ? undefined : named(whole)
  const details = { ...(field === undefined ? {} : { field }), ...about }
  const response = HttpServerResponse.setHeaders(respond(status, tag ?? error._tag, message, details), headers ?? {})
  return logged === true ? Effect.as(logFailure("a request failed", error, error), response) : Effect.succeed(response)
}

/** Converts every failure of a route to its response. */
export const catchErrors = <A, E extends ExpectedError, R>(
  route: Effect.Effect<A, E, R>
): Effect.Effect<A | HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catchAll(route, (error) => toResponse(error))

/** Like `catchErrors`, for a request with a single job: drops the `jobs[0].` prefix from the field. */
export const catchErrorsOfOneJob = <A, E extends ExpectedError, R>(
  route: Effect.Effect<A, E, R>
): Effect.Effect<A | HttpServerResponse.HttpServerResponse, never, R> =>
  Effect.catchAll(route, (error) => toResponse(error, (field) => field.replace(/^jobs\[0\]\./, "")))

/** Converts unhandled failures: no matching route, a request that does not match its schema, or a defect. */
export const causeToResponse = (cause: Cause.Cause<unknown>): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (Cause.isInterruptedOnly(cause)) return Effect.interrupt
  const error = Cause.squash(cause)
  if (error instanceof RouteNotFound) {
    const { method, url } = error.request
    return toResponse(new NotFound({ method, path: url.split("?")[0] ?? "" }))
  }
  if (error instanceof HttpApiDecodeError) return toResponse(faultOfIssues(error.issues))
  return Effect.as(
    logFailure("a request failed with an internal error", error, cause),
    respond(500, "Internal", "Internal error. See the server log for details.")
  )
}
