import { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import { RouteNotFound } from "@effect/platform/HttpServerError"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Cause, Clock, Context, Effect, Option, Schema } from "effect"
import { type ExpectedError, isExpected } from "../core/ExpectedError.js"
import type { RepeatedLines } from "../core/RepeatedLines.js"
import { faultOfIssues, NotFound } from "./RequestErrors.js"

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

const detailNames = ["field", "filename", "size", "max"]

/** The fields of an error that are also those of a response. */
const detailsOf = (error: ExpectedError): ErrorDetails =>
  Object.fromEntries(Object.entries(error).filter(([name, value]) => detailNames.includes(name) && value !== undefined))

/** Converts an error to its response. */
export const toResponse = (
  error: ExpectedError,
  named: (field: string) => string = (field) => field
): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  const { headers = {}, logged, message = error.message, status, tag = error._tag } = error.answer
  const about = detailsOf(error)
  const field = error.answer.field ?? about.field
  const details = field === undefined ? about : { ...about, field: named(field) }
  const response = HttpServerResponse.setHeaders(respond(status, tag, message, details), headers)
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

/** Converts every failure: an expected one, no matching route, a request that does not match its schema, or a defect. */
export const causeToResponse = (cause: Cause.Cause<unknown>): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (Cause.isInterruptedOnly(cause)) return Effect.interrupt
  const error = Cause.squash(cause)
  // A defect is a bug, even if it is an error that has an answer.
  if (Cause.isFailure(cause) && isExpected(error)) return toResponse(error)
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
