import { Effect, Layer } from "effect"
import * as BotsFile from "../../gateway/config/BotsFile.js"
import { GatewayConfig } from "../../gateway/config/GatewayConfig.js"
import { closest } from "../../gateway/config/Suggestion.js"
import { Telegram } from "../../gateway/telegram/Telegram.js"
import { UsageError } from "../UsageError.js"

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
      message: `${file} declares no bot ${JSON.stringify(slug)}${near === undefined ? "" : `; did you mean ${near}?`}`
    })
  })
