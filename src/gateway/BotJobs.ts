import { Clock, Duration, Effect, Random, Schema } from "effect"
import * as Outcome from "../core/Outcome.js"
import * as Handler from "../handlers/Handler.js"
import type { JobContext } from "../handlers/JobContext.js"
import * as Job from "../queue/Job.js"
import { attemptOf, NonReplyOutcome } from "./BotHandler.js"
import { type Bot, Bots, untilDeclared } from "./Bots.js"
import { type BotDeclaration, kindOf, queueOf } from "./config/Declarations.js"
import { Telegram, type TelegramError, type TelegramThrottled } from "./telegram/Telegram.js"
import { isUpdate, replyChatOf, type Update } from "./telegram/TelegramUpdate.js"

// Telegram's 429 does not say whether the chat's limit or the bot's limit was exceeded. If other chats still receive
// messages, it was the chat's limit. If several chats in a row are throttled and none receives a message, it was the
// bot's limit.

/** Number of chats throttled in a row, with no message sent in between, that means the bot's limit. */
const botWideThreshold = 5

/** Decides whether a throttled message pauses its chat or the whole bot. */
class FloodScope {
  /** Chats throttled since the last sent message, with the end of their wait in epoch milliseconds. */
  private readonly waiting = new Map<number, number>()

  /** Records a sent message, which shows that the bot as a whole is not throttled. */
  sent(): void {
    this.waiting.clear()
  }

  /** Records a throttled chat and returns the scope to pause. */
  throttled(chat: number, until: number, now: number): "key" | "queue" {
    for (const [other, end] of this.waiting) if (end <= now) this.waiting.delete(other)
    this.waiting.set(chat, until)
    return this.waiting.size >= botWideThreshold ? "queue" : "key"
  }
}

/** Accepts any update, including types added by Telegram later. */
const UpdateSchema: Schema.Schema<Update> = Schema.declare(isUpdate, { identifier: "Update" })

/** Telegram's retry-after plus up to 10 % jitter, so chats that were throttled together do not all retry at once. */
const waitOf = ({ retryAfter }: TelegramThrottled, chance: number) =>
  Duration.millis(Math.ceil(retryAfter * 1_000 * (1 + 0.1 * chance)))

const outcomeOf = (error: TelegramError, scope: "key" | "queue", chance: number): Outcome.Outcome => {
  switch (error._tag) {
    case "TelegramThrottled":
      return Outcome.throttled({ after: waitOf(error, chance), scope })
    case "ChatClosed":
    case "TelegramRefused":
      return Outcome.dead(`${error._tag}: ${error.message}`)
    case "TokenRefused":
    case "TelegramUnavailable":
      return Outcome.retry(`${error._tag}: ${error.message}`)
  }
}

const makeRun = (slug: string) => {
  const floods = new FloodScope()

  const scopeOf = (error: TelegramError, chat: number) =>
    Effect.map(Clock.currentTimeMillis, (now) =>
      error._tag === "TelegramThrottled" ? floods.throttled(chat, now + error.retryAfter * 1000, now) : "key"
    )

  const send = (bot: Bot, chat: number, text: string) =>
    Effect.flatMap(Telegram, (telegram) => telegram.sendMessage(bot.token, { chat, text })).pipe(
      Effect.tap(() => floods.sent()),
      Effect.catchAll((error) =>
        Effect.zipWith(scopeOf(error, chat), Random.next, (...how) => outcomeOf(error, ...how))
      )
    )

  return (update: Update, job: JobContext) =>
    Effect.gen(function* () {
      const bot = (yield* Bots).bot(slug)
      if (bot === undefined) return Outcome.snooze(untilDeclared)
      const reply = yield* bot.handle({ bot, update, job })
      const chat = replyChatOf(update)
      if (reply === undefined || chat === undefined) return undefined
      return yield* send(bot, chat, reply.text)
    }).pipe(
      Effect.catchIf(
        (error) => error instanceof NonReplyOutcome,
        (error) => Effect.succeed(error.outcome)
      )
    )
}

/** Makes the handler of an async bot's jobs: runs the bot's handler, then sends the reply. */
const handlerOf = <R>(
  bot: BotDeclaration,
  kinds: ReadonlyArray<Handler.Handler<R>>
): Handler.Handler<Bots | Telegram> => {
  const { timeout, transactional } = attemptOf(bot.handler, kinds)
  const kind = Job.make(kindOf(bot.slug), {
    payload: UpdateSchema,
    queue: queueOf(bot.slug),
    attempts: bot.attempts,
    backoff: bot.backoff,
    timeout
  })
  return transactional ? Handler.makeInTransaction(kind, makeRun(bot.slug)) : Handler.make(kind, makeRun(bot.slug))
}

/** Makes the handlers of all async bots' jobs. */
export const handlers = <R>(
  bots: ReadonlyArray<BotDeclaration>,
  kinds: ReadonlyArray<Handler.Handler<R>>
): ReadonlyArray<Handler.Handler<Bots | Telegram>> =>
  bots.filter((bot) => bot.async).map((bot) => handlerOf(bot, kinds))
