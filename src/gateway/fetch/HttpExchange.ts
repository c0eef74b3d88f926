import * as Http from "node:http"
import * as Https from "node:https"
import type { LookupFunction } from "node:net"
import { Data, Effect, Predicate } from "effect"

// One request and its answer over node's own client, because two things are needed that `fetch` does not tell or take: whether
// anything was sent before it failed, and who resolves the name that the socket dials.

export interface Request {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** The most bytes of the answer's body that are read. */
  readonly mostBytes: number
  /** Who keeps connections for the next request; absent: one of its own, closed behind it. */
  readonly agent?: Http.Agent | undefined
  readonly lookup?: LookupFunction | undefined
}

export interface Answer {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly body: Buffer
}

/** No whole answer came. The code is node's; nothing of the url is in it, because a url may hold a token. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: string
  /** Whether something of the request may have reached the other side. */
  readonly sent: boolean
  /** Whether it went over a connection that had served before: the other side may have been closing it. */
  readonly reused?: boolean
  /** An error that a lookup of ours gave, to be told from node's own. */
  readonly cause?: unknown
}> {}

const codeOf = (error: unknown): string =>
  Predicate.hasProperty(error, "code") && typeof error.code === "string" ? error.code : "UNKNOWN"

/** The code of an answer that was longer than it may be. */
export const tooLong = "ANSWER_TOO_LONG"

const readAnswer = (
  response: Http.IncomingMessage,
  mostBytes: number,
  done: (result: Effect.Effect<Answer, ExchangeFailed>) => void
) => {
  const chunks: Array<Buffer> = []
  let bytes = 0
  const fail = (code: string) => done(new ExchangeFailed({ code, sent: true }))
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= mostBytes) chunks.push(chunk)
    else fail(tooLong)
  })
  response.on("error", (error) => fail(codeOf(error)))
  response.on("close", () => fail("ECONNRESET"))
  response.on("end", () => {
    const { headers, statusCode: status = 0 } = response
    done(Effect.succeed({ status, headers, body: Buffer.concat(chunks) }))
  })
}

const once = (request: Request): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.async((resume) => {
    const { agent, body, headers, lookup, mostBytes, url } = request
    let sent = false
    let over = false
    let incoming: Http.IncomingMessage | undefined
    const options: Http.RequestOptions = {
      method: "POST",
      headers: { ...headers, "content-length": String(Buffer.byteLength(body)) },
      agent: agent ?? false,
      ...(lookup === undefined ? {} : { lookup })
    }
    const outgoing = (url.protocol === "https:" ? Https : Http).request(url, options)
    const done = (result: Effect.Effect<Answer, ExchangeFailed>) => {
      if (over) return
      over = true
      resume(result)
      // A whole answer leaves its connection to the agent; anything else leaves it in no known state.
      if (incoming?.complete !== true) outgoing.destroy()
    }
    outgoing.on("socket", (socket) => {
      const ready = url.protocol === "https:" ? "secureConnect" : "connect"
      const connected = () => {
        sent = true
      }
      if (socket.connecting) socket.once(ready, connected)
      else connected()
    })
    outgoing.on("response", (response) => {
      incoming = response
      readAnswer(response, mostBytes, done)
    })
    outgoing.on("error", (cause) =>
      done(new ExchangeFailed({ code: codeOf(cause), sent, reused: outgoing.reusedSocket, cause }))
    )
    outgoing.on("close", () => done(new ExchangeFailed({ code: "ECONNRESET", sent })))
    outgoing.end(body)
    return Effect.sync(() => {
      over = true
      outgoing.destroy()
    })
  })

const isStale = ({ code, reused }: ExchangeFailed) => reused === true && (code === "ECONNRESET" || code === "EPIPE")

/** Posts and waits for the whole answer. Interrupting it closes its connection. */
export const post = (request: Request): Effect.Effect<Answer, ExchangeFailed> =>
  Effect.catchIf(once(request), isStale, () => once({ ...request, agent: undefined }))
