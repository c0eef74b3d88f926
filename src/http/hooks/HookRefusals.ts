import { Cause, type Exit } from "effect"
import type { WebhookIntakeError } from "../../gateway/WebhookIntake.js"
import type { Refusal } from "./HookAnswers.js"
import { mostBytes, type NoBody } from "./HookBody.js"

// The one table from what happened at the webhooks' door to what a sender is told. Telegram tries everything again that is
// not a success, and waits as long as `Retry-After` says.

/** Why a delivery was not taken, with the word it is counted under. */
export interface Refused extends Refusal {
  readonly outcome: string
}

const retryAfter = { "retry-after": "5" }

export const nobody = (path: string): Refused => ({
  outcome: "unknown",
  status: 404,
  tag: "NotFound",
  message: `Nobody receives webhooks at ${path.slice(0, 128)}.`
})

export const method: Refused = {
  outcome: "invalid",
  status: 405,
  tag: "MethodNotAllowed",
  message: "Webhooks are delivered by POST.",
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
  message: `The body must be application/json in UTF-8 and not compressed, not ${given.slice(0, 128)}.`
})

export const invalid = (message: string): Refused => ({ outcome: "invalid", status: 400, tag: "BadRequest", message })

const tooLarge: Refused = {
  outcome: "too_large",
  status: 413,
  tag: "BodyTooLarge",
  message: `The body is larger than ${mostBytes} bytes.`
}

/** For a body that did not come, as far as there is anyone to tell. */
export const body: Readonly<Record<NoBody, Refused>> = {
  TooLarge: tooLarge,
  TooMuch: {
    outcome: "unavailable",
    status: 503,
    tag: "Busy",
    message: "Too much is being received at once. Try again.",
    headers: retryAfter
  },
  TooSlow: { outcome: "aborted", status: 408, tag: "TooSlow", message: "The body took too long to arrive." },
  Gone: { outcome: "aborted", status: 400, tag: "BadRequest", message: "The body ended before its end." }
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
      return unavailable(error._tag, "Nobody has registered the kind that this source feeds. Try again.")
    case "HandlerFailed":
      return { outcome: "failed", status: 500, tag: error._tag, message: error.message }
    case "QueueFull":
      return unavailable(error._tag, "Too many deliveries wait already. Try again.")
    case "JobIdTaken":
    case "DatabaseUnavailable":
    case "DatabaseConflict":
    case "DatabaseFault":
      return unavailable(error._tag, "The delivery could not be stored. Try again.")
  }
}

/** For a delivery that was not taken in. */
export const intake = (exit: Exit.Failure<unknown, WebhookIntakeError>): Refused => {
  const failure = Cause.failureOption(exit.cause)
  if (failure._tag === "Some") return ofError(failure.value)
  return unavailable("Unavailable", "The delivery could not be taken in. Try again.")
}
