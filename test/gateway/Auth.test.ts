import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { userOf } from "../../src/gateway/telegram/TelegramUpdate.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { EmulatedFault, TelegramEmulator } from "../../src/testing/effect.js"
import { message } from "./Updates.js"
import { layer, tokenOf, WebhookServer } from "./WebhookServer.js"

const yaml = `
bots:
  desk: { handler: auth }
  closed: { handler: echo }
`

const memory = QueueMemory.layer.pipe(Layer.provide(Wakeups.layer))

const withTelegram = Layer.unwrapEffect(
  Effect.map(TelegramEmulator, ({ url }) => layer({ yaml, env: { TELEGRAM_API_URL: url } }, memory))
).pipe(Layer.provideMerge(TelegramEmulator.layer({ tokens: [tokenOf("desk")] })))

let updates = 0
/** Sends a message to a bot and returns its answer. */
const talk = (slug: string, text: string, user = 7) =>
  Effect.flatMap(WebhookServer, ({ update }) =>
    Effect.map(update(slug, message(++updates, text, user)), ({ json, status }) => {
      expect(status).toBe(200)
      return json === undefined ? undefined : String(Object(json).text)
    })
  )

describe("a user", () => {
  it.scopedLive("signs in with the code, is let in by every bot, and is signed out on request", () =>
    Effect.gen(function* () {
      const { calls } = yield* TelegramEmulator
      expect(yield* talk("desk", "/start")).toMatch(/\/auth/)
      expect(yield* talk("closed", "hello")).toMatch(/sign in first/)
      expect(yield* talk("desk", "/whoami")).toBe("You are user 7 and are not signed in.")
      expect(yield* talk("desk", "/auth open-sesame")).toBe("You are signed in for 24h.")
      const held = updates * 10
      expect(yield* calls).toMatchObject([{ method: "deleteMessage", parameters: { chat_id: 7, message_id: held } }])
      expect(yield* talk("desk", "/whoami@desk_bot")).toBe("You are user 7, signed in for another 24h.")
      expect(yield* talk("closed", "hello")).toBe("hello")
      expect(yield* talk("closed", "hello", 8)).toMatch(/sign in first/)
      expect(yield* talk("desk", "/logout")).toBe("You are signed out.")
      expect(yield* talk("desk", "/logout")).toBe("You were not signed in.")
      expect(yield* talk("closed", "hello")).toMatch(/sign in first/)
    }).pipe(Effect.provide(withTelegram))
  )

  it.scopedLive("is locked out after five wrong codes, even with the right one, without affecting other users", () =>
    Effect.gen(function* () {
      for (const left of ["4 more tries", "3 more tries", "2 more tries", "1 more try"]) {
        expect(yield* talk("desk", "/auth open-sesam", 20)).toContain(left)
      }
      expect(yield* talk("desk", "/auth OPEN-SESAME", 20)).toContain("try again in 15m")
      expect(yield* talk("desk", "/auth open-sesame", 20)).toMatch(/^Too many wrong codes. Try again in 15m/)
      expect(yield* talk("closed", "hello", 20)).toMatch(/sign in first/)
      expect(yield* talk("desk", "/auth open-sesame", 21)).toMatch(/signed in/)
      const { calls } = yield* TelegramEmulator
      expect(yield* calls).toHaveLength(1)
    }).pipe(Effect.provide(withTelegram))
  )

  it.scopedLive("gets exactly five guesses when they all arrive at once", () =>
    Effect.gen(function* () {
      const answers = yield* Effect.all(
        Array.from({ length: 30 }, () => talk("desk", "/auth guess", 30)),
        { concurrency: "unbounded" }
      )
      expect(answers.filter((text) => text?.startsWith("That code is wrong"))).toHaveLength(5)
      expect(answers.filter((text) => text?.startsWith("Too many wrong codes"))).toHaveLength(25)
    }).pipe(Effect.provide(withTelegram))
  )

  it.scopedLive("is signed in even if the message with the code could not be removed", () =>
    Effect.gen(function* () {
      const { fail } = yield* TelegramEmulator
      yield* fail(EmulatedFault.Refused({ status: 400, description: "message can't be deleted" }))
      expect(yield* talk("desk", "/auth   open-sesame\n", 40)).toMatch(/signed in/)
      expect(yield* talk("closed", "hello", 40)).toBe("hello")
    }).pipe(Effect.provide(withTelegram))
  )

  it.scopedLive("gets help for unknown commands, and no answer to updates without a user message", () =>
    Effect.gen(function* () {
      const { update } = yield* WebhookServer
      for (const text of ["hello", "/authopen-sesame", "/unknown"])
        expect(yield* talk("desk", text)).toMatch(/^Send \/auth/)
      expect(yield* talk("desk", "/auth")).toMatch(/for example \/auth/)
      for (const odd of [{ channel_post: { chat: { id: 1 }, text: "/auth open-sesame" } }, { poll: {} }, {}]) {
        expect(yield* update("desk", { update_id: 1, ...odd })).toMatchObject({ status: 200, text: "" })
      }
      const { message: edited } = message(1, "/auth open-sesame", 50)
      expect(yield* update("desk", { update_id: 1, edited_message: edited })).toMatchObject({ status: 200, text: "" })
      expect(yield* talk("desk", "/whoami", 50)).toMatch(/not signed in/)
    }).pipe(Effect.provide(withTelegram))
  )

  it.scopedLive("is not who writes on behalf of a chat: Telegram names the same user for all of them", () =>
    Effect.gen(function* () {
      const { update } = yield* WebhookServer
      const { calls } = yield* TelegramEmulator
      const anonymous = 1_087_968_824
      const group = { id: -1001, type: "supergroup", title: "Desk" }
      const ofGroup = (text: string) => {
        const { message: own, update_id } = message(++updates, text, anonymous)
        return { update_id, message: { ...own, chat: group, sender_chat: group } }
      }
      expect(yield* update("desk", ofGroup("/auth open-sesame"))).toMatchObject({ status: 200, text: "" })
      expect(yield* calls).toEqual([])
      // Signed in by an earlier release.
      expect(yield* talk("desk", "/auth open-sesame", anonymous)).toMatch(/signed in/)
      expect((yield* update("closed", ofGroup("hello"))).text).toMatch(/sign in first/)
      const { message: own, update_id } = message(++updates, "hello", 60)
      const pressed = { id: "1", from: own.from, message: { ...own, sender_chat: group }, data: "x" }
      expect(userOf({ update_id, callback_query: pressed })).toBe(60)
      expect(userOf({ update_id, poll_answer: { poll_id: "1", user: own.from, option_ids: [0] } })).toBe(60)
      const voted = { poll_id: "1", user: { id: 136_817_688 }, voter_chat: group, option_ids: [0] }
      expect(userOf({ update_id, poll_answer: voted })).toBeUndefined()
    }).pipe(Effect.provide(withTelegram))
  )
})
