import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import * as ValidationError from "@effect/cli/ValidationError"
import { Clock, Console, Duration, Effect, Option, Redacted, Schedule, Schema } from "effect"
import { mostLabelCharacters, type Token, Tokens, tokenSummary } from "../../access/Tokens.js"
import * as BytesText from "../../core/BytesText.js"
import * as DurationText from "../../core/DurationText.js"
import { TokenId, Workspace, workspaceRule } from "../../core/Ids.js"
import * as Audited from "../../http/access/Audited.js"
import * as Instant from "../../http/Instant.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as Operator from "../Operator.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Settings from "../Settings.js"
import { age, printable, table } from "../Terminal.js"
import * as PullClient from "./PullClient.js"
import { PullConfig } from "./PullConfig.js"
import * as Puller from "./Puller.js"
import * as PullFolder from "./PullFolder.js"

const readWorkspace = Schema.decodeUnknown(Workspace)

/** `--workspace` on the command line. */
export const workspace: Options.Options<Workspace> = Options.text("workspace").pipe(
  Options.withDescription("The workspace."),
  Options.mapEffect((text) =>
    Effect.mapError(readWorkspace(text), () =>
      ValidationError.invalidValue(HelpDoc.p(`--workspace ${workspaceRule}, got ${JSON.stringify(text)}.`))
    )
  )
)

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

const pullOptions = {
  workspace: workspace,
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

export const pull = Command.make("pull", pullOptions, (given) =>
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
    Settings.configured({
      UPLOADS_URL: Option.getOrUndefined(given.url),
      UPLOADS_TOKEN: Option.getOrUndefined(given.token)
    })
  )
).pipe(Command.withDescription("Fetch a workspace's files into a folder as they arrive. Safe to kill at any time."))

const tokenOptions = { workspace: workspace, ...CommonOptions.database, json: CommonOptions.json }

const label = Options.text("label").pipe(Options.withDescription("Label shown in lists."), Options.withDefault(""))

const readId = Schema.decode(TokenId)

const id = Args.text({ name: "id" }).pipe(
  Args.withDescription("The token's id, as shown by `list`."),
  Args.mapEffect((text) =>
    Effect.mapError(readId(text.toLowerCase()), () =>
      HelpDoc.p(`A token id must be a UUID, got ${JSON.stringify(text)}.`)
    )
  )
)

const viewOf = ({ createdAt, id, label, prefix, workspace }: Token) => ({
  id,
  workspace,
  prefix,
  label,
  createdAt: Instant.format(createdAt)
})

/** Prints only the token to stdout, so that scripts can capture it. */
const create = Command.make("create", { ...tokenOptions, label, reason: Operator.reason }, (given) =>
  Effect.gen(function* () {
    if (given.label.length > mostLabelCharacters) {
      return yield* new UsageError({
        message: `--label must be at most ${mostLabelCharacters} characters long, got ${given.label.length}.`
      })
    }
    yield* Effect.gen(function* () {
      const audited = yield* Audited.make
      const made = yield* Effect.flatMap(Tokens, (tokens) => tokens.create(given.workspace, given.label)).pipe(
        audited(
          "token.create",
          ({ id }) => id,
          (made) => ({ after: tokenSummary(made) })
        ),
        Operator.acting(given.reason)
      )
      const token = Redacted.value(made.secret)
      if (given.json) return yield* Console.log(JSON.stringify({ ...viewOf(made), token }))
      yield* Console.error(`Token for ${given.workspace}, shown only once (id ${made.id}):`)
      yield* Console.log(token)
    }).pipe(Effect.provide(QueueLayer.layerForCommand))
  }).pipe(Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Create a token. It is shown only once."))

const list = Command.make("list", tokenOptions, (given) =>
  Effect.gen(function* () {
    const tokens = yield* Effect.flatMap(Tokens, (tokens) => tokens.list(given.workspace))
    if (given.json) return yield* Console.log(JSON.stringify({ tokens: tokens.map(viewOf) }, null, 2))
    if (tokens.length === 0) return yield* Console.log(`${given.workspace} has no tokens.`)
    const now = yield* Clock.currentTimeMillis
    const rows = tokens.map(({ createdAt, id, label, prefix }) => [
      id,
      `${prefix}…`,
      printable(label),
      age(createdAt, now)
    ])
    yield* Console.log(table(["ID", "TOKEN", "LABEL", "CREATED"], rows))
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List a workspace's tokens, without their secrets."))

const revoke = Command.make("revoke", { ...tokenOptions, id, reason: Operator.reason }, (given) =>
  Effect.gen(function* () {
    const audited = yield* Audited.make
    const token = yield* Effect.flatMap(Tokens, (tokens) => tokens.revoke(given.workspace, given.id)).pipe(
      audited("token.revoke", given.id, (token) => ({ before: tokenSummary(token) })),
      Operator.acting(given.reason)
    )
    yield* Console.log(given.json ? JSON.stringify(viewOf(token)) : `revoked ${token.prefix}… (${token.id})`)
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Revoke a token."))

export const tokens = Command.make("tokens").pipe(
  Command.withDescription("Create, list and revoke workspace tokens."),
  Command.withSubcommands([create, list, revoke])
)

export const command = Command.make("uploads").pipe(
  Command.withDescription("Fetch uploaded files and manage workspace tokens."),
  Command.withSubcommands([pull, tokens])
)
