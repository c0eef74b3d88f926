import { Console, Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { Migrations } from "../database/Migrations.js"
import * as CommonOptions from "./CommonOptions.js"
import * as DatabaseChoice from "./DatabaseChoice.js"
import * as Command from "./kit/Command.js"
import * as Input from "./kit/Input.js"
import * as MigrationText from "./MigrationText.js"
import * as Settings from "./Settings.js"
import { printJson } from "./Terminal.js"

const layer = Migrations.layer.pipe(
  Layer.provide(Database.layer),
  Layer.provide(DatabaseChoice.layerForCommand),
  Layer.provide(DatabaseConfig.layer)
)

const preview = (json: boolean) =>
  Effect.gen(function* () {
    const plan = yield* Effect.flatMap(Migrations, (migrations) => migrations.plan)
    if (json) return yield* printJson({ applied: plan.applied.length, pending: plan.pending })
    yield* Console.log(MigrationText.describe(plan))
  })

const apply = (json: boolean) =>
  Effect.gen(function* () {
    const applied = (yield* Effect.flatMap(Migrations, (migrations) => migrations.migrate)).map(({ name }) => name)
    if (json) return yield* printJson({ applied })
    if (applied.length === 0) return yield* Console.log("The schema is up to date.")
    yield* Console.log(`Applied ${applied.join(", ")}.`)
  })

export const command = Command.make({
  about: "Apply pending migrations. `serve` does this when it starts.",
  options: {
    ...CommonOptions.database,
    dryRun: Input.flag("Print the statements of pending migrations, their locks and estimated times. Changes nothing."),
    json: CommonOptions.json
  },
  examples: { "nightshift migrate --dry-run": "show what pending migrations would do" },
  run: ({ dryRun, json, ...given }) =>
    Effect.provide(dryRun ? preview(json) : apply(json), layer).pipe(
      Settings.configuredService(CommonOptions.databaseFlags(given))
    )
})
