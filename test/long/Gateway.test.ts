import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Redacted, Schedule } from "effect"
import { EmulatedFault, TelegramEmulator } from "../../src/testing/effect.js"
import { message } from "../gateway/Updates.js"
import * as Nightshift from "../support/Nightshift.js"
import { scale } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { credentials, deliver, get, hidden, start, writeBots } from "./GatewayPod.js"
import * as RestartableServer from "./RestartableServer.js"

const app = fileURLToPath(new URL("fixtures/bots-app.mjs", import.meta.url))

const updates = scale("GATEWAY_UPDATES", 5_000)
const chats = scale("GATEWAY_CHATS", 100)

const token = credentials.BOT_HELPER_TOKEN
const secret = credentials.BOT_HELPER_SECRET

/** Short timeouts by setting, so that a killed pod's jobs are recovered soon. */
const impatient = {
  QUEUE_STUCK_TIMEOUT: "3s",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_JANITOR_INTERVAL: "1s",
  LOG_LEVEL: "warning"
}

const hookOf = ({ url }: { readonly url: string }) => `${url}/hooks/telegram/helper`

/** Polls until the condition holds. */
const until = <A>(look: Effect.Effect<A>, holds: (value: A) => boolean) =>
  Effect.repeat(look, { until: holds, schedule: Schedule.spaced("50 millis") })

interface JobRow {
  readonly update_id: number
  readonly status: string
}

const jobsOf = (server: RestartableServer.Queried) =>
  server.query<JobRow>(
    "select (payload->>'update_id')::int as update_id, status from nightshift.job where kind = 'telegram.helper'"
  )

const unfinished = (server: RestartableServer.Queried) =>
  Effect.map(
    server.query<{ count: number }>(
      "select count(*)::int as count from nightshift.job where status in ('pending', 'running')"
    ),
    ([row]) => row?.count ?? -1
  )

/** Messages per chat, in order, as numbers. */
const saidIn = (
  calls: ReadonlyArray<{ readonly method: string; readonly parameters: Readonly<Record<string, unknown>> }>
) => {
  const said = new Map<number, Array<number>>()
  for (const { method, parameters } of calls) {
    if (method !== "sendMessage") continue
    const chat = Number(parameters.chat_id)
    said.set(chat, [...(said.get(chat) ?? []), Number(parameters.text)])
  }
  return said
}

