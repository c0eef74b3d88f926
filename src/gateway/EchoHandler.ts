import { Effect } from "effect"
import type { BotHandler } from "./BotHandler.js"
import * as Reply from "./telegram/Reply.js"
import { textOf } from "./telegram/TelegramUpdate.js"

/** Replies with the text it received. */
export const make: BotHandler = {
  handle: ({ update }) => Effect.succeed(Reply.make(textOf(update) ?? ""))
}
