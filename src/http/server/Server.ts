import type * as HttpApp from "@effect/platform/HttpApp"
import * as HttpRouter from "@effect/platform/HttpRouter"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer } from "effect"
import { Lifecycle } from "../../core/Lifecycle.js"
import type { EventLoop } from "../../telemetry/EventLoop.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Attempts } from "../access/Attempts.js"
import { checkHost } from "../access/Auth.js"
import * as ClientAddress from "../ClientAddress.js"
import { WebhookEndpoint } from "../hooks/WebhookEndpoint.js"
import * as Problem from "../Problem.js"
import { ServerConfig } from "../ServerConfig.js"
import { UploadsApp } from "../uploads/UploadsApp.js"
import { ApiApp } from "./ApiApp.js"
import * as HealthRoutes from "./HealthRoutes.js"
import * as Listening from "./Listening.js"
import * as Pages from "./Pages.js"
import { UiApp } from "./Pages.js"
import type { Readiness } from "./Readiness.js"
import { dispatch } from "./RequestTurns.js"

/** The listening server and its URL. */
export class Server extends Context.Tag("nightshift/http/Server")<Server, { readonly url: string }>() {}

interface Apps {
  readonly api: HttpApp.Default
  readonly uploads: HttpApp.Default
  readonly ui: HttpApp.Default
}

const appWith = ({ api, ui, uploads }: Apps, config: Pick<typeof ServerConfig.Service, "host">) => {
  /** Pages check the Host header like the API: a rebound DNS name must not show Mission Control. */
  const page = <E, R>(app: HttpApp.Default<E, R>) =>
    Effect.matchEffect(checkHost(config), { onFailure: (refusal) => Problem.toResponse(refusal), onSuccess: () => app })
  return HealthRoutes.router.pipe(
    HttpRouter.concat(Pages.router({ api, ui }, page)),
    HttpRouter.mountApp("/uploads", uploads, { includePrefix: true }),
    (app) => Listening.guarded(app)
  )
}

/** Serves API, uploads, webhooks, pages and health routes on one port. */
export const layer: Layer.Layer<
  Server,
  Listening.ListenFailed,
  ServerConfig | ApiApp | UploadsApp | UiApp | WebhookEndpoint | Readiness | Metrics | EventLoop | Lifecycle
> = Layer.scoped(
  Server,
  Effect.gen(function* () {
    const config = yield* ServerConfig
    if (ClientAddress.trustsEveryone(config.trustProxy)) {
      yield* Effect.logWarning(`${ClientAddress.trustsEveryoneText} ${ClientAddress.trustsEveryoneRemedy}`)
    }
    const uploads = yield* UploadsApp
    const server = yield* Listening.open(uploads.timeout)
    const lifecycle = yield* Lifecycle
    // Starts draining first, which ends live event streams; they would keep the server from closing.
    yield* Effect.addFinalizer(() => lifecycle.drain)
    // A draining process answers one more request per connection, with `Connection: close`: clients go to another process. If it closed the
    // connections that they keep, the next request of a busy client could be on its way.
    const release = Effect.sync(() => {
      server.maxRequestsPerSocket = 1
    })
    yield* Effect.forkScoped(Effect.zipRight(lifecycle.untilDraining, release))
    const apps = { api: yield* ApiApp, uploads: uploads.app, ui: yield* UiApp }
    dispatch(server, (yield* WebhookEndpoint).take, yield* NodeHttpServer.makeHandler(appWith(apps, config)))
    return { url: yield* Listening.listen(server, config, { port: "--port or PORT", host: "--host or HOST" }) }
  })
).pipe(Layer.provide(Attempts.layer))
