import { Effect, Either, Redacted, Schema } from "effect"

/** The message in an answer of Nightshift's HTTP API. */
export const errorIn = (answer: string): string | undefined =>
  Either.getOrUndefined(Either.try(() => String(JSON.parse(answer).error.message)))

/** A service rejected a request or did not answer. */
export class RequestFailed extends Schema.TaggedError<RequestFailed>()("RequestFailed", {
  path: Schema.String,
  /** The HTTP status; undefined without an answer. */
  status: Schema.optional(Schema.Int),
  reason: Schema.String
}) {
  override get message(): string {
    const reason = (errorIn(this.reason) ?? this.reason).replace(/\.$/, "")
    return `${this.path}: ${this.status === undefined ? "" : `${this.status} `}${reason}.`
  }
}

/** Whether the service would reject the request again. Otherwise it may have been carried out, or may be later. */
export const isRejected = ({ status = 503 }: RequestFailed): boolean => status < 500 && status !== 429

/** Reads a response by a schema. Other servers may answer any path. */
export const decoded =
  <A, I>(path: string, schema: Schema.Schema<A, I>) =>
  (body: unknown): Effect.Effect<A, RequestFailed> =>
    Effect.mapError(
      Schema.decodeUnknown(schema)(body),
      () =>
        new RequestFailed({ path, reason: "unexpected response; check that the URL is that of a Nightshift service" })
    )

/** A client of a running service over its HTTP API. */
export interface ServiceClient {
  readonly url: string
  /** Sends a request and returns the JSON response, or the first event of a stream. */
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
  /** The agent that the request is for, in the audit log. */
  readonly agent?: string
  /** Workspace token to use instead of the admin token. */
  readonly token?: string
}

/** The data of the first event that has some. Ends the stream. */
const firstEvent = async (body: ReadableStream<Uint8Array>): Promise<string> => {
  let text = ""
  for await (const part of body.pipeThrough(new TextDecoderStream())) {
    text += part
    const [, data] = /^data: ?(.*)\n/m.exec(text) ?? []
    if (data !== undefined) return data
  }
  throw new Error("the stream ended before its first event")
}

export const make = (url: string, admin: Redacted.Redacted): ServiceClient => ({
  url,
  ask: (method, path, { agent, body, form, reason, token = Redacted.value(admin) } = {}) =>
    Effect.tryPromise({
      try: async (signal) => {
        const headers = {
          authorization: `Bearer ${token}`,
          ...(body === undefined ? {} : { "content-type": "application/json" }),
          ...(agent === undefined ? {} : { "x-agent": agent.replace(/[^\x20-\x7e]/g, "-") }),
          ...(reason === undefined ? {} : { "x-reason": encodeURIComponent(reason) })
        }
        const content = form ?? (body === undefined ? null : JSON.stringify(body))
        const response = await fetch(`${url}${path}`, { method, headers, body: content, signal })
        const type = response.headers.get("content-type") ?? ""
        if (type.includes("event-stream") && response.body !== null) return JSON.parse(await firstEvent(response.body))
        const text = await response.text()
        if (!response.ok) throw new RequestFailed({ path, status: response.status, reason: text })
        return type.includes("json") ? JSON.parse(text) : text
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