describe("updates of an async bot", () => {
  it.scopedLive(
    "become exactly one job each and are all answered, in order per chat, whatever is killed",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const server = yield* RestartableServer.make(join(cwd, "postgres"))
        const telegram = yield* TelegramEmulator
        writeBots(cwd, "bots: { helper: { handler: say_again, requireAuth: false, async: true, chatOrder: strict } }")
        const env = { ...impatient, DATABASE_URL: server.url, TELEGRAM_API_URL: telegram.url }
        const pod = start({ cwd, args: ["--app", app], env })
        const [first, second] = yield* Effect.all([pod, pod], { concurrency: "unbounded" })
        yield* telegram.deliverTo(token, { urls: [hookOf(first), hookOf(second)], secret })
        const orders = yield* server.query(
          "select key_order, key_concurrency from nightshift.queue where name = 'bot-helper'"
        )
        expect(orders).toEqual([{ key_order: "strict", key_concurrency: 1 }])

        for (let n = 0; n < updates; n += 1) yield* telegram.say(token, { chat: 1 + (n % chats), text: String(n) })
        const delivered = Effect.map(telegram.tries, (tries) => tries.length)
        yield* until(delivered, (count) => count > updates / 4)
        yield* first.signal("SIGKILL")
        yield* first.finished
        yield* until(delivered, (count) => count > updates / 2)
        yield* server.restart
        const third = yield* pod
        yield* telegram.deliverTo(token, { urls: [hookOf(second), hookOf(third)], secret })

        yield* telegram.settled
        yield* until(unfinished(server), (count) => count === 0)
        expect(yield* telegram.expired(token)).toEqual([])
        const jobs = yield* jobsOf(server)
        expect(jobs).toHaveLength(updates)
        expect(new Set(jobs.map(({ update_id }) => update_id)).size).toBe(updates)
        expect(jobs.filter(({ status }) => status !== "done")).toEqual([])
        const tries = yield* telegram.tries
        expect(tries.length).toBeGreaterThan(updates)

        // A job whose pod died may be answered twice; none is skipped and none is out of order.
        const said = saidIn(yield* telegram.calls)
        expect(said.size).toBe(Math.min(chats, updates))
        for (const numbers of said.values()) {
          expect(numbers).toEqual(numbers.toSorted((a, b) => a - b))
        }
        expect(new Set([...said.values()].flat()).size).toBe(updates)
        for (const running of [second, third]) {
          yield* running.signal("SIGTERM")
          expect(yield* running.finished).toMatchObject({ code: 0 })
        }
      }).pipe(
        Effect.provide(
          TelegramEmulator.layer({ tokens: [token], seed: 11, speed: 50, duplicates: 0.1, lostReplies: 0.05 })
        )
      ),
    300_000
  )

  it.scopedLive(
    "that fail for good notify their users once each, whatever is killed",
    () =>
      Effect.gen(function* () {
        const count = 120
        const cwd = yield* Nightshift.folder
        const server = yield* RestartableServer.make(join(cwd, "postgres"))
        const telegram = yield* TelegramEmulator
        writeBots(cwd, "bots: { helper: { handler: doomed, requireAuth: false, async: true } }")
        const env = { ...impatient, DATABASE_URL: server.url, TELEGRAM_API_URL: telegram.url }
        const pod = start({ cwd, args: ["--app", app], env })
        const [first, second] = yield* Effect.all([pod, pod], { concurrency: "unbounded" })
        yield* telegram.deliverTo(token, { urls: [hookOf(first), hookOf(second)], secret })
        // Some are sent but their answers are lost, some are throttled first, some users have blocked the bot.
        const chat = (rest: number) => ({
          when: ({ parameters }: { parameters: Readonly<Record<string, unknown>> }) =>
            Number(parameters.chat_id) % 10 === rest
        })
        yield* telegram.fail(EmulatedFault.Drop(), chat(3))
        yield* telegram.fail(EmulatedFault.Throttled({ retryAfter: 1 }), { ...chat(5), times: 3 })
        yield* telegram.fail(EmulatedFault.Blocked(), chat(7))

        for (let n = 1; n <= count; n += 1) yield* telegram.say(token, { chat: n, text: String(n) })
        const told = Effect.map(telegram.calls, (calls) => calls.length)
        yield* until(told, (calls) => calls > count / 3)
        yield* first.signal("SIGKILL")
        yield* first.finished
        yield* telegram.settled
        yield* until(unfinished(server), (left) => left === 0)

        const jobs = yield* jobsOf(server)
        expect(jobs).toHaveLength(count)
        expect(jobs.every(({ status }) => status === "dead")).toBe(true)
        const done = (yield* telegram.calls).filter((call) => call.done)
        const chatsTold = done.map(({ parameters }) => Number(parameters.chat_id))
        expect(new Set(chatsTold).size).toBe(chatsTold.length)
        const letters = yield* server.query<{ state: string; count: number }>(
          "select state, count(*)::int as count from nightshift.bot_dead_letter group by 1"
        )
        const of = (state: string) => letters.find((letter) => letter.state === state)?.count ?? 0
        expect(of("sent") + of("refused") + of("unknown")).toBe(count)
        // Only lost answers, and what the killed pod was about to send, are unknown.
        expect(of("refused")).toBeGreaterThanOrEqual(count / 10 - 10)
        expect(of("unknown")).toBeGreaterThanOrEqual(count / 10)
        expect(of("unknown")).toBeLessThanOrEqual(count / 10 + 10)
        expect((yield* get(`${second.url}/metrics`)).text).toMatch(
          /dead_letters_total\{bot="helper",outcome="unknown"\} \d/
        )
      }).pipe(Effect.provide(TelegramEmulator.layer({ tokens: [token], seed: 5, speed: 20, duplicates: 0.2 }))),
    300_000
  )
})

