import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { toIncomingMessage, toServerResponse } from "@effect/platform-node/NodeHttpServerRequest"
import { Context, Duration, Effect, Layer, Schedule, Schema, type Scope } from "effect"
import { Lifecycle } from "../core/Lifecycle.js"
import { RepeatedLines } from "../core/RepeatedLines.js"
import type { EventLoop } from "../telemetry/EventLoop.js"
import type { Metrics } from "../telemetry/Metrics.js"
import { ApiApp } from "./ApiApp.js"
import { Attempts } from "./access/Attempts.js"
import { checkHost } from "./access/Auth.js"
import * as ClientAddress from "./access/ClientAddress.js"
import * as Body from "./Body.js"
import * as DocsPage from "./DocsPage.js"
import * as HealthRoutes from "./HealthRoutes.js"
import { WebhookEndpoint } from "./hooks/WebhookEndpoint.js"
import * as Problem from "./Problem.js"
import type { Readiness } from "./Readiness.js"
import { dispatch } from "./RequestTurns.js"
import { ServerConfig } from "./ServerConfig.js"
import { UploadsApp } from "./uploads/UploadsApp.js"

/** Default headers: no scripts or resources, no framing, no caching. */
const securityHeaders = {
  "x-content-type-options": "nosniff",
  "x-frame-options": "DENY",
  "referrer-policy": "no-referrer",
  "cross-origin-resource-policy": "same-origin",
  "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
  "cache-control": "no-store"
}

/** Adds the default headers that a response does not set itself. */
const withSecurityHeaders = (response: HttpServerResponse.HttpServerResponse): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.setHeaders(response, { ...securityHeaders, ...response.headers })

/** Everything under `/ui`. A tag, because the dashboard may not be imported from here; the program provides it. */
export class UiApp extends Context.Tag("nightshift/http/UiApp")<UiApp, HttpApp.Default>() {
  /** For a process without Mission Control. */
  static readonly layerNone: Layer.Layer<UiApp> = Layer.succeed(UiApp, HttpServerResponse.empty({ status: 404 }))
}

export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Number,
  code: Schema.String
}) {
  override get message(): string {
    const where = `${this.host}:${this.port}`
    switch (this.code) {
      case "EADDRINUSE":
        return `Port ${this.port} on ${this.host} is already in use. Stop the process that uses it, or choose another port with --port or PORT.`
      case "EACCES":
        return `No permission to listen on ${where}. Choose a port above 1023 with --port or PORT.`
      case "ENOTFOUND":
      case "EADDRNOTAVAIL":
        return `${this.host} is not an address of this machine. Choose another with --host or HOST.`
      default:
        return `Could not listen on ${where}: ${this.code}.`
    }
  }
}

/** The listening server and its URL. */
export class Server extends Context.Tag("nightshift/http/Server")<Server, { readonly url: string }>() {}

/** Timeouts that free the connections of slow or silent clients. */
const limits = {
  headersTimeout: Duration.toMillis("10 seconds"),
  requestTimeout: Duration.toMillis("60 seconds"),
  keepAliveTimeout: Duration.toMillis("5 seconds"),
  // How often node enforces the first two. Its default of 30 seconds would make them much longer.
  connectionsCheckingInterval: Duration.toMillis("2 seconds"),
  maxHeaderSize: 16 * 1024
}

const listen = (server: Http.Server, host: string, port: number): Effect.Effect<AddressInfo, ListenFailed> =>
  Effect.async((resume) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      resume(new ListenFailed({ host, port, code: error.code ?? error.message }))
    )
    server.listen(port, host, () => resume(Effect.succeed(server.address() as AddressInfo)))
  })

