import { Effect, Layer, type Redacted } from "effect"
import * as AccessCleanup from "../access/AccessCleanup.js"
import * as AccessPg from "../access/AccessPg.js"
import * as TokensPg from "../access/TokensPg.js"
import * as ClusterPg from "../cluster/ClusterPg.js"
import { Lifecycle } from "../core/Lifecycle.js"
import * as Assets from "../dashboard/Assets.js"
import { Database, patiently } from "../database/Database.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../database/embedded/EmbeddedPostgres.js"
import * as Listener from "../database/Listener.js"
import { Migrations } from "../database/Migrations.js"
import * as Package from "../database/Package.js"
import type { Declarations } from "../gateway/config/Declarations.js"
import * as GatewaySweeper from "../gateway/GatewaySweeper.js"
import * as HistoryPg from "../history/HistoryPg.js"
import { AccessConfig } from "../http/access/AccessConfig.js"
import * as AdminToken from "../http/access/AdminToken.js"
import { ServedCell } from "../http/access/ServedCell.js"
import { ServerConfig } from "../http/ServerConfig.js"
import { ApiApp } from "../http/server/ApiApp.js"
import { UiApp } from "../http/server/Pages.js"
import { Readiness } from "../http/server/Readiness.js"
import * as Server from "../http/server/Server.js"
import { UploadsApp } from "../http/uploads/UploadsApp.js"
import * as QueuePg from "../queue/QueuePg.js"
import { only } from "../queue/settings/QueueDeclaration.js"
import { StreamLimits } from "../queue/workflow/Streams.js"
import * as RateLimitsPg from "../rate-limits/RateLimitsPg.js"
import * as SchedulesPg from "../schedule/SchedulesPg.js"
import * as Seal from "../seal/Seal.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import { Tracing } from "../telemetry/tracing/Tracing.js"
import * as StoragePg from "../uploads/StoragePg.js"
import * as Sweeper from "../uploads/Sweeper.js"
import { UploadsConfig } from "../uploads/UploadsConfig.js"
import { ClusterConfig } from "../worker/ClusterConfig.js"
import * as ConnectionBudget from "../worker/ConnectionBudget.js"
import * as Gauges from "../worker/Gauges.js"
import * as PodLoops from "../worker/PodLoops.js"
import { RemoteWorkers } from "../worker/remote/RemoteWorkers.js"
import * as Shutdown from "../worker/Shutdown.js"
import * as Worker from "../worker/Worker.js"
import { WorkerConfig } from "../worker/WorkerConfig.js"
import type { App } from "./App.js"
import * as GatewayLayer from "./GatewayLayer.js"
import * as RunningAtExit from "./RunningAtExit.js"

// Assembles the service from the database (bottom) to the HTTP server and the worker (top). Layers are built bottom-up
// and closed top-down: the worker stops before the HTTP server, so the service still answers requests while it drains.

const pages = Layer.effect(UiApp, Assets.make())

const httpServer = Server.layer.pipe(
  Layer.provide(pages),
  Layer.provideMerge(Gauges.layer),
  Layer.provide(EventLoop.layer)
)

/** Applies pending migrations. */
export const migrated = Layer.effectDiscard(Effect.flatMap(Migrations, (migrations) => patiently(migrations.migrate)))

/** Stops the process if the embedded server exits: a restart of the process recovers it. */
const watchServer = Layer.scopedDiscard(
  Effect.gen(function* () {
    const server = yield* EmbeddedPostgres.EmbeddedPostgres
    const lifecycle = yield* Lifecycle
    yield* Effect.forkScoped(Effect.flatMap(server.ended, lifecycle.collapse))
  })
)

const configAsGiven = Layer.effect(ServerConfig, ServerConfig)

/** The server of DATABASE_URL. */
export const served = (url: Redacted.Redacted) => Layer.merge(DatabaseUrl.layerOf(url), configAsGiven)

/** The embedded server, which comes with an admin token. */
export const embedded = (
  server: Layer.Layer<EmbeddedPostgres.EmbeddedPostgres, EmbeddedPostgres.EmbeddedPostgresError>
) => Layer.mergeAll(DatabaseUrl.layerEmbedded, AdminToken.layerConfig, watchServer).pipe(Layer.provide(server))

/** An embedded server whose data is deleted when the process exits. */
export const throwaway = Layer.mergeAll(DatabaseUrl.layerEmbedded, configAsGiven, watchServer).pipe(
  Layer.provide(EmbeddedPostgres.layerThrowaway)
)

const declared = Layer.effectDiscard(Effect.flatMap(Readiness, (readiness) => readiness.declared))

/** The full service on a given PostgreSQL server. Migrations run before any other layer uses the database. */
export const onServer = <E, R>(
  server: Layer.Layer<DatabaseUrl | ServerConfig, E, R>,
  app: App,
  hooks: Declarations,
  queues: ReadonlyArray<string>
) =>
  Layer.mergeAll(Shutdown.layer, RunningAtExit.layer, ConnectionBudget.layer, declared).pipe(
    Layer.provideMerge(
      Worker.layer({
        ...app,
        handlers: GatewayLayer.handlers(hooks, app),
        queues: queues.length === 0 ? "none" : only(queues, app.queues),
        loops: Effect.all([...PodLoops.onDatabase, AccessCleanup.make, GatewaySweeper.make])
      })
    ),
    Layer.provide(PodLoops.configs),
    Layer.provideMerge(httpServer),
    Layer.provide(Layer.merge(ApiApp.layer, UploadsApp.layer)),
    Layer.provide(RemoteWorkers.layer),
    Layer.provide([ClusterConfig.layer, AccessConfig.layer, WorkerConfig.layer, ServedCell.layer]),
    Layer.provide([Gauges.layerDatabase, Gauges.layerJobs, Gauges.layerExecutions]),
    Layer.provide(GatewayLayer.onDatabase(hooks, app)),
    Layer.provideMerge(
      Layer.mergeAll(
        SchedulesPg.layer,
        ClusterPg.layer,
        RateLimitsPg.layer,
        StoragePg.layer,
        TokensPg.layer,
        AccessPg.layer
      ).pipe(Layer.provideMerge(Seal.layer(QueuePg.layer, app.codec)))
    ),
    Layer.provide(Layer.merge(UploadsConfig.layer, StreamLimits.layer)),
    Layer.provide(HistoryPg.counting),
    Layer.provide(Tracing.layer(Package.version.text)),
    // Begins its first check while the layers above are built.
    Layer.provide(Readiness.layer),
    Layer.provide(DatabaseClock.layer),
    Layer.provide(Listener.layer),
    Layer.provide(migrated),
    Layer.provide(Migrations.layer),
    Layer.provide(Database.layer),
    Layer.provideMerge(server),
    Layer.provide(DatabaseConfig.layer)
  )

/** The service without a database: the HTTP server and sync bots. */
export const alone = (hooks: Declarations) =>
  Layer.merge(httpServer, Sweeper.layerWithoutDatabase).pipe(
    Layer.provide(Layer.merge(ApiApp.layerWithoutDatabase, UploadsApp.layerWithoutDatabase)),
    Layer.provide(Readiness.layerWithoutDatabase),
    Layer.provide(GatewayLayer.alone(hooks)),
    Layer.provideMerge(configAsGiven)
  )