describe("secrets", () => {
  it.scopedLive(
    "appear nowhere in a pod's output, metrics and answers",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const server = RestartableServer.at(Redacted.value(yield* TestDatabase.empty))
        const telegram = yield* TelegramEmulator
        writeBots(
          cwd,
          `bots:
  helper: { handler: echo, requireAuth: false, async: true }
  desk: { handler: auth }`
        )
        const admin = "admin-token-to-be-hidden"
        const pod = yield* start({
          cwd,
          env: {
            DATABASE_URL: server.url,
            TELEGRAM_API_URL: telegram.url,
            NIGHTSHIFT_ADMIN_TOKEN: admin,
            LOG_LEVEL: "trace"
          }
        })
        const answers: Array<string> = []
        const tell = (slug: string, update: unknown, given: string) =>
          Effect.map(deliver(pod.url, slug, update, given), ({ text }) => void answers.push(text))
        yield* telegram.fail(EmulatedFault.Broken({}), { method: "sendMessage", times: 1 })
        yield* telegram.fail(EmulatedFault.Drop(), { method: "deleteMessage" })
        for (let n = 0; n < 5; n += 1) yield* tell("helper", message(n, "hello", n + 1), secret)
        yield* tell("helper", message(9, "hello"), "a-wrong-one")
        yield* tell("desk", message(1, `/auth ${credentials.AUTH_SECRET}`), credentials.BOT_DESK_SECRET)
        yield* tell("desk", message(2, "/whoami"), credentials.BOT_DESK_SECRET)
        // Telegram does not know this bot's token, so every attempt fails.
        yield* until(jobsOf(server), (jobs) => jobs.filter(({ status }) => status === "done").length >= 4)
        yield* server.query("drop table nightshift.bot_session")
        yield* tell("desk", message(3, "/whoami"), credentials.BOT_DESK_SECRET)
        for (const path of [
          "/metrics",
          "/readyz",
          "/api/v1/jobs",
          "/api/v1/queues",
          "/api/v1/bots",
          "/api/v1/bots/helper/deliveries",
          "/api/v1/openapi.json",
          "/hooks/telegram/helper"
        ]) {
          answers.push((yield* get(`${pod.url}${path}`, { authorization: `Bearer ${admin}` })).text)
        }
        const env = { ...credentials, DATABASE_URL: server.url, TELEGRAM_API_URL: "http://127.0.0.1:1" }
        for (const args of [["config"], ["bots", "info"], ["jobs", "list", "--json"]]) {
          const { stderr, stdout } = yield* Nightshift.call(args, { cwd, env })
          answers.push(stdout, stderr)
        }
        yield* pod.signal("SIGTERM")
        const { code, stderr, stdout } = yield* pod.finished
        expect(code).toBe(0)
        const everything = [stdout, stderr, ...answers].join("\n")
        expect(everything.length).toBeGreaterThan(20_000)
        expect(everything).toMatch(/could not delete a message/)
        expect(hidden.exec(everything)).toBeNull()
        const stored = yield* server.query<{ row: string }>(
          "select j::text as row from nightshift.job j union all select k::text from nightshift.kind k union all select d::text from nightshift.bot_guess d"
        )
        expect(stored.map(({ row }) => row).join()).not.toMatch(hidden)
      }).pipe(Effect.provide(TelegramEmulator.layer({ tokens: [token, credentials.BOT_DESK_TOKEN], speed: 20 }))),
    120_000
  )
})
