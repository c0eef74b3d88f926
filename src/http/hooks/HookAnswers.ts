import type { IncomingMessage, OutgoingHttpHeaders, ServerResponse } from "node:http"

/** How long a sender that is being refused has to notice. */
export const lingerMillis = 1_000

/** More of them than this are not waited for. */
const mostLingering = 256

const common = { "x-content-type-options": "nosniff", "cache-control": "no-store" }

/** How webhooks are answered, over node's own objects. */
export class HookAnswers {
  private readonly lingering = new Map<ServerResponse, number>()

  constructor(private readonly now: () => number) {}

  /** It has arrived. The body, if there is one, is a method that Telegram carries out. */
  accept(response: ServerResponse, body: string | undefined): void {
    if (body === undefined) response.writeHead(200, { "content-length": 0 }).end()
    else {
      response
        .writeHead(200, { ...common, "content-type": "application/json", "content-length": Buffer.byteLength(body) })
        .end(body)
    }
  }

  /** Says no in the form of all doors, to somebody whose whole body was read. */
  refuse(response: ServerResponse, refusal: Refusal): void {
    const { headers, text } = written(refusal)
    response.writeHead(refusal.status, headers).end(text)
  }

  /**
   * Says no to somebody whose body is not going to be read: the connection cannot be used again. It is not closed at once
   * either, because that would destroy the answer on its way to those who still write.
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

  /** Closes on those who had their time. */
  readonly sweep = (): void => {
    for (const [response, until] of this.lingering) {
      if (until > this.now()) continue
      this.lingering.delete(response)
      response.end()
    }
  }
}

/** A no, for programs and for people. */
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
