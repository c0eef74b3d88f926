import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Console, Effect, Layer, Option } from "effect"
import { Lifecycle } from "../core/Lifecycle.js"
import * as Gauges from "../crew/Gauges.js"
import { Database } from "../database/Database.js"
import * as DatabaseClock from "../database/DatabaseClock.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { DatabaseUrl } from "../database/DatabaseUrl.js"
import * as EmbeddedPostgres from "../database/embedded/EmbeddedPostgres.js"
import * as Listener from "../database/Listener.js"
import { Migrations } from "../database/Migrations.js"
import * as Package from "../database/Package.js"
import { Readiness } from "../http/Readiness.js"
import * as Server from "../http/Server.js"
import { ServerConfig } from "../http/ServerConfig.js"
import { EventLoop } from "../telemetry/EventLoop.js"
import { Metrics } from "../telemetry/Metrics.js"
import * as CommonOptions from "./CommonOptions.js"
import { type ChosenDatabase, DatabaseChoice, fromConfig } from "./DatabaseChoice.js"
import * as Running from "./Running.js"

const host = Options.text("host").pipe(
  Options.withDescription("The address to listen on (default 127.0.0.1)."),
  Options.optional
)
const port = Options.integer("port").pipe(
  Options.withDescription("The port to listen on (default 8787); 0 takes a free one."),
  Options.optional
)

const doors = Server.layer.pipe(Layer.provideMerge(Gauges.layer), Layer.provide(EventLoop.layer))

const migrated = Layer.effectDiscard(Effect.flatMap(Migrations, (migrations) => migrations.migrate))

/** An embedded server that ends by itself takes the process with it: starting anew is how it recovers. */
const watchServer = Layer.scopedDiscard(
  Effect.gen(function* () {
    const server = yield* EmbeddedPostgres.EmbeddedPostgres
    const lifecycle = yield* Lifecycle
    yield* Effect.forkScoped(Effect.flatMap(server.ended, lifecycle.collapse))
  })
)

const serverOf = (
  choice: ChosenDatabase
): Layer.Layer<DatabaseUrl, EmbeddedPostgres.EmbeddedPostgresError, Lifecycle> =>
  choice._tag === "Served"
    ? DatabaseUrl.layerOf(choice.url)
    : Layer.provide(
        Layer.merge(DatabaseUrl.layerEmbedded, watchServer),
        EmbeddedPostgres.layerDurable(choice.directory)
      )

/** Everything that needs PostgreSQL, from the server up to the doors. The schema is current before anyone uses it. */
const withDatabase = (choice: ChosenDatabase) =>
  doors.pipe(
    Layer.provide(Readiness.layer),
    Layer.provide(Gauges.layerDatabase),
    Layer.provide(DatabaseClock.layer),
    Layer.provide(Listener.layer),
    Layer.provide(migrated),
    Layer.provide(Migrations.layer),
    Layer.provide(Database.layer),
    Layer.provide(serverOf(choice)),
    Layer.provide(DatabaseConfig.layer)
  )

const withoutDatabase = doors.pipe(Layer.provide(Readiness.layerWithoutDatabase))

const whereDataIs = DatabaseChoice.$match({
  Served: () => "the PostgreSQL of DATABASE_URL",
  Embedded: ({ directory }) => `an embedded PostgreSQL in ${directory}`,
  None: () => "nowhere: queue, crew and uploads are off. Set DATABASE_URL or add --embedded for them"
})

const greeting = (url: string, choice: DatabaseChoice) => `
Nightshift ${Package.version.text} is up

  doors    ${url}
  health   ${url}/healthz  ${url}/readyz
  metrics  ${url}/metrics
  data     ${whereDataIs(choice)}

Stop it with Ctrl-C.
`

/** Serves until interrupted; then it is not ready any more while what runs may finish, and closes in reverse order. */
const serve = Effect.gen(function* () {
  const choice = yield* fromConfig
  if (choice._tag === "None") {
    yield* Effect.logWarning(
      "no database: DATABASE_URL is not set and --embedded is not given, so queue, crew and uploads are off"
    )
  }
  const house = choice._tag === "None" ? withoutDatabase : withDatabase(choice)
  const lifecycle = yield* Lifecycle
  yield* Effect.gen(function* () {
    const { url } = yield* Server.Server
    yield* Console.log(greeting(url, choice))
    yield* lifecycle.collapsed
  }).pipe(
    Effect.onExit(() => Effect.zipRight(lifecycle.drain, Effect.logInfo("shutting down"))),
    Effect.provide(house)
  )
}).pipe(Effect.provide(Layer.mergeAll(DatabaseConfig.layer, ServerConfig.layer, Lifecycle.layer, Metrics.layer)))

/** `nightshift serve` */
export const command = Command.make("serve", { ...CommonOptions.database, host, port }, (options) =>
  serve.pipe(
    Running.configured({
      ...CommonOptions.databaseFlags(options),
      HOST: Option.getOrUndefined(options.host),
      PORT: Option.getOrUndefined(Option.map(options.port, String))
    })
  )
).pipe(Command.withDescription("Run the service until it is told to stop."))
