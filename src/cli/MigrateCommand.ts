import { Console, Effect, Layer } from "effect"
import { Database } from "../database/Database.js"
import { DatabaseConfig } from "../database/DatabaseConfig.js"
import { Migrations } from "../database/Migrations.js"
import * as CommonOptions from "./CommonOptions.js"
import * as DatabaseChoice from "./DatabaseChoice.js"
import * as Command from "./kit/Command.js"
import * as Input from "./kit/Input.js"
import * as Settings from "./Settings.js"
import { printJson } from "./Terminal.js"

const layer = Migrations.layer.pipe(
  Layer.provide(Database.layer),
  Layer.provide(DatabaseChoice.layerForCommand),
  Layer.provide(DatabaseConfig.layer)
)

const preview = (json: boolean) =>
  Effect.gen(function* () {
    const { applied, pending } = yield* Effect.flatMap(Migrations, (migrations) => migrations.state)
    if (json) {
      const shown = pending.map(({ name, sql }) => ({ name, sql }))
      return yield* printJson({ applied: applied.length, pending: shown })
    }
    if (pending.length === 0)
      return yield* Console.log(
        `The schema is up to date (${applied.length} ${applied.length === 1 ? "migration" : "migrations"} applied).`
      )
    yield* Console.log(`${pending.length} pending:`)
    for (const { name, sql } of pending) yield* Console.log(`\n-- ${name}\n${sql.trimEnd()}`)
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
    dryRun: Input.flag("Print the SQL of pending migrations without applying them."),
    json: CommonOptions.json
  },
  examples: { "nightshift migrate --dry-run": "show pending migrations" },
  run: ({ dryRun, json, ...given }) =>
    Effect.provide(dryRun ? preview(json) : apply(json), layer).pipe(
      Settings.configuredService(CommonOptions.databaseFlags(given))
    )
})
