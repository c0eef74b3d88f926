import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Console, Duration, Effect, Option, Schedule } from "effect"
import * as BytesText from "../../core/BytesText.js"
import * as DurationText from "../../core/DurationText.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Running from "../Running.js"
import { printable } from "../Terminal.js"
import { SomeFailed, UsageError } from "../UsageError.js"
import * as PullClient from "./PullClient.js"
import { PullConfig } from "./PullConfig.js"
import * as Puller from "./Puller.js"
import * as PullFolder from "./PullFolder.js"
import * as WorkspaceOption from "./WorkspaceOption.js"

const every = Options.text("every").pipe(
  Options.withDescription("Poll interval (default 5s)."),
  Options.mapEffect((text) =>
    Option.match(Option.filter(DurationText.parse(text), Duration.greaterThan(Duration.zero)), {
      onNone: () =>
        Effect.fail(
          ValidationError.invalidValue(
            HelpDoc.p(`--every must be ${DurationText.expected}, got ${JSON.stringify(text)}.`)
          )
        ),
      onSome: Effect.succeed
    })
  ),
  Options.optional
)

const options = {
  workspace: WorkspaceOption.option,
  into: Options.text("into").pipe(Options.withDescription("Target folder.")),
  url: Options.text("url").pipe(
    Options.withDescription("URL of the service (default UPLOADS_URL, or http://127.0.0.1:8787)."),
    Options.optional
  ),
  token: Options.text("token").pipe(
    Options.withDescription(
      "The workspace's token. Prefer UPLOADS_TOKEN: other users of this machine can see command lines."
    ),
    Options.optional
  ),
  once: Options.boolean("once").pipe(Options.withDescription("Fetch the waiting files and exit.")),
  every,
  json: CommonOptions.json
}

/** Shows the progress of the current file on a terminal. */
const progress = (json: boolean): Puller.Listeners["progress"] => {
  let shown = ""
  return ({ name, size }, bytes) => {
    if (json || process.stderr.isTTY !== true) return
    const line = `${printable(name)} ${Math.floor((100 * bytes) / size)}% of ${BytesText.format(size)}`
    if (line !== shown) process.stderr.write(`\r\u001b[K${bytes === size ? "" : line}`)
    shown = line
  }
}

const listeners = (json: boolean): Puller.Listeners => ({
  progress: progress(json),
  pulled: ({ file, path }) =>
    Console.log(
      json
        ? JSON.stringify({ outcome: "pulled", ...file, path })
        : `pulled ${printable(file.name)} (${BytesText.format(file.size)}) -> ${path}`
    ),
  missed: (file, { _tag, message }) =>
    json
      ? Console.log(JSON.stringify({ outcome: "missed", ...file, error: { tag: _tag, message } }))
      : Console.error(`missed ${printable(file.name)}: ${message}`)
})

/** Repeats rounds until one fetches nothing: the list of waiting files is limited, so more may follow. */
const pullAll = (round: ReturnType<typeof Puller.round>) =>
  Effect.gen(function* () {
    for (;;) {
      const { missed, pulled } = yield* round
      if (pulled > 0) continue
      return missed === 0
        ? undefined
        : yield* new SomeFailed({ reasons: [`${missed} files could not be fetched. Run the command again.`] })
    }
  })

/** Repeats rounds forever. Logs an outage once, until the service is reachable again; a rejected token ends the command. */
const keepPulling = (round: ReturnType<typeof Puller.round>, every: Duration.Duration) =>
  Effect.gen(function* () {
    let wasAway = false
    yield* round.pipe(
      Effect.tap(() => (wasAway ? Effect.logInfo("the service is reachable again") : Effect.void)),
      Effect.tap(() => {
        wasAway = false
      }),
      Effect.asVoid,
      Effect.catchTag("ServiceUnreachable", (error) => {
        const first = !wasAway
        wasAway = true
        return first ? Effect.logWarning(`${error.message} Retrying every ${DurationText.format(every)}.`) : Effect.void
      }),
      Effect.repeat(Schedule.spaced(every))
    )
  })

export const command = Command.make("pull", options, (given) =>
  Effect.gen(function* () {
    if (given.once && Option.isSome(given.every)) {
      return yield* new UsageError({ message: "Use --once or --every, not both." })
    }
    const { token, url } = yield* PullConfig
    if (Option.isNone(token)) {
      return yield* new UsageError({ message: "No token is set. Set UPLOADS_TOKEN to the workspace's token." })
    }
    const client = PullClient.make({ url, workspace: given.workspace, token: token.value })
    const folder = yield* PullFolder.take(given.into)
    const round = Puller.round(client, folder, listeners(given.json))
    if (given.once) return yield* pullAll(round)
    yield* keepPulling(
      round,
      Option.getOrElse(given.every, () => Duration.seconds(5))
    )
  }).pipe(
    Effect.scoped,
    Effect.provide(PullConfig.layer),
    Running.configured({
      UPLOADS_URL: Option.getOrUndefined(given.url),
      UPLOADS_TOKEN: Option.getOrUndefined(given.token)
    })
  )
).pipe(Command.withDescription("Fetch a workspace's files into a folder as they arrive. Safe to kill at any time."))
