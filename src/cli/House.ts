import { Effect, Layer } from "effect"
import { Lifecycle } from "../core/Lifecycle.js"
import * as Crew from "../crew/Crew.js"
import { CrewConfig } from "../crew/CrewConfig.js"
import * as Gauges from "../crew/Gauges.js"
import { JanitorConfig } from "../crew/Janitor.js"
import * as Assets from "../dashboard/Assets.js"
import { Database } from "../database/Database.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../database/embedded/EmbeddedPostgres.js"
import * as Listener from "../database/Listener.js"
import { Migrations } from "../database/Migrations.js"
import * as AdminToken from "../http/AdminToken.js"
import { ApiApp } from "../http/ApiApp.js"
import { Readiness } from "../http/Readiness.js"
import * as Server from "../http/Server.js"
import { ServerConfig } from "../http/ServerConfig.js"
import { UiApp } from "../http/UiApp.js"
import * as QueuePg from "../queue/QueuePg.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import type { App } from "./App.js"
import type { ChosenDatabase } from "./DatabaseChoice.js"

// The service as layers, from the database at the bottom to the doors at the top. They are built from the bottom up, and
// closed from the top down: the crew stops before the doors do, so that the service answers while it drains.

const pages = Layer.effect(UiApp, Assets.app)

const doors = Server.layer.pipe(Layer.provide(pages), Layer.provideMerge(Gauges.layer), Layer.provide(EventLoop.layer))

const migrated = Layer.effectDiscard(Effect.flatMap(Migrations, (migrations) => migrations.migrate))

/** An embedded server that ends by itself takes the process with it: starting anew is how it recovers. */
const watchServer = Layer.scopedDiscard(
  Effect.gen(function* () {
    const server = yield* EmbeddedPostgres.EmbeddedPostgres
    const lifecycle = yield* Lifecycle
    yield* Effect.forkScoped(Effect.flatMap(server.ended, lifecycle.collapse))
  })
)

const configAsGiven = Layer.effect(ServerConfig, ServerConfig)

/** The server, and the configuration of the doors: an embedded one comes with an admin token. */
const serverOf = (choice: ChosenDatabase) =>
  choice._tag === "Served"
    ? Layer.merge(DatabaseUrl.layerOf(choice.url), configAsGiven)
    : Layer.mergeAll(DatabaseUrl.layerEmbedded, AdminToken.layerConfig, watchServer).pipe(
        Layer.provide(EmbeddedPostgres.layerDurable(choice.directory))
      )

/** Everything, on PostgreSQL. The schema is current before anyone uses it. */
export const onDatabase = (choice: ChosenDatabase, app: App, queues: ReadonlyArray<string>) =>
  Crew.layer({ handlers: app.handlers, queues }).pipe(
    Layer.provide(Layer.merge(CrewConfig.layer, JanitorConfig.layer)),
    Layer.provideMerge(doors),
    Layer.provide(ApiApp.layer),
    Layer.provide(Layer.merge(Readiness.layer, Gauges.layerDatabase)),
    Layer.provide(QueuePg.layer),
    Layer.provide(DatabaseClock.layer),
    Layer.provide(Listener.layer),
    Layer.provide(migrated),
    Layer.provide(Migrations.layer),
    Layer.provide(Database.layer),
    Layer.provideMerge(serverOf(choice)),
    Layer.provide(DatabaseConfig.layer)
  )

/** What works without a database. */
export const alone = doors.pipe(
  Layer.provide(ApiApp.layerWithoutDatabase),
  Layer.provide(Readiness.layerWithoutDatabase),
  Layer.provideMerge(configAsGiven)
)
