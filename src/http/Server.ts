import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpMiddleware from "@effect/platform/HttpMiddleware"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Duration, Effect, Layer, Schema, type Scope } from "effect"
import type { EventLoop } from "../telemetry/EventLoop.js"
import type { Metrics } from "../telemetry/Metrics.js"
import { ApiApp } from "./ApiApp.js"
import * as HealthRoutes from "./HealthRoutes.js"
import * as Problem from "./Problem.js"
import type { Readiness } from "./Readiness.js"
import { ServerConfig } from "./ServerConfig.js"
import { UiApp } from "./UiApp.js"

/** The port could not be had. */
export class ListenFailed extends Schema.TaggedError<ListenFailed>()("ListenFailed", {
  host: Schema.String,
  port: Schema.Number,
  code: Schema.String
}) {
  override get message(): string {
    const where = `${this.host}:${this.port}`
    switch (this.code) {
      case "EADDRINUSE":
        return `Port ${this.port} on ${this.host} is already in use. Stop what listens there, or choose another with --port or PORT.`
      case "EACCES":
        return `This user may not listen on ${where}. Choose a port above 1023 with --port or PORT.`
      case "ENOTFOUND":
      case "EADDRNOTAVAIL":
        return `${this.host} is not an address of this machine. Choose another with --host or HOST.`
      default:
        return `Could not listen on ${where}: ${this.code}.`
    }
  }
}

/** The open door: where it can be reached. */
export class Server extends Context.Tag("nightshift/http/Server")<Server, { readonly url: string }>() {}

/** A slow or silent client gives its place back after these. */
const limits = {
  headersTimeout: Duration.toMillis("10 seconds"),
  requestTimeout: Duration.toMillis("60 seconds"),
  keepAliveTimeout: Duration.toMillis("5 seconds"),
  maxHeaderSize: 16 * 1024
}

const listen = (server: Http.Server, host: string, port: number): Effect.Effect<AddressInfo, ListenFailed> =>
  Effect.async((resume) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      resume(new ListenFailed({ host, port, code: error.code ?? error.message }))
    )
    server.listen(port, host, () => resume(Effect.succeed(server.address() as AddressInfo)))
  })

/** Open requests may finish; idle connections are closed, and after the grace so is everything. */
const close = (server: Http.Server): Effect.Effect<void> =>
  Effect.async<void>((resume) => {
    server.close(() => resume(Effect.void))
    server.closeIdleConnections()
  }).pipe(
    // A finalizer cannot be interrupted unless it says so, and then the grace would have no end.
    Effect.interruptible,
    // A Scope closes uninterruptibly, and then nothing times out unless it says that it may.
    Effect.interruptible,
    Effect.timeoutOption("5 seconds"),
    Effect.zipRight(Effect.sync(() => server.closeAllConnections()))
  )

const openServer: Effect.Effect<Http.Server, never, Scope.Scope> = Effect.acquireRelease(
  Effect.sync(() => Http.createServer(limits)),
  close
)

const toPages = HttpServerResponse.empty({ status: 307, headers: { location: "ui/" } })

const appWith = (api: HttpApp.Default, ui: HttpApp.Default) =>
  HealthRoutes.router.pipe(
    HttpRouter.get("/", toPages),
    HttpRouter.mountApp("/api", api, { includePrefix: true }),
    HttpRouter.mountApp("/ui", ui, { includePrefix: true }),
    Effect.catchAllCause(Problem.answerCause),
    HttpMiddleware.make((inner) =>
      Effect.map(inner, (response) =>
        HttpServerResponse.setHeaders(response, {
          "x-content-type-options": "nosniff",
          "cache-control": response.headers["cache-control"] ?? "no-store"
        })
      )
    )
  )

/** Opens every door on one port. */
export const layer: Layer.Layer<Server, ListenFailed, ServerConfig | ApiApp | UiApp | Readiness | Metrics | EventLoop> =
  Layer.scoped(
    Server,
    Effect.gen(function* () {
      const { host, port } = yield* ServerConfig
      const server = yield* openServer
      server.on("request", yield* NodeHttpServer.makeHandler(appWith(yield* ApiApp, yield* UiApp)))
      const address = yield* listen(server, host, port)
      const shownHost = host.includes(":") ? `[${host}]` : host
      return { url: `http://${shownHost}:${address.port}` }
    })
  )
