import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { Effect, Layer } from "effect"
import * as Package from "../database/Package.js"
import * as ConfigCommand from "./ConfigCommand.js"
import * as MigrateCommand from "./MigrateCommand.js"
import * as ServeCommand from "./ServeCommand.js"
import { withPlainPipes } from "./Terminal.js"

const examples = HelpDoc.blocks([
  HelpDoc.h1("EXAMPLES"),
  HelpDoc.p("nightshift serve --embedded          the whole service on a PostgreSQL of its own"),
  HelpDoc.p("nightshift serve --port 9000         on the database of DATABASE_URL"),
  HelpDoc.p("nightshift migrate --dry-run         what a start would change in the database"),
  HelpDoc.p("nightshift config                    every setting and its value")
])

const root = Command.make("nightshift").pipe(
  Command.withDescription("A durable job queue, webhook gateway and upload inbox on PostgreSQL."),
  Command.withSubcommands([ServeCommand.command, MigrateCommand.command, ConfigCommand.command])
)

/** Runs one command line. */
export const run = (argv: ReadonlyArray<string>) =>
  Command.run(root, {
    name: "nightshift",
    version: Package.version.text,
    executable: "nightshift",
    summary: Span.text("jobs that are not lost"),
    footer: examples
  })(argv).pipe(
    withPlainPipes,
    Effect.provide(Layer.merge(NodeContext.layer, CliConfig.layer({ showBuiltIns: false })))
  )
