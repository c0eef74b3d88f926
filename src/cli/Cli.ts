import * as CliConfig from "@effect/cli/CliConfig"
import * as Command from "@effect/cli/Command"
import * as Span from "@effect/cli/HelpDoc/Span"
import * as ValidationError from "@effect/cli/ValidationError"
import * as NodeContext from "@effect/platform-node/NodeContext"
import { Array, Console, Effect, Layer } from "effect"
import * as Package from "../database/Package.js"
import * as Completions from "./Completions.js"
import * as Examples from "./Examples.js"
import { UsageError } from "./Failure.js"
import * as Help from "./Help.js"
import { withPlainPipes, withPrinted } from "./Terminal.js"
import * as UsageText from "./UsageText.js"

/** Commands in the order shown by --help. Each is imported only when it runs, which keeps startup fast. */
const commands = {
  serve: () => import("./ServeCommand.js"),
  demo: () => import("./demo/DemoCommand.js"),
  init: () => import("./init/InitCommand.js"),
  enqueue: () => import("./jobs/EnqueueCommand.js"),
  jobs: () => import("./jobs/JobsCommand.js"),
  batches: () => import("./jobs/BatchesCommand.js"),
  workflows: () => import("./workflows/WorkflowsCommand.js"),
  queues: () => import("./queues/QueuesCommand.js"),
  schedules: () => import("./schedules/SchedulesCommand.js"),
  uploads: () => import("./uploads/UploadsCommand.js"),
  bots: () => import("./bots/BotsCommand.js"),
  migrate: () => import("./MigrateCommand.js"),
  doctor: () => import("./DoctorCommand.js"),
  config: () => import("./ConfigCommand.js"),
  simulate: () => import("./simulate/SimulateCommand.js"),
  chaos: () => import("./chaos/ChaosCommand.js")
}

/** Loads only the named command, or all of them for --help, completions and suggestions for a misspelled name. */
const load = async (argv: ReadonlyArray<string>) => {
  const named = Object.entries(commands).filter(([name]) => name === argv[2])
  const chosen = named.length > 0 ? named : Object.entries(commands)
  const modules = await Promise.all(chosen.map(([, module]) => module()))
  const subcommands = Array.map(modules, ({ command }) => command)
  if (!Array.isNonEmptyArray(subcommands)) throw new Error("there are no commands")
  return Command.make("nightshift").pipe(
    Command.withDescription("A durable job queue, webhook gateway and upload inbox on PostgreSQL."),
    Command.withSubcommands(subcommands)
  )
}

// The parser's pattern for `--name=value` stops at a line break, so it would reject a multi-line payload.
const severalLines = /^(--[^=\s]+)=(.*[\n\r\u2028\u2029].*)$/s
const splitOption = (argument: string) => severalLines.exec(argument)?.slice(1) ?? [argument]

export const run = (given: ReadonlyArray<string>) => {
  const argv = given.flatMap(splitOption)
  return Effect.gen(function* () {
    const root = yield* Effect.promise(() => load(argv))
    const asksForHelp = argv.includes("--help") || argv.includes("-h")
    const unknown = asksForHelp ? UsageText.unknownOf(root.descriptor, argv) : undefined
    if (unknown !== undefined) return yield* new UsageError({ message: unknown })
    const console = yield* Console.consoleWith(Effect.succeed)
    const main = Command.run(Command.transformHandler(root, Effect.withConsole(console)), {
      name: "nightshift",
      version: Package.version.text,
      executable: "nightshift",
      summary: Span.text("durable jobs on PostgreSQL"),
      footer: Examples.footer(argv)
    })
    return yield* main(argv).pipe(
      Completions.withFixedScripts(root, argv),
      // The parser prints its own wording of an error. Discard it and print ours.
      Effect.withConsole({ ...console, error: () => Effect.void }),
      Effect.mapError((error) =>
        ValidationError.isValidationError(error)
          ? new UsageError({ message: UsageText.describe(error, root.descriptor, argv) })
          : error
      )
    )
  }).pipe(
    withPrinted((text) => Help.tidy(text, Examples.wordsOf(argv))),
    withPlainPipes,
    Effect.provide(Layer.merge(NodeContext.layer, CliConfig.layer({ showBuiltIns: false })))
  )
}
