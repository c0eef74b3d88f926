import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http"
import { Cause, type Exit } from "effect"
import type { WebhookIntakeError } from "../../gateway/WebhookIntake.js"
import { maxDeliveryBytes, type NoBody } from "./HookBody.js"

/** How long a rejected sender has to read the response before the connection closes. */
const lingerMillis = 1_000

/** Above this number of rejected senders, connections close at once. */
const maxLingeringSenders = 256

/** Headers of every response with a body. */
export const common = { "x-content-type-options": "nosniff", "cache-control": "no-store" }

/** Rejects webhooks, directly on node's response objects. */
export class HookRefusals {
  private readonly lingering = new Map<ServerResponse, number>()

  constructor(private readonly now: () => number) {}

  /** Rejects a request whose body was read completely. */
  refuse(response: ServerResponse, refusal: Refusal): void {
    const { headers, text } = written(refusal)
    response.writeHead(refusal.status, headers).end(text)
  }

  /**
   * Rejects a request whose body is not read, so the connection cannot be reused. Does not close it at once: that would
   * reset it and destroy the response while the sender is still writing.
   */
  refuseUnread(request: IncomingMessage, response: ServerResponse, refusal: Refusal): void {
    const { headers, text } = written(refusal)
    response.writeHead(refusal.status, { ...headers, connection: "close" })
    response.write(text)
    this.lingering.set(response, this.now() + lingerMillis)
    const end = () => {
      if (this.lingering.delete(response)) response.end()
    }
    request.once("close", end)
    setImmediate(() => {
      if (request.complete || this.lingering.size > maxLingeringSenders) end()
    })
  }

  /** Closes connections whose linger time has passed. */
  readonly sweep = (): void => {
    for (const [response, until] of this.lingering) {
      if (until > this.now()) continue
      this.lingering.delete(response)
      response.end()
    }
  }
}

/** An error response. */
export interface Refusal {
  readonly status: number
  readonly tag: string
  readonly message: string
  readonly headers?: OutgoingHttpHeaders
}

const written = ({ headers, message, tag }: Refusal) => {
  const text = JSON.stringify({ error: { tag, message } })
  return {
    text,
    headers: {
      ...common,
      "content-type": "application/json",
      "content-length": Buffer.byteLength(text),
      ...headers
    }
  }
}

// Error responses of the webhook endpoint. Telegram retries every response that is not a success and honors
// `Retry-After`.

/** An error response with its outcome label for metrics. */
export interface Refused extends Refusal {
  readonly outcome: string
}

const unavailable = (tag: string, message: string): Refused => ({
  outcome: "unavailable",
  status: 503,
  tag,
  message,
  headers: { "retry-after": "5" }
})

export const unknownHook = (path: string): Refused => ({
  outcome: "unknown",
  status: 404,
  tag: "NotFound",
  message: `No bot or source receives webhooks at ${path.slice(0, 128)}.`
})

export const methodRefused: Refused = {
  outcome: "invalid",
  status: 405,
  tag: "MethodNotAllowed",
  message: "Webhooks must use POST.",
  headers: { allow: "POST" }
}

export const unauthorizedHook = (message: string): Refused => ({
  outcome: "unauthorized",
  status: 401,
  tag: "Unauthorized",
  message
})

export const typeRefused = (given: string): Refused => ({
  outcome: "unsupported",
  status: 415,
  tag: "ContentTypeRefused",
  message: `The body must be uncompressed application/json in UTF-8, got ${given.slice(0, 128)}.`
})

export const invalidDelivery = (message: string): Refused => ({
  outcome: "invalid",
  status: 400,
  tag: "BadRequest",
  message
})

/** Responses for a body that could not be read. */
export const bodyRefused: Readonly<Record<NoBody, Refused>> = {
  TooLarge: {
    outcome: "too_large",
    status: 413,
    tag: "BodyTooLarge",
    message: `The body exceeds the limit of ${maxDeliveryBytes} bytes for a webhook.`
  },
  TooMuch: unavailable("Busy", "The server is receiving too many webhooks at once. Try again."),
  TooSlow: { outcome: "aborted", status: 408, tag: "TooSlow", message: "The body took too long to arrive." },
  Gone: {
    outcome: "aborted",
    status: 400,
    tag: "BadRequest",
    message: "The request body was cut off: the connection closed before it was complete."
  }
}

const refusalOfError = (error: WebhookIntakeError): Refused => {
  switch (error._tag) {
    case "InvalidJob":
      return invalidDelivery(`The delivery cannot be stored: ${error.field} ${error.reason}.`)
    case "UnknownKind":
      return unavailable(error._tag, "No process has registered the kind of this source's jobs. Try again later.")
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
export const intakeRefused = (exit: Exit.Failure<unknown, WebhookIntakeError>): Refused => {
  const failure = Cause.failureOption(exit.cause)
  if (failure._tag === "Some") return refusalOfError(failure.value)
  return unavailable("Unavailable", "The delivery could not be handled. Try again.")
}
