import { Clock, Console, Duration, Effect, Option, Redacted, Schedule, Schema } from "effect"
import { maxLabelCharacters, type Token, Tokens, tokenSummary } from "../../access/Tokens.js"
import * as BytesText from "../../core/BytesText.js"
import * as DurationText from "../../core/DurationText.js"
import { TokenId, Workspace, workspaceRule } from "../../core/Ids.js"
import * as Audited from "../../http/access/Audited.js"
import * as Instant from "../../http/Instant.js"
import * as CommonOptions from "../CommonOptions.js"
import { notBoth, SomeFailed, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import * as Settings from "../Settings.js"
import { age, counted, printable, printJson, printText, table } from "../Terminal.js"
import * as PullClient from "./PullClient.js"
import { PullConfig } from "./PullConfig.js"
import * as Puller from "./Puller.js"
import * as PullFolder from "./PullFolder.js"

const workspace = Input.required(Input.parsed(Schema.decodeOption(Workspace), workspaceRule), "The workspace.")

const every = Input.parsed(
  (text) => Option.filter(DurationText.parse(text), Duration.greaterThan(Duration.zero)),
  `must be ${DurationText.expected}`
)

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
        : yield* new SomeFailed({
            reasons: [`${counted(missed, "file")} could not be fetched. Run the command again.`]
          })
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

const pull = Command.make({
  about: "Fetch a workspace's files into a folder as they arrive. Safe to kill at any time.",
  options: {
    workspace,
    into: Input.required(Input.folder, "Target folder."),
    url: Input.optional(Input.text, "URL of the service (default UPLOADS_URL, or http://127.0.0.1:8787)."),
    token: Input.optional(
      Input.text,
      "The workspace's token. Prefer UPLOADS_TOKEN: other users of this machine can see command lines."
    ),
    once: Input.flag("Fetch the waiting files and exit."),
    every: Input.optional(every, "Poll interval (default 5s)."),
    json: CommonOptions.json
  },
  examples: {
    "nightshift uploads pull --workspace acme --into inbox --once": "fetch the waiting files and exit",
    "UPLOADS_TOKEN=… nightshift uploads pull --workspace acme --into inbox": "fetch files as they arrive",
    "nightshift uploads pull --workspace acme --into inbox --once --json": "print JSON"
  },
  run: (given) =>
    Effect.gen(function* () {
      yield* notBoth("--once", "--every", given.once && given.every !== undefined)
      const { token, url } = yield* PullConfig
      if (Option.isNone(token)) {
        return yield* new UsageError({ message: "No token is set. Set UPLOADS_TOKEN to the workspace's token." })
      }
      const client = PullClient.make({ url, workspace: given.workspace, token: token.value })
      const folder = yield* PullFolder.take(given.into)
      const round = Puller.round(client, folder, listeners(given.json))
      if (given.once) return yield* pullAll(round)
      yield* keepPulling(round, given.every ?? Duration.seconds(5))
    }).pipe(
      Effect.scoped,
      Effect.provide(PullConfig.layer),
      Settings.configured({ UPLOADS_URL: given.url, UPLOADS_TOKEN: given.token })
    )
})

const viewOf = ({ createdAt, id, label, prefix, workspace }: Token) => ({
  id,
  workspace,
  prefix,
  label,
  createdAt: Instant.format(createdAt)
})

/** Prints only the token to stdout, so that scripts can capture it. */
const create = QueueCommand.make({
  about: "Create a token. It is shown only once.",
  options: {
    workspace,
    label: Input.withDefault(
      Input.parsed(
        Option.liftPredicate((text: string) => text.length <= maxLabelCharacters),
        `must be at most ${maxLabelCharacters} characters long`
      ),
      "",
      "Label shown in lists."
    ),
    reason: Operator.reason
  },
  examples: { "nightshift uploads tokens create --workspace acme": "create a token and print it once" },
  run: ({ json, label, reason, workspace }) =>
    Effect.gen(function* () {
      const audited = yield* Audited.make
      const made = yield* Effect.flatMap(Tokens, (tokens) => tokens.create(workspace, label)).pipe(
        audited(
          "token.create",
          ({ id }) => id,
          (made) => ({ after: tokenSummary(made) })
        ),
        Operator.acting(reason)
      )
      const token = Redacted.value(made.secret)
      if (json) return yield* Console.log(JSON.stringify({ ...viewOf(made), token }))
      yield* Console.error(`Token for ${workspace}, shown only once (id ${made.id}):`)
      yield* Console.log(token)
    })
})

const list = QueueCommand.make({
  about: "List a workspace's tokens, without their secrets.",
  options: { workspace },
  examples: { "nightshift uploads tokens list --workspace acme": "list tokens" },
  run: ({ json, workspace }) =>
    Effect.gen(function* () {
      const tokens = yield* Effect.flatMap(Tokens, (tokens) => tokens.list(workspace))
      if (json) return yield* printJson({ tokens: tokens.map(viewOf) })
      if (tokens.length === 0) return yield* Console.log(`${workspace} has no tokens.`)
      const now = yield* Clock.currentTimeMillis
      const rows = tokens.map(({ createdAt, id, label, prefix }) => [
        id,
        `${prefix}…`,
        printable(label),
        age(createdAt, now)
      ])
      yield* printText(table(["ID", "TOKEN", "LABEL", "CREATED"], rows))
    })
})

const revoke = QueueCommand.make({
  about: "Revoke a token.",
  args: { id: Input.required(Input.uuid(TokenId, "A token id"), "The token's id, as shown by `list`.") },
  options: { workspace, reason: Operator.reason },
  examples: { "nightshift uploads tokens revoke <id> --workspace acme": "revoke a token" },
  run: ({ id, json, reason, workspace }) =>
    Effect.gen(function* () {
      const audited = yield* Audited.make
      const token = yield* Effect.flatMap(Tokens, (tokens) => tokens.revoke(workspace, id)).pipe(
        audited("token.revoke", id, (token) => ({ before: tokenSummary(token) })),
        Operator.acting(reason)
      )
      yield* Console.log(json ? JSON.stringify(viewOf(token)) : `revoked ${token.prefix}… (${token.id})`)
    })
})

export const command = Command.group("Fetch uploaded files and manage workspace tokens.", {
  pull,
  tokens: Command.group("Create, list and revoke workspace tokens.", { create, list, revoke })
})
