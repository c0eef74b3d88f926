import * as Http from "node:http"
import type { AddressInfo, Socket } from "node:net"
import { Readable } from "node:stream"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import { toIncomingMessage, toServerResponse } from "@effect/platform-node/NodeHttpServerRequest"
import { Duration, Effect, Schedule, Schema, type Scope } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"
import { RepeatedLines } from "../../core/RepeatedLines.js"
import * as Body from "../Body.js"
import * as Problem from "../Problem.js"

// What every HTTP server of Nightshift shares: the service, and the health checks of a worker process.

/** Default headers: no scripts or resources, no framing, no caching. */
const securityHeaders = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store"
}

const noFraming = "frame-ancestors 'none'"

/** Adds the default headers that a response does not set itself. */
const withSecurityHeaders =
  (frameAncestors: string | undefined) =>
  (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse => {
    const headers: Readonly<Record<string, string>> = { ...securityHeaders, ...response.headers }
    if (frameAncestors === undefined) return HttpServerResponse.setHeaders(response, headers)
    // X-Frame-Options has no list of sites, and browsers that know frame-ancestors ignore it.
    const { "content-security-policy": policy = "", "x-frame-options": _, ...others } = headers
    return HttpServerResponse.setHeaders(response, {
      ...others,
      "content-security-policy": policy.replace(noFraming, `frame-ancestors ${frameAncestors}`)
    })
  }

export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Number,
  code: Schema.String,
  /** What sets the port and the host, for the message. */
  settings: Schema.Struct({ port: Schema.String, host: Schema.String })
}) {
  override get message(): string {
    const where = `${this.host}:${this.port}`
    switch (this.code) {
      case "EADDRINUSE":
        return `Port ${this.port} on ${this.host} is already in use. Stop the process that uses it, or choose another port with ${this.settings.port}.`
      case "EACCES":
        return `No permission to listen on ${where}. Choose a port above 1023 with ${this.settings.port}.`
      case "ENOTFOUND":
      case "EADDRNOTAVAIL":
        return `${this.host} is not an address of this machine. Choose another with ${this.settings.host}.`
      default:
        return `Could not listen on ${where}: ${this.code}.`
    }
  }
}

/** Timeouts that free the connections of slow or silent clients. */
const limits = {
  headersTimeout: Duration.toMillis("10 seconds"),
  requestTimeout: Duration.toMillis("60 seconds"),
  keepAliveTimeout: Duration.toMillis("5 seconds"),
  // How often node enforces the first two. Its default of 30 seconds would make them much longer.
  connectionsCheckingInterval: Duration.toMillis("2 seconds"),
  maxHeaderSize: 16 * 1024
}

/** Starts listening and returns the URL. */
export const listen = (
  server: Http.Server,
  { host, port }: { readonly host: string; readonly port: number },
  settings: ListenFailed["settings"]
): Effect.Effect<string, ListenFailed> =>
  Effect.async((resume) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      resume(new ListenFailed({ host, port, code: error.code ?? error.message, settings }))
    )
    server.listen(port, host, () => {
      resume(Effect.succeed(`http://${HttpUrl.hostText(host)}:${(server.address() as AddressInfo).port}`))
    })
  })

/** The connections of a server on which nothing has arrived: browsers and load balancers open some in advance. Node counts them as busy. */
const unusedOf = (server: Http.Server) => {
  const open = new Set<Socket>()
  server.on("connection", (socket) => {
    open.add(socket)
    socket.once("close", () => open.delete(socket))
  })
  return () => [...open].filter(({ bytesRead }) => bytesRead === 0)
}

/** Lets open requests finish and closes idle connections. After five seconds, closes all connections. */
const close = ({ server, unused }: { readonly server: Http.Server; readonly unused: () => ReadonlyArray<Socket> }) => {
  const closed = Effect.async<void>((resume) => {
    server.close(() => resume(Effect.void))
  })
  // A keep-alive connection becomes idle when its request ends, so close idle connections repeatedly.
  const closeIdle = Effect.repeat(
    Effect.sync(() => server.closeIdleConnections()),
    Schedule.spaced("50 millis")
  )
  // Their first requests may be on their way.
  const closeUnused = Effect.delay(
    Effect.sync(() => unused().forEach((socket) => void socket.destroy())),
    "1 second"
  )
  return Effect.raceFirst(closed, Effect.all([closeIdle, closeUnused], { concurrency: "unbounded" })).pipe(
    // Finalizers are uninterruptible, and the timeout needs interruption.
    Effect.interruptible,
    Effect.timeoutOption("5 seconds"),
    Effect.zipRight(Effect.sync(() => server.closeAllConnections()))
  )
}

/**
 * A server that is closed with the Scope. Node has one request timeout for all routes, so it is the longest one (uploads).
 * Other routes enforce their own (see Body).
 */
export const open = (longest: Duration.Duration = Duration.zero): Effect.Effect<Http.Server, never, Scope.Scope> => {
  const requestTimeout = Math.max(limits.requestTimeout, Duration.toMillis(longest) + 1_000)
  return Effect.acquireRelease(
    Effect.sync(() => {
      const server = Http.createServer({ ...limits, requestTimeout })
      return { server, unused: unusedOf(server) }
    }),
    close
  ).pipe(Effect.map(({ server }) => server))
}

/** Closes the connection of a request that was answered before its body was read. */
const closeUnreadBody = HttpMiddleware.make((app) =>
  Effect.tap(app, () =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      // The server that made a web standard request takes care of its connection.
      if (!(request.source instanceof Readable)) return Effect.void
      const source = toIncomingMessage(request)
      return source.complete ? Effect.void : Effect.forkDaemon(Body.closeUnread(source, toServerResponse(request)))
    })
  )
)

/**
 * Responds to failures, adds the default headers, and closes connections with unread bodies. No page may be framed,
 * except by the sites in `frameAncestors`.
 */
export const guarded = <E, R>(app: HttpApp.Default<E, R>, frameAncestors?: string) =>
  app.pipe(
    Effect.catchAllCause(Problem.causeToResponse),
    HttpMiddleware.make((inner) => Effect.map(inner, withSecurityHeaders(frameAncestors))),
    closeUnreadBody,
    Effect.provideService(Problem.FailedRequests, new RepeatedLines())
  )
