import { Effect, Random, Redacted, type Scope } from "effect"
import type { BotDeclaration, Declarations } from "../../gateway/config/Declarations.js"
import { EmulatedFault } from "../../testing/telegram/EmulatedFault.js"
import { TelegramEmulator, type TelegramEmulatorOptions } from "../../testing/telegram/TelegramEmulator.js"
import * as Kinds from "./DemoKinds.js"
import { keep, type Pace, pick } from "./DemoTraffic.js"

// Two bots and simulated users. The emulated Telegram delivers some updates twice and redelivers some whose response
// was lost, like the real one.

const secret = "the-demo-has-no-secrets"

const bot = (slug: string, rest: Pick<BotDeclaration, "handler" | "async" | "chatOrder">): BotDeclaration => ({
  slug,
  requireAuth: false,
  onError: "apologize",
  token: Redacted.make(`1:${slug}`),
  secrets: [Redacted.make(secret)],
  ...rest
})

export const declared: Declarations = {
  bots: [
    bot("helpdesk", { handler: { _tag: "Kind", kind: Kinds.AnswerChat.name }, async: true, chatOrder: "serial" }),
    bot("parrot", { handler: { _tag: "Echo" }, async: false, chatOrder: "none" })
  ],
  sources: [],
  push: []
}

export const delivery: TelegramEmulatorOptions = { duplicates: 0.05, lostReplies: 0.05 }

/** This user has blocked the bot, so every message to them fails. */
const blockedUser = 107

const sayings = [
  "where is my order?",
  "does it come in blue?",
  "can I change the address?",
  "thank you!",
  "I want a refund",
  "when is the sale?"
] as const

const says = (token: string) =>
  Effect.gen(function* () {
    const telegram = yield* TelegramEmulator
    const chat = yield* Random.nextIntBetween(100, 112)
    yield* telegram.say(token, { chat, text: yield* pick(sayings) })
  })

/** Sends user messages until the Scope closes. */
export const start = (url: string, pace: Pace): Effect.Effect<void, never, TelegramEmulator | Scope.Scope> =>
  Effect.gen(function* () {
    const telegram = yield* TelegramEmulator
    yield* telegram.fail(EmulatedFault.Blocked(), {
      method: "sendMessage",
      when: ({ parameters }) => parameters.chat_id === blockedUser
    })
    for (const { slug, token } of declared.bots) {
      const plain = Redacted.value(token)
      yield* telegram.deliverTo(plain, { urls: [`${url}/hooks/telegram/${slug}`], secret })
      yield* telegram.say(plain, { chat: blockedUser, text: "are you there?" })
      yield* keep({ name: slug, first: 8, perSecond: slug === "helpdesk" ? 0.7 : 0.3, act: says(plain) }, pace)
    }
  })
