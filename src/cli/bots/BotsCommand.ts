import { Console, Effect, Either, Layer } from "effect"
import * as HttpUrl from "../../core/HttpUrl.js"
import { suggestion } from "../../core/Spelling.js"
import * as BotsFile from "../../gateway/config/BotsFile.js"
import { type BotDeclaration, updatesOf } from "../../gateway/config/Declarations.js"
import { GatewayConfig } from "../../gateway/config/GatewayConfig.js"
import { Telegram, type WebhookInfo } from "../../gateway/telegram/Telegram.js"
import * as CommonOptions from "../CommonOptions.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Settings from "../Settings.js"
import { printable, printJson, printText, table } from "../Terminal.js"

const layer = Layer.provideMerge(Telegram.layer, GatewayConfig.layer)

/**
 * Returns all bots of the bots file. Skips the checks for a database and registered kinds: these commands run no jobs.
 */
const all = Effect.map(BotsFile.load({ database: true, kinds: undefined }), ({ bots }) => bots)

const find = (slug: string) =>
  Effect.gen(function* () {
    const bots = yield* all
    const bot = bots.find((each) => each.slug === slug)
    if (bot !== undefined) return bot
    const slugs = bots.map((each) => each.slug)
    const advice = suggestion(slug, slugs) || " Check the name, or add the bot to the file."
    const file = BotsFile.fileOf(yield* GatewayConfig)
    return yield* new UsageError({ message: `${file} declares no bot ${JSON.stringify(slug)}.${advice}` })
  })

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

const info = Command.make({
  about: "Show the bots and their webhook status at Telegram.",
  args: { slug: Input.optional(Input.text, "The bot's name in the bots file (default: all bots).") },
  options: { json: CommonOptions.json },
  examples: { "nightshift bots info": "show the bots and their webhooks" },
  run: (given) =>
    Effect.gen(function* () {
      const telegram = yield* Telegram
      const bots = given.slug === undefined ? yield* all : [yield* find(given.slug)]
      const known = yield* Effect.forEach(
        bots,
        (bot) =>
          Effect.map(Effect.either(telegram.getWebhookInfo(bot.token)), (answer) => ({
            bot,
            info: Either.mapLeft(answer, (error) => error.message)
          })),
        { concurrency: 5 }
      )
      if (given.json) yield* printJson(known.map(viewOf))
      else if (known.length === 0) yield* Console.log("The bots file declares no bots.")
      else yield* printText(table(["BOT", "HANDLER", "MODE", "WEBHOOK", "WAITING", "LAST ERROR"], known.map(rowOf)))
      const reasons = known.flatMap(({ bot, info }) => (Either.isLeft(info) ? [`${bot.slug}: ${info.left}`] : []))
      if (reasons.length > 0) return yield* new SomeFailed({ reasons })
    }).pipe(Effect.provide(layer), Settings.configured({}))
})

/** Returns the bot's webhook URL. A URL that already contains the hooks path is used unchanged. */
const webhookAt = (text: string, slug: string): Effect.Effect<string, UsageError> => {
  const url = HttpUrl.parse(text)
  if (url === undefined || url.search !== "" || url.hash !== "") {
    return new UsageError({
      message: `--url must be a URL like https://bots.example.org, got ${JSON.stringify(text)}.`
    })
  }
  const path = `/hooks/telegram/${slug}`
  return Effect.succeed(url.pathname.endsWith(path) ? url.href : `${url.href.replace(/\/+$/, "")}${path}`)
}

const setWebhook = Command.make({
  about: "Register a bot's webhook URL and secret with Telegram.",
  args: { slug: Input.required(Input.text, "The bot's name in the bots file.") },
  options: {
    url: Input.required(Input.text, "Public URL of this service, as in https://bots.example.org."),
    maxConnections: Input.optional(
      Input.integer({ min: 1, max: 100 }),
      "Maximum number of parallel deliveries by Telegram, 1 to 100 (Telegram's default: 40)."
    ),
    dropPending: Input.flag("Drop updates that are waiting for delivery."),
    json: CommonOptions.json
  },
  examples: {
    "nightshift bots set-webhook helper --url https://bots.example.org": "register the webhook with Telegram"
  },
  run: (given) =>
    Effect.gen(function* () {
      const bot = yield* find(given.slug)
      const url = yield* webhookAt(given.url, bot.slug)
      const [secret] = bot.secrets
      if (secret === undefined)
        return yield* new UsageError({
          message: `The bot ${bot.slug} has no secret. Set BOT_${bot.slug.toUpperCase().replaceAll("-", "_")}_SECRET.`
        })
      const telegram = yield* Telegram
      yield* telegram.setWebhook(bot.token, {
        url,
        secret,
        maxConnections: given.maxConnections,
        updates: updatesOf(bot),
        dropPending: given.dropPending ? true : undefined
      })
      yield* Console.log(
        given.json ? JSON.stringify({ bot: bot.slug, url }) : `Telegram now delivers updates of ${bot.slug} to ${url}`
      )
    }).pipe(Effect.provide(layer), Settings.configured({}))
})

export const command = Command.group("Register bots with Telegram and inspect them.", {
  "set-webhook": setWebhook,
  info
})
