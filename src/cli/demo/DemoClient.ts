import { Effect, Redacted, Schema } from "effect"

/** The demo's service rejected a request or did not answer. */
export class DoorClosed extends Schema.TaggedError<DoorClosed>()("DoorClosed", {
  path: Schema.String,
  reason: Schema.String
}) {
  override get message(): string {
    return `${this.path}: ${this.reason}.`
  }
}

/** A client of the demo's service over HTTP. */
export interface DemoClient {
  readonly url: string
  /** Sends a request and returns the JSON response. */
  readonly ask: (method: "GET" | "POST" | "PATCH", path: string, options?: Asked) => Effect.Effect<unknown, DoorClosed>
}

export interface Asked {
  readonly body?: unknown
  readonly form?: FormData
  /** Reason recorded in the audit log. */
  readonly reason?: string
  /** Workspace token to use instead of the admin token. */
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
