import { HttpApiDecodeError } from "@effect/platform/HttpApiError"
import { RouteNotFound } from "@effect/platform/HttpServerError"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { Cause, Effect, Match, Schema } from "effect"
import type { InvalidJob } from "../core/InvalidJob.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { DedupeKeyHeld, JobIdTaken, JobNotFound, JobNotInState, QueueFull } from "../queue/JobErrors.js"
import type { BadCursor } from "../queue/JobSearch.js"
import type { InvalidSetting, QueueNotFound } from "../queue/QueueSettings.js"
import type { KindRefused } from "./Intake.js"
import { fieldOf } from "./QueuePatchRequest.js"
import { NotFound, type RequestError } from "./RequestErrors.js"
import * as RequestFault from "./RequestFault.js"

/** The body of every answer that says no. */
export const Body = Schema.Struct({
  error: Schema.Struct({
    tag: Schema.String.annotations({ description: "What happened, for programs." }),
    message: Schema.String.annotations({ description: "What happened and what to do, for people." }),
    field: Schema.optional(Schema.String.annotations({ description: "The field at fault, as in jobs[2].priority." }))
  })
}).annotations({ identifier: "Problem" })

/** The one form in which a door says no: a tag for programs, a sentence for people, the field at fault if there is one. */
export const respond = (
  status: number,
  tag: string,
  message: string,
  field?: string
): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.unsafeJson({ error: { tag, message, ...(field === undefined ? {} : { field }) } }, { status })

/** Every failure that a route may end with. */
export type Foreseen =
  | RequestError
  | InvalidJob
  | JobIdTaken
  | QueueFull
  | QueueNotFound
  | InvalidSetting
  | JobNotFound
  | JobNotInState
  | DedupeKeyHeld
  | KindRefused
  | BadCursor
  | DatabaseError

interface Answer {
  readonly status: number
  readonly message: string
  /** Where it is not the error's own. */
  readonly tag?: string
  readonly field?: string | undefined
  readonly headers?: Readonly<Record<string, string>>
  /** For the log: what only those who run the service may read. */
  readonly logged?: boolean
}

const plain =
  (status: number, more: Omit<Answer, "status" | "message"> = {}) =>
  (error: Error): Answer => ({ status, message: error.message, ...more })

const retryAfter = { "retry-after": "1" }

/** The one table from what happened to what a client is told. */
const answerOf = Match.typeTags<Foreseen, Answer>()({
  BadRequest: ({ field, message }) => ({ status: 400, message, field }),
  InvalidJob: (error) => ({ status: 400, message: error.message, field: `jobs[${error.index}].${error.field}` }),
  BadCursor: plain(400, { field: "cursor" }),
  InvalidSetting: ({ field, reason }) => ({
    status: 400,
    message: `${fieldOf(field)} ${reason}.`,
    field: fieldOf(field)
  }),
  Unauthorized: plain(401, { headers: { "www-authenticate": "Bearer" } }),
  Forbidden: plain(403),
  HostRefused: plain(403),
  NotFound: plain(404),
  JobNotFound: plain(404),
  QueueNotFound: plain(404),
  JobNotInState: plain(409),
  DedupeKeyHeld: plain(409),
  JobIdTaken: (error) => ({ status: 409, message: error.message, field: `jobs[${error.index}].id` }),
  BodyTooLarge: plain(413),
  ContentTypeRefused: plain(415),
  KindRefused: (error) => ({
    status: 422,
    tag: "UnknownKind",
    message: error.message,
    field: `jobs[${error.index}].kind`
  }),
  QueueFull: plain(429, { headers: { "retry-after": "5" } }),
  DatabaseOff: plain(503),
  DatabaseUnavailable: ({ nothingWritten }) => ({
    status: 503,
    message: nothingWritten
      ? "The database does not answer; nothing was changed. Try again."
      : "The database went away while it was writing, so what was asked may have been done. Look before trying again.",
    headers: retryAfter,
    logged: true
  }),
  DatabaseConflict: () => ({
    status: 409,
    message: "What was asked contradicts what the database holds; the log says more.",
    logged: true
  }),
  DatabaseFault: () => ({ status: 500, message: "The database refused a statement; the log says more.", logged: true })
})

/** What a client is told of a failure. */
export const answer = (error: Foreseen): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  const { field, headers, logged, message, status, tag } = answerOf(error)
  const response = HttpServerResponse.setHeaders(respond(status, tag ?? error._tag, message, field), headers ?? {})
  return logged === true ? Effect.as(Effect.logError("a request failed", error), response) : Effect.succeed(response)
}

/** Turns every failure of a route into its answer. */
export const answered = <A, E extends Foreseen, R>(
  route: Effect.Effect<A, E, R>
): Effect.Effect<A | HttpServerResponse.HttpServerResponse, never, R> => Effect.catchAll(route, answer)

/** The same for what is left when an app gives up: a request that fits no route or no schema, or a mistake of ours. */
export const answerCause = (cause: Cause.Cause<unknown>): Effect.Effect<HttpServerResponse.HttpServerResponse> => {
  if (Cause.isInterruptedOnly(cause)) return Effect.interrupt
  const error = Cause.squash(cause)
  if (error instanceof RouteNotFound) {
    const { method, url } = error.request
    return answer(new NotFound({ method, path: url.split("?")[0] ?? "" }))
  }
  if (error instanceof HttpApiDecodeError) return answer(RequestFault.ofIssues(error.issues))
  return Effect.as(
    Effect.logError("a request failed", cause),
    respond(500, "Internal", "Something broke; the log says what.")
  )
}
