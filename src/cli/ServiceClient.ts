import { Effect, Redacted, Schema } from "effect"

/** A service rejected a request or did not answer. */
export class RequestFailed extends Schema.TaggedError<RequestFailed>()("RequestFailed", {
  path: Schema.String,
  /** The HTTP status; undefined without an answer. */
  status: Schema.optional(Schema.Int),
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.path}: ${this.status === undefined ? "" : `${this.status} `}${this.reason}.`
  }
}

/** A client of a running service over its HTTP API. */
export interface ServiceClient {
  readonly url: string
  /** Sends a request and returns the JSON response. */
  readonly ask: (
    method: "GET" | "POST" | "PATCH",
    path: string,
    options?: RequestOptions
  ) => Effect.Effect<unknown, RequestFailed>
}

export interface RequestOptions {
  readonly body?: unknown
  readonly form?: FormData
  /** Reason recorded in the audit log. */
  readonly reason?: string
  /** Workspace token to use instead of the admin token. */
  readonly token?: string
}

export const make = (url: string, admin: Redacted.Redacted): ServiceClient => ({
  url,
  ask: (method, path, { body, form, reason, token = Redacted.value(admin) } = {}) =>
    Effect.tryPromise({
      try: async (signal) => {
        const headers = {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(reason === undefined ? {} : { "x-reason": reason })
        }
        const content = form ?? (body === undefined ? null : JSON.stringify(body))
        const response = await fetch(`${url}${path}`, { method, headers, body: content, signal })
        const text = await response.text()
        if (!response.ok) throw new RequestFailed({ path, status: response.status, reason: text })
        const isJson = response.headers.get("content-type")?.includes("json") === true
        return isJson ? JSON.parse(text) : text
      },
      catch: (error) => {
        if (error instanceof RequestFailed) return error
        const cause = error instanceof Error && error.cause instanceof Error ? error.cause : error
        return new RequestFailed({ path, reason: cause instanceof Error ? cause.message : String(cause) })
      }
    }).pipe(
      // The server may close an idle connection at the moment it is reused.
      Effect.retry({ times: 1, while: ({ status }) => method === "GET" && status === undefined })
    )
})
