import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import { Clock, Console, Effect, Redacted, Schema } from "effect"
import { mostLabelCharacters, type Token, Tokens } from "../../access/Tokens.js"
import { TokenId } from "../../core/Ids.js"
import * as Audited from "../../http/access/Audited.js"
import * as TokenSummary from "../../http/access/TokenSummary.js"
import * as Instant from "../../http/Instant.js"
import * as Age from "../Age.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Operator from "../Operator.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import * as Table from "../Table.js"
import { printable } from "../Terminal.js"
import { UsageError } from "../UsageError.js"
import * as WorkspaceOption from "./WorkspaceOption.js"

const options = { workspace: WorkspaceOption.option, ...CommonOptions.database, json: CommonOptions.json }

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
const create = Command.make("create", { ...options, label, reason: Operator.reason }, (given) =>
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
          (made) => ({ after: TokenSummary.of(made) })
        ),
        Operator.acting(given.reason)
      )
      const token = Redacted.value(made.secret)
      if (given.json) return yield* Console.log(JSON.stringify({ ...viewOf(made), token }))
      yield* Console.error(`Token for ${given.workspace}, shown only once (id ${made.id}):`)
      yield* Console.log(token)
    }).pipe(Effect.provide(QueueLayer.layerForCommand))
  }).pipe(Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Create a token. It is shown only once."))

const list = Command.make("list", options, (given) =>
  Effect.gen(function* () {
    const tokens = yield* Effect.flatMap(Tokens, (tokens) => tokens.list(given.workspace))
    if (given.json) return yield* Console.log(JSON.stringify({ tokens: tokens.map(viewOf) }, null, 2))
    if (tokens.length === 0) return yield* Console.log(`${given.workspace} has no tokens.`)
    const now = yield* Clock.currentTimeMillis
    const rows = tokens.map(({ createdAt, id, label, prefix }) => [
      id,
      `${prefix}…`,
      printable(label),
      Age.describe(createdAt, now)
    ])
    yield* Console.log(Table.render(["ID", "TOKEN", "LABEL", "CREATED"], rows))
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List a workspace's tokens, without their secrets."))

const revoke = Command.make("revoke", { ...options, id, reason: Operator.reason }, (given) =>
  Effect.gen(function* () {
    const audited = yield* Audited.make
    const token = yield* Effect.flatMap(Tokens, (tokens) => tokens.revoke(given.workspace, given.id)).pipe(
      audited("token.revoke", given.id, (token) => ({ before: TokenSummary.of(token) })),
      Operator.acting(given.reason)
    )
    yield* Console.log(given.json ? JSON.stringify(viewOf(token)) : `revoked ${token.prefix}… (${token.id})`)
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Revoke a token."))

export const command = Command.make("tokens").pipe(
  Command.withDescription("Create, list and revoke workspace tokens."),
  Command.withSubcommands([create, list, revoke])
)
