import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http"

/** How long a rejected sender has to read the response before the connection closes. */
export const lingerMillis = 1_000

/** Above this number of rejected senders, connections close at once. */
const mostLingering = 256

const common = { "x-content-type-options": "nosniff", "cache-control": "no-store" }

/** Writes webhook responses directly to node's response objects. */
export class HookAnswers {
  private readonly lingering = new Map<ServerResponse, number>()

  constructor(private readonly now: () => number) {}

  /** Acknowledges a delivery. The optional body is a Bot API method that Telegram executes. */
  accept(response: ServerResponse, body: string | undefined): void {
    if (body === undefined) response.writeHead(200, { "content-length": 0 }).end()
    else {
      response
        .writeHead(200, { ...common, "content-type": "application/json", "content-length": Buffer.byteLength(body) })
        .end(body)
    }
  }

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
      if (request.complete || this.lingering.size > mostLingering) end()
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
