import { Console, Effect } from "effect"
import * as Package from "../database/Package.js"
import * as Command from "./kit/Command.js"
import * as Completions from "./kit/Completions.js"
import { help } from "./kit/Help.js"
import * as Input from "./kit/Input.js"
import * as Screen from "./kit/Screen.js"

/** Commands in the order shown by --help. Each is imported only when it runs, which keeps startup fast. */
const commands: Readonly<Record<string, () => Promise<{ readonly command: Command.Command }>>> = {
  serve: () => import("./ServeCommand.js"),
  demo: () => import("./demo/DemoCommand.js"),
  init: () => import("./init/InitCommand.js"),
  enqueue: () => import("./jobs/EnqueueCommand.js"),
  publish: () => import("./jobs/PublishCommand.js"),
  endpoints: () => import("./jobs/EndpointsCommand.js"),
  events: () => import("./jobs/EventsCommand.js"),
  jobs: () => import("./jobs/JobsCommand.js"),
  batches: () => import("./jobs/BatchesCommand.js"),
  workflows: () => import("./workflows/WorkflowsCommand.js"),
  queues: () => import("./queues/QueuesCommand.js"),
  schedules: () => import("./schedules/SchedulesCommand.js"),
  erase: () => import("./jobs/EraseCommand.js"),
  uploads: () => import("./uploads/UploadsCommand.js"),
  bots: () => import("./bots/BotsCommand.js"),
  migrate: () => import("./MigrateCommand.js"),
  doctor: () => import("./DoctorCommand.js"),
  keys: () => import("./KeysCommand.js"),
  fleet: () => import("./fleet/FleetCommand.js"),
  mcp: () => import("./mcp/McpCommand.js"),
  config: () => import("./ConfigCommand.js"),
  simulate: () => import("./simulate/SimulateCommand.js"),
  chaos: () => import("./chaos/ChaosCommand.js")
}

const names = Object.keys(commands)

const options = {
  completions: Input.optional(
    Input.choice(Completions.shells),
    "Print a script that completes commands in this shell."
  ),
  help: Command.help,
  version: Input.flag("Print the version.")
}

/** Loads the named command, or all of them for --help and completions. */
const load = async (name: string | undefined): Promise<Command.Command> => {
  const chosen = Object.entries(commands).filter(([each]) => name === undefined || each === name)
  const loaded = await Promise.all(chosen.map(async ([each, module]) => [each, (await module()).command] as const))
  const root: Command.Command = {
    ...Command.make({
      about: "A durable job queue, workflow engine, webhook gateway and upload inbox on PostgreSQL.",
      options,
      examples: {},
      run: ({ completions = "bash" }) => Console.log(Completions.script(completions, root))
    }),
    commands: Object.fromEntries(loaded)
  }
  return root
}

/** Follows the words to the deepest command that they name. */
const find = (root: Command.Command, words: ReadonlyArray<string>) => {
  let command = root
  const path: Array<string> = []
  for (const word of words) {
    const next = Object.hasOwn(command.commands, word) ? command.commands[word] : undefined
    if (next === undefined) break
    command = next
    path.push(word)
  }
  return { command, path, rest: words.slice(path.length) }
}

const isOption = (word: string) => word.startsWith("-")

/** Runs a command line, given with Node's two words before it. */
export const run = (argv: ReadonlyArray<string>): Effect.Effect<unknown, unknown> =>
  Effect.gen(function* () {
    const words = argv.slice(2)
    if (words.includes("--version")) return yield* Console.log(Package.version.text)
    const [first] = words
    const name = first === undefined || isOption(first) ? undefined : first
    if (name !== undefined && !names.includes(name)) return yield* Command.unknownCommand(name, names, [])
    const { command, path, rest } = find(yield* Effect.promise(() => load(name)), words)
    const below = Object.keys(command.commands)
    const [next] = rest
    if (next !== undefined && below.length > 0 && !isOption(next)) {
      return yield* Command.unknownCommand(next, below, path)
    }
    const asksForHelp = rest.includes("--help") || rest.includes("-h")
    if (asksForHelp || (next === undefined && below.length > 0)) {
      return yield* Console.log(help(command, path, yield* Screen.stdout))
    }
    return yield* command.run(rest, path)
  })
