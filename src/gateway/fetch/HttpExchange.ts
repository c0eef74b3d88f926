import * as Http from "node:http"
import * as Https from "node:https"
import type { LookupFunction } from "node:net"
import { Data, Effect, Predicate } from "effect"

// Uses node's HTTP client because `fetch` neither reports whether a failed request was sent nor accepts a custom
// lookup.

export interface Request {
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** Maximum size of the response body. */
  readonly maxBytes: number
  /** Returns the beginning of a longer body, instead of failing. */
  readonly cuts?: boolean | undefined
  /** Keeps connections alive. Without it, the request uses a new connection and closes it. */
  readonly agent?: Http.Agent | undefined
  readonly lookup?: LookupFunction | undefined
}

export interface Response {
  readonly status: number
  readonly headers: Http.IncomingHttpHeaders
  readonly body: Buffer
  /** Whether the body was longer than `maxBytes`, and this is its beginning. */
  readonly isCut: boolean
}

/** No complete response. `code` is node's error code and never includes the URL, which may contain a token. */
export class ExchangeFailed extends Data.TaggedError("ExchangeFailed")<{
  readonly code: string
  /** Whether part of the request may have reached the server. */
  readonly sent: boolean
  /** Whether the request used a kept-alive connection, which the server may have been closing. */
  readonly reused?: boolean
  /** The original error, which may come from our own lookup. */
  readonly cause?: unknown
}> {}

const errorCode = (error: unknown): string =>
  Predicate.hasProperty(error, "code") && typeof error.code === "string" ? error.code : "UNKNOWN"

/** The code of a response that exceeds `maxBytes`. */
export const tooLong = "ANSWER_TOO_LONG"

const readAnswer = (
  response: Http.IncomingMessage,
  { cuts = false, maxBytes }: Pick<Request, "cuts" | "maxBytes">,
  done: (result: Effect.Effect<Response, ExchangeFailed>) => void
) => {
  const chunks: Array<Buffer> = []
  let bytes = 0
  const fail = (code: string) => done(new ExchangeFailed({ code, sent: true }))
  const finish = (isCut: boolean) => {
    const { headers, statusCode: status = 0 } = response
    done(Effect.succeed({ status, headers, body: Buffer.concat(chunks).subarray(0, maxBytes), isCut }))
  }
  response.on("data", (chunk: Buffer) => {
    bytes += chunk.length
    if (bytes <= maxBytes || cuts) chunks.push(chunk)
    if (bytes <= maxBytes) return
    if (cuts) finish(true)
    else fail(tooLong)
  })
  response.on("error", (error) => fail(errorCode(error)))
  response.on("close", () => fail("ECONNRESET"))
  response.on("end", () => finish(false))
}

const once = (request: Request): Effect.Effect<Response, ExchangeFailed> =>
  Effect.async((resume) => {
    const { agent, body, headers, lookup, url } = request
    let sent = false
    let finished = false
    let incoming: Http.IncomingMessage | undefined
    const options: Http.RequestOptions = {
      method: "POST",
      headers: { ...headers, "content-length": String(Buffer.byteLength(body)) },
      agent: agent ?? false,
      ...(lookup === undefined ? {} : { lookup })
    }
    const outgoing = (url.protocol === "https:" ? Https : Http).request(url, options)
    const done = (result: Effect.Effect<Response, ExchangeFailed>) => {
      if (finished) return
      finished = true
      resume(result)
      // Only a complete response leaves the connection reusable.
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
      readAnswer(response, request, done)
    })
    outgoing.on("error", (cause) =>
      done(new ExchangeFailed({ code: errorCode(cause), sent, reused: outgoing.reusedSocket, cause }))
    )
    outgoing.on("close", () => done(new ExchangeFailed({ code: "ECONNRESET", sent })))
    outgoing.end(body)
    return Effect.sync(() => {
      finished = true
      outgoing.destroy()
    })
  })

const isStale = ({ code, reused }: ExchangeFailed) => reused === true && (code === "ECONNRESET" || code === "EPIPE")

/**
 * Posts and waits for the complete response. Retries once on a new connection if a kept-alive one was stale.
 * Interruption closes the connection.
 */
export const post = (request: Request): Effect.Effect<Response, ExchangeFailed> =>
  Effect.catchIf(once(request), isStale, () => once({ ...request, agent: undefined }))
