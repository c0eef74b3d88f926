import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { Effect, Layer } from "effect"
import * as Package from "../database/Package.js"
import * as BotsCommand from "./bots/BotsCommand.js"
import * as Completions from "./Completions.js"
import * as ConfigCommand from "./ConfigCommand.js"
import * as DoctorCommand from "./DoctorCommand.js"
import * as DemoCommand from "./demo/DemoCommand.js"
import * as Examples from "./Examples.js"
import * as Help from "./Help.js"
import * as EnqueueCommand from "./jobs/EnqueueCommand.js"
import * as JobsCommand from "./jobs/JobsCommand.js"
import * as MigrateCommand from "./MigrateCommand.js"
import * as QueuesCommand from "./queues/QueuesCommand.js"
import * as ServeCommand from "./ServeCommand.js"
import * as SchedulesCommand from "./schedules/SchedulesCommand.js"
import * as SimulateCommand from "./simulate/SimulateCommand.js"
import { withPlainPipes, withPrinted } from "./Terminal.js"
import * as UploadsCommand from "./uploads/UploadsCommand.js"

const root = Command.make("nightshift").pipe(
  Command.withDescription("A durable job queue, webhook gateway and upload inbox on PostgreSQL."),
  Command.withSubcommands([
    ServeCommand.command,
    DemoCommand.command,
    EnqueueCommand.command,
    JobsCommand.command,
    QueuesCommand.command,
    SchedulesCommand.command,
    UploadsCommand.command,
    BotsCommand.command,
    MigrateCommand.command,
    DoctorCommand.command,
    ConfigCommand.command,
    SimulateCommand.command
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
    Completions.mending(root, argv),
    withPrinted((text) => Help.tidy(text, Examples.wordsOf(argv))),
    withPlainPipes,
    Effect.provide(Layer.merge(NodeContext.layer, CliConfig.layer({ showBuiltIns: false })))
  )
