import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import type { WebhookInfo } from "@grammyjs/types"
import { Console, Effect, Either, Layer, Option } from "effect"
import { closest } from "../../core/Spelling.js"
import * as BotsFile from "../../gateway/config/BotsFile.js"
import { type BotDeclaration, updatesOf } from "../../gateway/config/Declarations.js"
import { GatewayConfig } from "../../gateway/config/GatewayConfig.js"
import { Telegram } from "../../gateway/telegram/Telegram.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as Settings from "../Settings.js"
import { printable, table } from "../Terminal.js"

export const layer = Layer.provideMerge(Telegram.layer, GatewayConfig.layer)

/**
 * Returns all bots of the bots file. Skips the checks for a database and registered kinds: these commands run no jobs.
 */
export const all = Effect.map(BotsFile.load({ database: true, kinds: undefined }), ({ bots }) => bots)

export const find = (slug: string) =>
  Effect.gen(function* () {
    const bots = yield* all
    const bot = bots.find((each) => each.slug === slug)
    if (bot !== undefined) return bot
    const near = closest(
      slug,
      bots.map((each) => each.slug)
    )
    const file = BotsFile.fileOf(yield* GatewayConfig)
    return yield* new UsageError({
      message: `${file} declares no bot ${JSON.stringify(slug)}${near === undefined ? ". Check the name, or add the bot to the file." : `; did you mean ${near}?`}`
    })
  })

const slugToShow = Args.text({ name: "slug" }).pipe(
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
  const lastProblem = error ?? webhook?.lastError ?? "-"
  return [bot, handler, mode, webhook?.url ?? "-", String(webhook?.pendingUpdates ?? "-"), lastProblem].map(printable)
}

export const info = Command.make("info", { slug: slugToShow, json: CommonOptions.json }, (given) =>
  Effect.gen(function* () {
    const telegram = yield* Telegram
    const bots = yield* Option.match(given.slug, {
      onNone: () => all,
      onSome: (name) => Effect.map(find(name), (bot) => [bot])
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
    else yield* Console.log(table(["BOT", "HANDLER", "MODE", "WEBHOOK", "WAITING", "LAST ERROR"], known.map(rowOf)))
    const reasons = known.flatMap(({ bot, info }) => (Either.isLeft(info) ? [`${bot.slug}: ${info.left}`] : []))
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  }).pipe(Effect.provide(layer), Settings.configured({}))
).pipe(Command.withDescription("Show the bots and their webhook status at Telegram."))

const slug = Args.text({ name: "slug" }).pipe(Args.withDescription("The bot's name in the bots file."))

const options = {
  url: Options.text("url").pipe(Options.withDescription("Public URL of this service, as in https://bots.example.org.")),
  maxConnections: Options.integer("max-connections").pipe(
    Options.withDescription("Maximum number of parallel deliveries by Telegram, 1 to 100 (Telegram's default: 40)."),
    Options.optional
  ),
  dropPending: Options.boolean("drop-pending").pipe(
    Options.withDescription("Drop updates that are waiting for delivery.")
  ),
  json: CommonOptions.json
}

/** Returns the bot's webhook URL. A URL that already contains the hooks path is used unchanged. */
const webhookAt = (text: string, slug: string): Effect.Effect<string, UsageError> => {
  const url = URL.canParse(text) ? new URL(text) : undefined
  if (url === undefined || !/^https?:$/.test(url.protocol) || url.search !== "" || url.hash !== "") {
    return new UsageError({
      message: `--url must be a URL like https://bots.example.org, got ${JSON.stringify(text)}.`
    })
  }
  const path = `/hooks/telegram/${slug}`
  return Effect.succeed(url.pathname.endsWith(path) ? url.href : `${url.href.replace(/\/+$/, "")}${path}`)
}

export const setWebhook = Command.make("set-webhook", { slug, ...options }, (given) =>
  Effect.gen(function* () {
    const bot = yield* find(given.slug)
    const url = yield* webhookAt(given.url, bot.slug)
    const [secret] = bot.secrets
    const most = Option.getOrUndefined(given.maxConnections)
    if (most !== undefined && (most < 1 || most > 100)) {
      return yield* new UsageError({ message: `--max-connections must be between 1 and 100, got ${most}.` })
    }
    if (secret === undefined)
      return yield* new UsageError({
        message: `The bot ${bot.slug} has no secret. Set BOT_${bot.slug.toUpperCase().replaceAll("-", "_")}_SECRET.`
      })
    const telegram = yield* Telegram
    yield* telegram.setWebhook(bot.token, {
      url,
      secret,
      maxConnections: most,
      updates: updatesOf(bot),
      dropPending: given.dropPending ? true : undefined
    })
    yield* Console.log(
      given.json ? JSON.stringify({ bot: bot.slug, url }) : `Telegram now delivers updates of ${bot.slug} to ${url}`
    )
  }).pipe(Effect.provide(layer), Settings.configured({}))
).pipe(Command.withDescription("Register a bot's webhook URL and secret with Telegram."))

export const command = Command.make("bots").pipe(
  Command.withDescription("Register bots with Telegram and inspect them."),
  Command.withSubcommands([setWebhook, info])
)
