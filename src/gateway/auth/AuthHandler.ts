import { Clock, Duration, Effect, Option, type Redacted } from "effect"
import { isSame } from "../../access/ConstantTime.js"
import * as DurationText from "../../core/DurationText.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { BotHandler, Delivery } from "../BotHandler.js"
import { GatewayConfig } from "../config/GatewayConfig.js"
import * as Reply from "../telegram/Reply.js"
import { Telegram } from "../telegram/Telegram.js"
import { chatOf, messageIdOf, textOf, userOf } from "../telegram/TelegramUpdate.js"
import { AuthSessions } from "./AuthSessions.js"

const help = "Send /auth and your code to sign in, /whoami to see who you are here, /logout to sign out."

/** Splits a message into the command, without the `@bot` suffix used in groups, and the rest. */
const commandIn = (text: string) => {
  const [, name = "", rest = ""] = /^(\/[a-z_]+)(?:@\w+)?(?:\s+([\s\S]*))?$/i.exec(text.trim()) ?? []
  return { name: name.toLowerCase(), rest: rest.trim() }
}

/** Formats the remaining time in minutes. */
const left = (until: number, now: number) =>
  DurationText.format(Duration.minutes(Math.max(1, Math.ceil((until - now) / 60_000))))

type Step = Effect.Effect<string, DatabaseError>

/** Makes the handler that signs users in and out. */
export const make: Effect.Effect<BotHandler, never, AuthSessions | Telegram | GatewayConfig> = Effect.gen(function* () {
  const sessions = yield* AuthSessions
  const telegram = yield* Telegram
  const { authSecret, sessionTtl } = yield* GatewayConfig

  /** Deletes the message with the code from the chat. Best effort: a failure is only logged. */
  const removeCode = ({ bot, update }: Delivery) => {
    const chat = chatOf(update)
    const id = messageIdOf(update)
    if (chat === undefined || id === undefined) return Effect.void
    return Effect.catchAll(telegram.deleteMessage(bot.token, { chat, id }), (error) =>
      Effect.logWarning(`could not delete a message that contains a sign-in code: ${error.message}`).pipe(
        Effect.annotateLogs({ bot: bot.slug })
      )
    )
  }

  const tryCode = (delivery: Delivery, user: number, code: string, secret: Redacted.Redacted): Step =>
    Effect.gen(function* () {
      const guess = yield* sessions.guess(user)
      const now = yield* Clock.currentTimeMillis
      if (guess._tag === "Locked") return `Too many wrong codes. Try again in ${left(guess.until, now)}.`
      if (isSame(code, secret)) {
        yield* sessions.open(user, sessionTtl)
        yield* removeCode(delivery)
        return `You are signed in for ${DurationText.format(sessionTtl)}.`
      }
      if (guess.left > 0)
        return `That code is wrong. You have ${guess.left} more ${guess.left === 1 ? "try" : "tries"}.`
      return "That code is wrong. Too many wrong codes: try again in 15m."
    })

  const whoAmI = (user: number): Step =>
    Effect.gen(function* () {
      const until = yield* sessions.find(user)
      const now = yield* Clock.currentTimeMillis
      return Option.match(until, {
        onNone: () => `You are user ${user} and are not signed in.`,
        onSome: (end) => `You are user ${user}, signed in for another ${left(end, now)}.`
      })
    })

  const answer = (delivery: Delivery, user: number, text: string): Step => {
    const { name, rest } = commandIn(text)
    switch (name) {
      case "/start":
        return Effect.succeed(`Welcome. ${help}`)
      case "/auth":
        return rest === "" || Option.isNone(authSecret)
          ? Effect.succeed("Send /auth followed by your code, for example /auth 1234.")
          : tryCode(delivery, user, rest, authSecret.value)
      case "/whoami":
        return whoAmI(user)
      case "/logout":
        return Effect.map(sessions.close(user), (was) => (was ? "You are signed out." : "You were not signed in."))
      default:
        return Effect.succeed(help)
    }
  }

  return {
    handle: (delivery) => {
      const { update } = delivery
      const user = userOf(update)
      const text = textOf(update)
      // Ignore edited messages, and channel posts, which have no user.
      if (update.message === undefined || user === undefined || text === undefined) return Effect.succeed(undefined)
      return Effect.map(answer(delivery, user, text), Reply.make)
    }
  }
})
