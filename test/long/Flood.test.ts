import { join } from "node:path"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Console, Effect, Schedule } from "effect"
import { EmulatedFault, TelegramEmulator } from "../../src/testing/effect.js"
import * as Nightshift from "../support/Nightshift.js"
import { credentials, start, writeBots } from "./GatewayPod.js"
import * as RestartableServer from "./RestartableServer.js"

const updates = 1_500
const chats = 60
const token = credentials.BOT_HELPER_TOKEN
const secret = credentials.BOT_HELPER_SECRET

describe("an async bot with one percent of its messages throttled for a second", () => {
  it.scopedLive(
    "answers every update once, in order per chat",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const server = yield* RestartableServer.make(join(cwd, "postgres"))
        const telegram = yield* TelegramEmulator
        writeBots(cwd, "bots: { helper: { handler: echo, requireAuth: false, async: true } }")
        const env = { DATABASE_URL: server.url, TELEGRAM_API_URL: telegram.url, LOG_LEVEL: "warning" }
        const pod = yield* start({ cwd, env })
        yield* telegram.deliverTo(token, { urls: [`${pod.url}/hooks/telegram/helper`], secret })
        let sends = 0
        yield* telegram.fail(EmulatedFault.Throttled({ retryAfter: 1 }), {
          method: "sendMessage",
          when: () => {
            sends += 1
            return sends % 100 === 0
          }
        })

        const from = yield* Clock.currentTimeMillis
        for (let n = 0; n < updates; n += 1) yield* telegram.say(token, { chat: 1 + (n % chats), text: String(n) })
        const arrived = Effect.map(telegram.calls, (calls) => calls.filter(({ done }) => done))
        yield* Effect.repeat(arrived, {
          until: (calls) => calls.length >= updates,
          schedule: Schedule.spaced("50 millis")
        })
        const answers = yield* arrived
        const seconds = ((yield* Clock.currentTimeMillis) - from) / 1_000
        yield* Console.log(`${updates} updates of ${chats} chats: ${seconds} s, ${sends - updates} refused`)

        const said = new Map<number, Array<number>>()
        for (const { parameters } of answers) {
          const chat = Number(parameters.chat_id)
          said.set(chat, [...(said.get(chat) ?? []), Number(parameters.text)])
        }
        expect(said.size).toBe(chats)
        for (const numbers of said.values()) {
          expect(numbers).toHaveLength(updates / chats)
          expect(numbers).toEqual([...new Set(numbers)].toSorted((a, b) => a - b))
        }
        yield* pod.signal("SIGTERM")
        expect(yield* pod.finished).toMatchObject({ code: 0 })
        const states = yield* server.query("select status, count(*)::int from nightshift.job group by 1")
        expect(states).toEqual([{ status: "done", count: updates }])
      }).pipe(Effect.provide(TelegramEmulator.layer({ tokens: [token] }))),
    300_000
  )
})
