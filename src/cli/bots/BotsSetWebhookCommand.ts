import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Console, Effect, Option } from "effect"
import { updatesOf } from "../../gateway/config/Declarations.js"
import { Telegram } from "../../gateway/telegram/Telegram.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Running from "../Running.js"
import { UsageError } from "../UsageError.js"
import * as BotsLayer from "./BotsLayer.js"

const slug = Args.text({ name: "slug" }).pipe(Args.withDescription("The bot's name in the bots file."))

const options = {
  url: Options.text("url").pipe(
    Options.withDescription("Where the world reaches this service, as in https://bots.example.org.")
  ),
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

export const command = Command.make("set-webhook", { slug, ...options }, (given) =>
  Effect.gen(function* () {
    const bot = yield* BotsLayer.find(given.slug)
    const url = yield* webhookAt(given.url, bot.slug)
    const [secret] = bot.secrets
    const most = Option.getOrUndefined(given.maxConnections)
    if (most !== undefined && (most < 1 || most > 100)) {
      return yield* new UsageError({ message: `--max-connections must be between 1 and 100, got ${most}.` })
    }
    if (secret === undefined) return yield* new UsageError({ message: `The bot ${bot.slug} has no secret.` })
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
  }).pipe(Effect.provide(BotsLayer.layer), Running.configured({}))
).pipe(Command.withDescription("Register a bot's webhook URL and secret with Telegram."))
