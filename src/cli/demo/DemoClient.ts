import { Effect, Redacted, Schema } from "effect"

/** The demo's own service did not take a request. */
export class DoorClosed extends Schema.TaggedError<DoorClosed>()("DoorClosed", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.path}: ${this.reason}.`
  }
}

/** The doors of the service as its users see them: over HTTP, with a token. */
export interface DemoClient {
  readonly url: string
  /** Asks, and answers what the answer holds as JSON. */
  readonly ask: (method: "GET" | "POST" | "PATCH", path: string, options?: Asked) => Effect.Effect<unknown, DoorClosed>
}

export interface Asked {
  /** Sent as JSON. */
  readonly body?: unknown
  readonly form?: FormData
  /** Why, for the audit. */
  readonly reason?: string
  /** A workspace's token in the place of the admin's. */
  readonly token?: string
}

export const make = (url: string, admin: Redacted.Redacted): DemoClient => ({
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
        if (!response.ok) throw new Error(`${response.status} ${text}`)
        const isJson = response.headers.get("content-type")?.includes("json") === true
        return isJson ? JSON.parse(text) : text
      },
      catch: (error) => new DoorClosed({ path, reason: error instanceof Error ? error.message : String(error) })
    })
})
