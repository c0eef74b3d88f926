import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Effect, Option } from "effect"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import * as CommonOptions from "./CommonOptions.js"
import * as DatabaseChoice from "./DatabaseChoice.js"
import * as Settings from "./Settings.js"

const host = Options.text("host").pipe(
  Options.withDescription("Address to listen on (default 127.0.0.1)."),
  Options.optional
)
const port = Options.integer("port").pipe(
  Options.withDescription("Port to listen on (default 8787); 0 picks a free one."),
  Options.optional
)
const queues = Options.text("queues").pipe(
  Options.withDescription(
    "Comma-separated queues to serve, or `none` to run no jobs (default: `default` and the queues of the app's kinds and the async bots)."
  ),
  Options.optional
)
const app = Options.text("app").pipe(
  Options.withDescription(
    "JavaScript or TypeScript module that exports `handlers` and optionally `layer`, `queues`, `routes`, `schedules` and `limits`."
  ),
  Options.optional
)

// An embedded server starts while the modules of the service load, which takes longer.
const serve = (module: Option.Option<string>) =>
  Effect.gen(function* () {
    const database = yield* DatabaseChoice.started
    const { serve } = yield* Effect.promise(() => import("./Serve.js"))
    yield* serve(module, database)
  }).pipe(Effect.scoped, Effect.provide(DatabaseConfig.layer))

export const command = Command.make("serve", { ...CommonOptions.database, host, port, queues, app }, (options) =>
  serve(options.app).pipe(
    Settings.configuredService({
      ...CommonOptions.databaseFlags(options),
      HOST: Option.getOrUndefined(options.host),
      PORT: Option.getOrUndefined(Option.map(options.port, String)),
      NIGHTSHIFT_QUEUES: Option.getOrUndefined(options.queues)
    })
  )
).pipe(Command.withDescription("Start the service: HTTP server, workers and Mission Control."))