/** Lets open requests finish and closes idle connections. After five seconds, closes all connections. */
const close = (server: Http.Server): Effect.Effect<void> =>
  Effect.async<void>((resume) => {
    server.close(() => resume(Effect.void))
  }).pipe(
    // A keep-alive connection becomes idle when its request ends, so close idle connections repeatedly.
    Effect.raceFirst(
      Effect.repeat(
        Effect.sync(() => server.closeIdleConnections()),
        Schedule.spaced("50 millis")
      )
    ),
    // Finalizers are uninterruptible, and the timeout needs interruption.
    Effect.interruptible,
    Effect.timeoutOption("5 seconds"),
    Effect.zipRight(Effect.sync(() => server.closeAllConnections()))
  )

/**
 * Node has one request timeout for all routes, so it is the longest one (uploads). Other routes enforce their own (see
 * Body).
 */
const openServer = (uploadTimeout: Duration.Duration): Effect.Effect<Http.Server, never, Scope.Scope> => {
  const requestTimeout = Math.max(limits.requestTimeout, Duration.toMillis(uploadTimeout) + 1_000)
  return Effect.acquireRelease(
    Effect.sync(() => Http.createServer({ ...limits, requestTimeout })),
    close
  )
}

/** Closes the connection of a request that was answered before its body was read. */
const closeUnreadBody = HttpMiddleware.make((app) =>
  Effect.tap(app, () =>
    Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) => {
      const source = toIncomingMessage(request)
      return source.complete ? Effect.void : Effect.forkDaemon(Body.closeUnread(source, toServerResponse(request)))
    })
  )
)

/** Relative, so that it works behind a proxy with a path prefix. */
const toPages = HttpServerResponse.empty({ status: 307, headers: { location: "ui/" } })

interface Apps {
  readonly api: HttpApp.Default
  readonly uploads: HttpApp.Default
  readonly ui: HttpApp.Default
}

const appWith = ({ api, ui, uploads }: Apps, config: Pick<typeof ServerConfig.Service, "host">) => {
  /** Pages check the Host header like the API: a rebound DNS name must not show Mission Control. */
  const page = <E extends Problem.ExpectedError, R>(app: HttpApp.Default<E, R>) =>
    Problem.catchErrors(Effect.zipRight(checkHost(config), app))
  return HealthRoutes.router.pipe(
    HttpRouter.concat(HttpRouter.use(DocsPage.router, page)),
    HttpRouter.get("/", page(toPages)),
    HttpRouter.mountApp("/api", api, { includePrefix: true }),
    HttpRouter.mountApp("/uploads", uploads, { includePrefix: true }),
    HttpRouter.mountApp("/ui", page(ui), { includePrefix: true }),
    Effect.catchAllCause(Problem.causeToResponse),
    HttpMiddleware.make((inner) => Effect.map(inner, withSecurityHeaders)),
    closeUnreadBody,
    Effect.provideService(Problem.FailedRequests, new RepeatedLines())
  )
}

/** Serves API, uploads, webhooks, pages and health routes on one port. */
export const layer: Layer.Layer<
  Server,
  ListenFailed,
  ServerConfig | ApiApp | UploadsApp | UiApp | WebhookEndpoint | Readiness | Metrics | EventLoop | Lifecycle
> = Layer.scoped(
  Server,
  Effect.gen(function* () {
    const config = yield* ServerConfig
    const { host, port, trustProxy } = config
    if (ClientAddress.trustsEveryone(trustProxy)) yield* Effect.logWarning(ClientAddress.trustsEveryoneText)
    const uploads = yield* UploadsApp
    const server = yield* openServer(uploads.timeout)
    const lifecycle = yield* Lifecycle
    // Starts draining first, which ends live event streams; they would keep the server from closing.
    yield* Effect.addFinalizer(() => lifecycle.drain)
    const apps = { api: yield* ApiApp, uploads: uploads.app, ui: yield* UiApp }
    dispatch(server, (yield* WebhookEndpoint).take, yield* NodeHttpServer.makeHandler(appWith(apps, config)))
    const address = yield* listen(server, host, port)
    const shownHost = host.includes(":") ? `[${host}]` : host
    return { url: `http://${shownHost}:${address.port}` }
  })
).pipe(Layer.provide(Attempts.layer))
