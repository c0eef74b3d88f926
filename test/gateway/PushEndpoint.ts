import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, type Scope } from "effect"

/** A signing secret in the form of Standard Webhooks. */
export const secretOf = (letter: string): string => `whsec_${Buffer.alloc(32, letter).toString("base64")}`

export interface Received {
  readonly path: string | undefined
  readonly headers: Http.IncomingHttpHeaders
  readonly body: string
}

type Answer = (received: Received, response: Http.ServerResponse) => unknown

/** Reads the whole request before it answers. */
export const reading =
  (answer: Answer): Http.RequestListener =>
  (request, response) => {
    const chunks: Array<Buffer> = []
    request.on("data", (chunk) => chunks.push(chunk))
    request.on("end", () => {
      answer({ path: request.url, headers: request.headers, body: Buffer.concat(chunks).toString("utf8") }, response)
    })
  }

/** A server on this machine. */
export const listening = (server: Http.Server): Effect.Effect<number, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.async<Http.Server>((resume) => {
        server.listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
      }),
      (open) =>
        Effect.sync(() => {
          open.close()
          open.closeAllConnections()
        })
    ),
    (open) => (open.address() as AddressInfo).port
  )

export const endpoint = (listener: Http.RequestListener): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(listening(Http.createServer(listener)), (port) => `http://127.0.0.1:${port}/jobs`)
