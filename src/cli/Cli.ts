import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { Effect, Layer } from "effect"
import * as Package from "../database/Package.js"
import * as ConfigCommand from "./ConfigCommand.js"
import * as EnqueueCommand from "./EnqueueCommand.js"
import * as Examples from "./Examples.js"
import * as JobsCommand from "./JobsCommand.js"
import * as MigrateCommand from "./MigrateCommand.js"
import * as QueuesCommand from "./QueuesCommand.js"
import * as ServeCommand from "./ServeCommand.js"
import { withPlainPipes } from "./Terminal.js"

const root = Command.make("nightshift").pipe(
  Command.withDescription("A durable job queue, webhook gateway and upload inbox on PostgreSQL."),
  Command.withSubcommands([
    ServeCommand.command,
    EnqueueCommand.command,
    JobsCommand.command,
    QueuesCommand.command,
    MigrateCommand.command,
    ConfigCommand.command
  ])
)

/** Runs one command line. */
export const run = (argv: ReadonlyArray<string>) =>
  Command.run(root, {
    name: "nightshift",
    version: Package.version.text,
    executable: "nightshift",
    summary: Span.text("jobs that are not lost"),
    footer: Examples.footer(argv)
  })(argv).pipe(
    withPlainPipes,
    Effect.provide(Layer.merge(NodeContext.layer, CliConfig.layer({ showBuiltIns: false })))
  )
