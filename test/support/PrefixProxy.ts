import { once } from "node:events"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { Effect, type Scope } from "effect"

/** A proxy that serves another server under a prefix, which it removes and reports. */
export const listen = (target: string, prefix: string): Effect.Effect<string, never, Scope.Scope> =>
  Effect.map(
    Effect.acquireRelease(
      Effect.promise(async () => {
        const server = Http.createServer((request, response) => {
          const { headers, method, url = "/" } = request
          if (url !== prefix && !url.startsWith(`${prefix}/`)) return void response.writeHead(404).end("not here")
          const inner = url.slice(prefix.length)
          const sent = Http.request(new URL(inner.startsWith("/") ? inner : `/${inner}`, target), {
            method: method ?? "GET",
            headers: { ...headers, "x-forwarded-prefix": prefix }
          })
          sent.on("response", (answer) => {
            response.writeHead(answer.statusCode ?? 502, answer.headers)
            answer.pipe(response)
          })
          sent.on("error", () => response.destroy())
          response.on("close", () => sent.destroy())
          request.pipe(sent)
        }).listen(0, "127.0.0.1")
        await once(server, "listening")
        return server
      }),
      (server) =>
        Effect.sync(() => {
          server.close()
          server.closeAllConnections()
        })
    ),
    (server) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${prefix}`
  )
