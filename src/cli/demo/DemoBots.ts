import { Effect, Random, Redacted, type Scope } from "effect"
import type { BotDeclaration, Declarations } from "../../gateway/config/Declarations.js"
import { EmulatedFault } from "../../testing/telegram/EmulatedFault.js"
import { TelegramEmulator, type TelegramEmulatorOptions } from "../../testing/telegram/TelegramEmulator.js"
import * as Kinds from "./DemoKinds.js"
import { keep, type Pace, pick } from "./DemoTraffic.js"

// Two bots and the people who write to them, over a Telegram of our own that delivers as the real one does: some updates
// twice, some again because the answer was lost.

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
  sources: []
}

/** How the emulated Telegram delivers. */
export const delivery: TelegramEmulatorOptions = { duplicates: 0.05, lostReplies: 0.05 }

/** This one has blocked the bot: nothing can be said to them any more. */
const offended = 107

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

/** People write until the Scope closes. */
export const start = (url: string, pace: Pace): Effect.Effect<void, never, TelegramEmulator | Scope.Scope> =>
  Effect.gen(function* () {
    const telegram = yield* TelegramEmulator
    yield* telegram.fail(EmulatedFault.Blocked(), {
      method: "sendMessage",
      when: ({ parameters }) => parameters.chat_id === offended
    })
    for (const { slug, token } of declared.bots) {
      const plain = Redacted.value(token)
      yield* telegram.deliverTo(plain, { urls: [`${url}/hooks/telegram/${slug}`], secret })
      yield* telegram.say(plain, { chat: offended, text: "are you there?" })
      yield* keep({ name: slug, first: 8, perSecond: slug === "helpdesk" ? 0.7 : 0.3, act: says(plain) }, pace)
    }
  })
