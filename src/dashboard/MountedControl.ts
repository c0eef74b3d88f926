import type { IncomingMessage, ServerResponse } from "node:http"
import * as HttpApp from "@effect/platform/HttpApp"
import * as HttpServerRequest from "@effect/platform/HttpServerRequest"
import * as HttpServerResponse from "@effect/platform/HttpServerResponse"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Context, Effect, Layer, Option, type Scope } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as AccessPg from "../access/AccessPg.js"
import { Lifecycle } from "../core/Lifecycle.js"
import { Bots } from "../gateway/Bots.js"
import { Deliveries } from "../gateway/Deliveries.js"
import { AccessConfig } from "../http/access/AccessConfig.js"
import { AppLogin, type Visitor } from "../http/access/AppLogin.js"
import { ServerConfig } from "../http/ServerConfig.js"
import { ApiApp } from "../http/server/ApiApp.js"
import * as Listening from "../http/server/Listening.js"
import * as Pages from "../http/server/Pages.js"
import { withWebBody } from "../http/server/WebBody.js"
import type { JobOverview } from "../queue/search/JobOverview.js"
import type { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import { ClusterConfig } from "../worker/ClusterConfig.js"
import type { Services } from "../worker/Nightshift.js"
import { RemoteWorkers } from "../worker/remote/RemoteWorkers.js"
import { WorkerConfig } from "../worker/WorkerConfig.js"
import * as Assets from "./Assets.js"

// Mission Control inside another app: the routes of `nightshift serve` for its pages and its API, without a server, tokens
// and sessions of their own. The app receives the requests and says who sent them.

export interface MountOptions {
  /** Where the app has Mission Control, without a slash at the end: `/ops`. */
  readonly path: string
  /** The app's login page, for visitors who may not enter. */
  readonly loginUrl: string | undefined
  /** Sources of `frame-ancestors`. */
  readonly frameAncestors: string | undefined
}

/** Answers requests whose path begins at `/ui`, `/api` or `/docs`. A request without a visitor is refused. */
export interface MountedControl {
  readonly handle: (request: IncomingMessage, response: ServerResponse, visitor: Visitor | undefined) => void
  readonly fetch: (request: Request, visitor: Visitor | undefined) => Promise<Response>
}

/** There is no listener and no token. */
const config = Layer.succeed(ServerConfig, {
  host: "",
  port: 0,
  adminToken: Option.none(),
  viewerToken: Option.none(),
  workerTokens: Option.none(),
  metricsToken: Option.none(),
  trustProxy: ""
})

const refused = "Log in to this application with an account that may use Mission Control.\n"

/** Sends a visitor of a page to the login of the app. */
const turnAway = (loginUrl: string | undefined) =>
  loginUrl === undefined
    ? HttpServerResponse.text(refused, { status: 401 })
    : HttpServerResponse.empty({ status: 303, headers: { location: loginUrl } })

/** Builds Mission Control on the services of a client. Its event streams end with the Scope. */
export const make = (
  options: MountOptions
): Effect.Effect<MountedControl, ConfigError, Services | JobDiagnosis | JobOverview | Scope.Scope> =>
  Effect.gen(function* () {
    const login = new AppLogin()
    const ui = Layer.effect(Pages.UiApp, Assets.make(options.loginUrl ?? ""))
    const layer = Layer.mergeAll(ApiApp.layerFor(login.identify), ui).pipe(
      Layer.provide(RemoteWorkers.layer),
      Layer.provide([
        config,
        AccessConfig.layer,
        ClusterConfig.layer,
        WorkerConfig.layer,
        AccessPg.layer,
        Bots.layerNone,
        Deliveries.layer
      ]),
      Layer.provideMerge(Lifecycle.layer)
    )
    const context = yield* Layer.build(layer)
    yield* Effect.addFinalizer(() => Context.get(context, Lifecycle).drain)
    const page = <E, R>(app: HttpApp.Default<E, R>): HttpApp.Default<E, R> =>
      Effect.flatMap(HttpServerRequest.HttpServerRequest, (request) =>
        login.isAdmitted(request) ? app : Effect.succeed(turnAway(options.loginUrl))
      )
    const apps = { api: Context.get(context, ApiApp), ui: Context.get(context, Pages.UiApp) }
    const app = Listening.guarded(Pages.router(apps, page, options.path), options.frameAncestors)
    const onNode = yield* NodeHttpServer.makeHandler(app)
    const onWeb = HttpApp.toWebHandlerRuntime(yield* Effect.runtime<never>())(Effect.map(app, withWebBody))
    const admit = (source: object, visitor: Visitor | undefined) => {
      if (visitor !== undefined) login.admit(source, visitor)
    }
    return {
      handle: (request, response, visitor) => {
        admit(request, visitor)
        onNode(request, response)
      },
      fetch: (request, visitor) => {
        admit(request, visitor)
        return onWeb(request)
      }
    }
  })
