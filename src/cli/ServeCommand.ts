import { Effect } from "effect"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import * as CommonOptions from "./CommonOptions.js"
import * as DatabaseChoice from "./DatabaseChoice.js"
import { UsageError } from "./Failure.js"
import * as Command from "./kit/Command.js"
import * as Input from "./kit/Input.js"
import * as Settings from "./Settings.js"

// An embedded server starts while the modules of the service load, which takes longer.
const serve = (module: string | undefined) =>
  Effect.gen(function* () {
    const database = yield* DatabaseChoice.started
    const { serve } = yield* Effect.promise(() => import("./Serve.js"))
    yield* serve(module, database)
  }).pipe(Effect.scoped, Effect.provide(DatabaseConfig.layer))

export const command = Command.make({
  about: "Start the service: HTTP server, workers and Mission Control.",
  options: {
    ...CommonOptions.database,
    fleet: Input.flag(
      "Start all cells of fleet.yaml in this process, for development. Cells without `database` get an embedded PostgreSQL."
    ),
    host: Input.optional(Input.text, "Address to listen on (default 127.0.0.1)."),
    port: CommonOptions.port,
    queues: Input.optional(
      Input.text,
      "Comma-separated queues to serve, or `none` to run no jobs (default: `default`, the queues of the app and its kinds, the targets of its routes, and the queues of the bots file)."
    ),
    app: Input.optional(
      Input.file,
      "JavaScript or TypeScript module that exports `handlers` and optionally `layer`, `queues`, `routes`, `schedules`, `limits`, `log` and `codec`."
    )
  },
  examples: {
    "nightshift serve --embedded": "start the service with an embedded PostgreSQL",
    "nightshift serve --port 9000": "start it on the database in DATABASE_URL",
    "nightshift serve --fleet": "start all cells of fleet.yaml, for development"
  },
  run: (given) => {
    const { app, cell, embedded, fleet, host, port, queues } = given
    const flags = {
      ...CommonOptions.databaseFlags(given),
      HOST: host,
      PORT: port?.toString(),
      NIGHTSHIFT_QUEUES: queues
    }
    if (!fleet) return Settings.configuredService(flags)(serve(app))
    return Effect.gen(function* () {
      if (embedded || cell !== undefined || queues !== undefined)
        return yield* new UsageError({
          message:
            "--fleet takes databases, cells and queues from the fleet file: leave out --embedded, --cell and --queues."
        })
      const { serve } = yield* Effect.promise(() => import("./fleet/FleetServe.js"))
      yield* serve(app, flags)
    })
  }
})
