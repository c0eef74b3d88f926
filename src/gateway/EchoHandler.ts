import { Effect } from "effect"
import type { BotHandler } from "./BotHandler.js"
import * as Reply from "./telegram/Reply.js"
import { textOf } from "./telegram/TelegramUpdate.js"

/** Says what was said. */
export const make: BotHandler = {
  handle: ({ update }) => Effect.succeed(Reply.make(textOf(update) ?? ""))
}
