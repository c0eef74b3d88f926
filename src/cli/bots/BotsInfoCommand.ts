import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import type { WebhookInfo } from "@grammyjs/types"
import { Console, Effect, Either, Option } from "effect"
import type { BotDeclaration } from "../../gateway/config/Declarations.js"
import { Telegram } from "../../gateway/telegram/Telegram.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Running from "../Running.js"
import * as Table from "../Table.js"
import { printable } from "../Terminal.js"
import { SomeFailed } from "../UsageError.js"
import * as BotsLayer from "./BotsLayer.js"

const slug = Args.text({ name: "slug" }).pipe(
  Args.withDescription("The bot's name in the bots file (default: all bots)."),
  Args.optional
)

interface Known {
  readonly bot: BotDeclaration
  readonly info: Either.Either<WebhookInfo, string>
}

const handlerOf = ({ handler }: BotDeclaration) => (handler._tag === "Kind" ? handler.kind : handler._tag.toLowerCase())

const viewOf = ({ bot, info }: Known) => ({
  bot: bot.slug,
  handler: handlerOf(bot),
  mode: bot.async ? "async" : "sync",
  requireAuth: bot.requireAuth,
  webhook: Either.isLeft(info)
    ? null
    : {
        url: info.right.url === "" ? null : (info.right.url ?? null),
        pendingUpdates: info.right.pending_update_count,
        maxConnections: info.right.max_connections ?? null,
        lastError: info.right.last_error_message ?? null
      },
  error: Either.isLeft(info) ? info.left : null
})

const rowOf = (known: Known) => {
  const { bot, error, handler, mode, webhook } = viewOf(known)
  const said = error ?? webhook?.lastError ?? "-"
  return [bot, handler, mode, webhook?.url ?? "-", String(webhook?.pendingUpdates ?? "-"), said].map(printable)
}

export const command = Command.make("info", { slug, json: CommonOptions.json }, (given) =>
  Effect.gen(function* () {
    const telegram = yield* Telegram
    const bots = yield* Option.match(given.slug, {
      onNone: () => BotsLayer.all,
      onSome: (name) => Effect.map(BotsLayer.find(name), (bot) => [bot])
    })
    const known = yield* Effect.forEach(
      bots,
      (bot) =>
        Effect.map(Effect.either(telegram.getWebhookInfo(bot.token)), (answer) => ({
          bot,
          info: Either.mapLeft(answer, (error) => error.message)
        })),
      { concurrency: 5 }
    )
    if (given.json) yield* Console.log(JSON.stringify(known.map(viewOf), null, 2))
    else if (known.length === 0) yield* Console.log("The bots file declares no bots.")
    else
      yield* Console.log(Table.render(["BOT", "HANDLER", "MODE", "WEBHOOK", "WAITING", "LAST ERROR"], known.map(rowOf)))
    const reasons = known.flatMap(({ bot, info }) => (Either.isLeft(info) ? [`${bot.slug}: ${info.left}`] : []))
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  }).pipe(Effect.provide(BotsLayer.layer), Running.configured({}))
).pipe(Command.withDescription("Show the bots and their webhook status at Telegram."))
