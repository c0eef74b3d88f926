import { Cause, type Exit } from "effect"
import type { WebhookIntakeError } from "../../gateway/WebhookIntake.js"
import type { Refusal } from "./HookAnswers.js"
import { mostBytes, type NoBody } from "./HookBody.js"

// Error responses of the webhook endpoint. Telegram retries every response that is not a success and honors
// `Retry-After`.

/** An error response with its outcome label for metrics. */
export interface Refused extends Refusal {
  readonly outcome: string
}

const retryAfter = { "retry-after": "5" }

export const unknownHook = (path: string): Refused => ({
  outcome: "unknown",
  status: 404,
  tag: "NotFound",
  message: `No bot or source receives webhooks at ${path.slice(0, 128)}.`
})

export const method: Refused = {
  outcome: "invalid",
  status: 405,
  tag: "MethodNotAllowed",
  message: "Webhooks must use POST.",
  headers: { allow: "POST" }
}

export const unauthorized = (message: string): Refused => ({
  outcome: "unauthorized",
  status: 401,
  tag: "Unauthorized",
  message
})

export const type = (given: string): Refused => ({
  outcome: "unsupported",
  status: 415,
  tag: "ContentTypeRefused",
  message: `The body must be uncompressed application/json in UTF-8, got ${given.slice(0, 128)}.`
})

export const invalid = (message: string): Refused => ({ outcome: "invalid", status: 400, tag: "BadRequest", message })

const tooLarge: Refused = {
  outcome: "too_large",
  status: 413,
  tag: "BodyTooLarge",
  message: `The body exceeds the limit of ${mostBytes} bytes.`
}

/** Responses for a body that could not be read. */
export const body: Readonly<Record<NoBody, Refused>> = {
  TooLarge: tooLarge,
  TooMuch: {
    outcome: "unavailable",
    status: 503,
    tag: "Busy",
    message: "The server is receiving too many webhooks at once. Try again.",
    headers: retryAfter
  },
  TooSlow: { outcome: "aborted", status: 408, tag: "TooSlow", message: "The body took too long to arrive." },
  Gone: {
    outcome: "aborted",
    status: 400,
    tag: "BadRequest",
    message: "The request body was cut off: the connection closed before it was complete."
  }
}

const unavailable = (tag: string, message: string): Refused => ({
  outcome: "unavailable",
  status: 503,
  tag,
  message,
  headers: retryAfter
})

const ofError = (error: WebhookIntakeError): Refused => {
  switch (error._tag) {
    case "InvalidJob":
      return invalid(`The delivery cannot be stored: ${error.field} ${error.reason}.`)
    case "UnknownKind":
      return unavailable(error._tag, "No pod has registered the kind of this source's jobs. Try again.")
    case "HandlerFailed":
      return { outcome: "failed", status: 500, tag: error._tag, message: error.message }
    case "QueueFull":
      return unavailable(error._tag, "The queue is full. Try again.")
    case "JobIdTaken":
    case "DatabaseUnavailable":
    case "DatabaseConflict":
    case "DatabaseFault":
      return unavailable(error._tag, "The delivery could not be stored. Try again.")
  }
}

/** Returns the response for a delivery that could not be stored or handled. */
export const intake = (exit: Exit.Failure<unknown, WebhookIntakeError>): Refused => {
  const failure = Cause.failureOption(exit.cause)
  if (failure._tag === "Some") return ofError(failure.value)
  return unavailable("Unavailable", "The delivery could not be handled. Try again.")
}
