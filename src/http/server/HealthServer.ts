import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Layer, Option } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { Lifecycle } from "../../core/Lifecycle.js"
import { Migrations } from "../../database/Migrations.js"
import { EventLoop } from "../../telemetry/EventLoop.js"
import * as Gauges from "../../worker/Gauges.js"
import type { Services } from "../../worker/Nightshift.js"
import type { Worker } from "../../worker/Worker.js"
import { Attempts } from "../access/Attempts.js"
import * as Problem from "../Problem.js"
import { ServerConfig, settings } from "../ServerConfig.js"
import { Health, type HealthAddress } from "./HealthAddress.js"
import * as HealthRoutes from "./HealthRoutes.js"
import * as Listening from "./Listening.js"
import { Readiness } from "./Readiness.js"

/** HOST and PORT are not read: they belong to the program. No route needs an access token. */
const configOf = ({ host, port }: HealthAddress): Layer.Layer<ServerConfig, ConfigError> =>
  Layer.effect(
    ServerConfig,
    Effect.map(
      Effect.all([settings.metricsToken.config, settings.trustProxy.config]),
      ([metricsToken, trustProxy]) => ({
        host,
        port,
        adminToken: Option.none(),
        viewerToken: Option.none(),
        workerTokens: Option.none(),
        metricsToken,
        trustProxy
      })
    )
  )

/** Not a route for `*`: it would match HEAD, which the router otherwise answers like GET. */
const router = Effect.catchTag(HealthRoutes.router, "RouteNotFound", () =>
  Problem.respond(404, "NotFound", "This process serves only GET /healthz, GET /readyz and GET /metrics.")
)

const server = (address: HealthAddress) =>
  Layer.scoped(
    Health,
    Effect.gen(function* () {
      const http = yield* Listening.open()
      http.on("request", yield* NodeHttpServer.makeHandler(Listening.guarded(router)))
      return { url: yield* Listening.listen(http, address, address.settings) }
    })
  )

/** Built above the worker: the process is ready when the worker has started, and not any more when it begins to stop. */
const following = Layer.scopedDiscard(
  Effect.gen(function* () {
    const lifecycle = yield* Lifecycle
    yield* Effect.addFinalizer(() => lifecycle.drain)
    yield* Effect.flatMap(Readiness, ({ declared }) => declared)
  })
)

/** Counted once in a program, even if it has several workers. */
const gauges = Layer.mergeAll(Gauges.layer, Gauges.layerDatabase, Gauges.layerJobs, Gauges.layerExecutions).pipe(
  Layer.provide(EventLoop.layer)
)

/** Fresh, because two workers of one program start and stop independently. */
const serverOf = (address: HealthAddress) =>
  server(address).pipe(
    Layer.provide(Layer.merge(Attempts.layer, EventLoop.layer)),
    Layer.provideMerge(Readiness.layer),
    Layer.provide(Migrations.layer),
    Layer.provideMerge(Lifecycle.layer),
    Layer.provide(configOf(address)),
    Layer.fresh
  )

/** The server is below the worker, so it responds while the worker starts and drains. */
export const around = <E, R>(
  address: HealthAddress,
  worker: Layer.Layer<Worker, E, R>
): Layer.Layer<Worker | Health, E | Listening.ListenFailed | ConfigError, R | Services> =>
  following.pipe(Layer.provideMerge(worker), Layer.provideMerge(Layer.merge(serverOf(address), gauges)))
