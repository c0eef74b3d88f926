import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Fiber, type Scope } from "effect"
import { textOf, type Update } from "../../src/gateway/telegram/TelegramUpdate.js"
import { TelegramEmulator, type TelegramEmulatorOptions } from "../../src/testing/effect.js"
import { lifetimeOf, retryDelay } from "../../src/testing/telegram/DeliveryRules.js"
import * as SteppableClock from "../support/SteppableClock.js"

const token = "42:t"

interface Seen {
  readonly id: number
  readonly text: string
  readonly secret: string | undefined
}

/** A webhook that answers each delivery as the test says, and records deliveries. */
const webhook = (
  answer: (seen: Seen, response: Http.ServerResponse, times: number) => void
): Effect.Effect<{ readonly url: string; readonly seen: Array<Seen> }, never, Scope.Scope> =>
  Effect.gen(function* () {
    const seen: Array<Seen> = []
    const server = yield* Effect.acquireRelease(
      Effect.async<Http.Server>((resume) => {
        const open = Http.createServer((request, response) => {
          const chunks: Array<Buffer> = []
          request.on("data", (chunk) => chunks.push(chunk))
          request.on("end", () => {
            const update: Update = JSON.parse(Buffer.concat(chunks).toString())
            const secret = request.headers["x-telegram-bot-api-secret-token"]
            const one = { id: update.update_id, text: textOf(update) ?? "", secret: secret?.toString() }
            seen.push(one)
            answer(one, response, seen.filter(({ id }) => id === one.id).length)
          })
        }).listen(0, "127.0.0.1", () => resume(Effect.succeed(open)))
      }),
      (open) =>
        Effect.sync(() => {
          open.close()
          open.closeAllConnections()
        })
    )
    return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/`, seen }
  })

const ok = (response: Http.ServerResponse) => void response.writeHead(200).end()

/** Pauses between deliveries take no real time. The timeout of a response never ends: it would depend on the machine's load. */
const skippingPauses = () =>
  SteppableClock.make((duration, step) =>
    Duration.greaterThanOrEqualTo(duration, "60 seconds")
      ? Effect.never
      : Effect.sync(() => step(Duration.toMillis(duration)))
  )

const emulator = (options: TelegramEmulatorOptions = {}) => TelegramEmulator.layer({ tokens: [token], ...options })

const call = (url: string, method: string, body: object = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}/bot${token}/${method}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body)
    })
    return { status: response.status, body: await response.json() }
  })

describe("the rules of delivery", () => {
  it("retry at once, then after 2, 4, 8 s and so on, up to one or two minutes", () => {
    expect([1, 2, 3, 4, 5, 6].map((failures) => retryDelay(failures, 0, undefined))).toEqual([0, 2, 4, 8, 16, 32])
    expect([retryDelay(9, 0, undefined), retryDelay(9, 1, undefined)]).toEqual([60, 120])
  })

  it("obey Retry-After up to an hour", () => {
    expect([retryDelay(1, 0, 7), retryDelay(9, 0, 0), retryDelay(1, 0, 9999)]).toEqual([7, 0, 3600])
  })

  it("drop a message after a day, a query much sooner", () => {
    expect(lifetimeOf({ update_id: 1, message: {} } as Update)).toBe(86_400)
    expect(lifetimeOf({ update_id: 1, callback_query: {} } as Update)).toBe(150)
    expect(lifetimeOf({ update_id: 1, inline_query: {} } as Update)).toBe(30)
  })
})

describe("the emulator", () => {
  it.scopedLive("delivers with the secret set by setWebhook, and reports what is left", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const { seen, url } = yield* webhook((_, response) => ok(response))
      yield* telegram.say(token, { chat: 1, text: "early" })
      const before = yield* call(telegram.url, "getWebhookInfo")
      expect(before.body).toMatchObject({ ok: true, result: { url: "", pending_update_count: 1 } })
      yield* call(telegram.url, "setWebhook", { url, secret_token: "hush" })
      yield* telegram.settled
      expect(seen).toEqual([{ id: 1000, text: "early", secret: "hush" }])
      const after = yield* call(telegram.url, "getWebhookInfo")
      expect(after.body).toMatchObject({ result: { url, pending_update_count: 0 } })
    }).pipe(Effect.provide(emulator({ speed: 100 })))
  )

  it.scopedLive("keeps the order within a chat, while others continue", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const { seen, url } = yield* webhook(({ text }, response, times) =>
        text === "a1" && times < 4 ? void response.writeHead(500).end() : ok(response)
      )
      yield* telegram.deliverTo(token, { urls: [url] })
      for (const text of ["a1", "a2", "a3"]) yield* telegram.say(token, { chat: 1, text })
      for (const text of ["b1", "b2"]) yield* telegram.say(token, { chat: 2, text })
      yield* telegram.settled
      const order = seen.map(({ text }) => text)
      expect(order.filter((text) => text.startsWith("a"))).toEqual(["a1", "a1", "a1", "a1", "a2", "a3"])
      expect(order.indexOf("b2")).toBeLessThan(order.indexOf("a2"))
    }).pipe(Effect.provide(emulator({ speed: 50 })))
  )

  it.scopedLive("delivers as many at a time as the last change says", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const held: Array<Http.ServerResponse> = []
      const { seen, url } = yield* webhook(({ text }, response) => {
        if (text === "alone") return ok(response)
        held.push(response)
        if (held.length === 2) for (const each of held) ok(each)
      })
      yield* telegram.deliverTo(token, { urls: [url], maxConnections: 1 })
      yield* telegram.say(token, { chat: 1, text: "alone" })
      yield* telegram.settled
      yield* telegram.deliverTo(token, { urls: [url], maxConnections: 2 })
      for (const chat of [1, 2]) yield* telegram.say(token, { chat, text: "together" })
      yield* telegram.settled
      expect(seen).toHaveLength(3)
    }).pipe(Effect.provide(emulator()))
  )

  it.scopedLive("redelivers what was not answered, and drops what was answered too late", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const { seen, url } = yield* webhook((_, response, times) =>
        times === 1 ? void response.destroy() : times === 2 ? void response.writeHead(302).end() : ok(response)
      )
      yield* telegram.deliverTo(token, { urls: [url] })
      yield* telegram.say(token, { chat: 1, text: "x" })
      yield* telegram.settled
      expect(seen).toHaveLength(3)
      const statuses = (yield* telegram.tries).map(({ status }) => status)
      expect(statuses).toEqual([undefined, 302, 200])
      const refusing = yield* webhook((_, response) => void response.writeHead(503, { "retry-after": "20" }).end())
      yield* telegram.deliverTo(token, { urls: [refusing.url] })
      const id = yield* telegram.send(token, {
        inline_query: { id: "1", from: { id: 1, is_bot: false, first_name: "A" }, query: "", offset: "" }
      })
      yield* telegram.settled
      expect(yield* telegram.expired(token)).toEqual([id])
      expect(refusing.seen).toHaveLength(2)
    }).pipe(Effect.provide(emulator()), Effect.withClock(skippingPauses()))
  )

  it.scopedLive("duplicates deliveries and loses answers at the configured rate, reproducibly for a seed", () =>
    Effect.gen(function* () {
      const round = Effect.gen(function* () {
        const telegram = yield* TelegramEmulator
        const one = yield* webhook((_, response) => ok(response))
        const two = yield* webhook((_, response) => ok(response))
        yield* telegram.deliverTo(token, { urls: [one.url, two.url] })
        for (let n = 0; n < 50; n += 1) yield* telegram.say(token, { chat: n % 5, text: `${n}` })
        yield* telegram.settled
        const ids = [...one.seen, ...two.seen].map(({ id }) => id).sort((a, b) => a - b)
        expect(new Set(ids).size).toBe(50)
        expect(one.seen.length).toBeGreaterThan(10)
        expect(two.seen.length).toBeGreaterThan(10)
        return ids
      })
      const options = { speed: 1000, duplicates: 0.3, lostReplies: 0.2 }
      const first = yield* Effect.provide(round, emulator({ ...options, seed: 7 }))
      expect(first.length).toBeGreaterThan(65)
      expect(yield* Effect.provide(round, emulator({ ...options, seed: 7 }))).toEqual(first)
      expect(yield* Effect.provide(round, emulator({ ...options, seed: 8 }))).not.toEqual(first)
    })
  )

  it.scopedLive("executes the method in an answer, and records it", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const { url } = yield* webhook(
        ({ text }, response) => void response.end(JSON.stringify({ method: text, chat_id: 1, text: "hi" }))
      )
      yield* telegram.deliverTo(token, { urls: [url] })
      yield* telegram.say(token, { chat: 1, text: "sendMessage" })
      yield* telegram.say(token, { chat: 1, text: "getMe" })
      yield* telegram.settled
      expect(yield* telegram.calls).toEqual([
        { token, method: "sendMessage", parameters: { chat_id: 1, text: "hi" }, via: "response", done: true },
        { token, method: "getMe", parameters: { chat_id: 1, text: "hi" }, via: "response", done: false }
      ])
    }).pipe(Effect.provide(emulator()))
  )

  it.scopedLive("refuses unknown tokens and unknown methods", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const stranger = yield* Effect.promise(() => fetch(`${telegram.url}/bot9:x/getMe`))
      expect(stranger.status).toBe(401)
      expect((yield* call(telegram.url, "sendDice")).status).toBe(404)
      expect((yield* call(telegram.url, "getMe")).body).toMatchObject({ ok: true })
    }).pipe(Effect.provide(emulator()))
  )
})

describe("the methods of the Bot API", () => {
  // The fields of results that these tests read.
  type Result = ReadonlyArray<Update> & { readonly message_id: number }
  const asked = (method: string, body: object = {}) =>
    Effect.flatMap(TelegramEmulator, ({ url }) =>
      Effect.map(call(url, method, body), (answer) => ({ ...answer, body: answer.body as { readonly result: Result } }))
    )

  it.scopedLive("distinguish bots by the number at the start of their token", () =>
    Effect.gen(function* () {
      expect(yield* asked("getMe")).toMatchObject({ status: 200, body: { result: { id: 42, is_bot: true } } })
      const { addBot, url } = yield* TelegramEmulator
      yield* addBot("77:other")
      const other = yield* Effect.promise(async () => (await fetch(`${url}/bot77:other/getMe`)).json())
      expect(other).toMatchObject({ result: { id: 77, username: "emulated_77_bot" } })
    }).pipe(Effect.provide(emulator()))
  )

  it.scopedLive("that bots use beside sendMessage are answered and recorded", () =>
    Effect.gen(function* () {
      const { calls, url } = yield* TelegramEmulator
      expect(yield* asked("sendChatAction", { chat_id: 5, action: "typing" })).toMatchObject({ body: { result: true } })
      const { body: first } = yield* asked("sendMessage", { chat_id: 5, text: "one" })
      const edit = { chat_id: 5, message_id: first.result.message_id, text: "two" }
      expect((yield* asked("editMessageText", edit)).body.result).toMatchObject({
        message_id: first.result.message_id,
        text: "two",
        chat: { id: 5 }
      })
      expect((yield* asked("sendPhoto", { chat_id: 5, photo: "abc", caption: "see" })).body.result).toMatchObject({
        photo: [{ file_id: "abc" }],
        caption: "see"
      })
      const form = new FormData()
      form.set("chat_id", "6")
      form.set("photo", new Blob(["png"]), "x.png")
      yield* Effect.promise(() => fetch(`${url}/bot${token}/sendPhoto`, { method: "POST", body: form }))
      expect((yield* calls).at(-1)).toMatchObject({ method: "sendPhoto", parameters: { chat_id: "6" } })
      const commands = [{ command: "start", description: "Begin" }]
      yield* asked("setMyCommands", { commands })
      expect((yield* asked("getMyCommands")).body.result).toEqual(commands)
      expect(yield* asked("sendNothingKnown")).toMatchObject({ status: 404 })
    }).pipe(Effect.provide(emulator()))
  )

  it.scopedLive("return updates to a polling bot, each until the next offset confirms it", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const ids = ({ body }: { readonly body: { readonly result: ReadonlyArray<Update> } }) =>
        body.result.map(({ update_id }) => update_id)
      expect(ids(yield* asked("getUpdates"))).toEqual([])
      const waiting = yield* Effect.fork(asked("getUpdates", { timeout: 30 }))
      const first = yield* telegram.say(token, { chat: 5, text: "one" })
      const second = yield* telegram.say(token, { chat: 6, text: "two" })
      expect(ids(yield* Fiber.join(waiting))).toContain(first)
      expect(ids(yield* asked("getUpdates"))).toEqual([first, second])
      expect(ids(yield* asked("getUpdates", { offset: first + 1 }))).toEqual([second])
      expect(ids(yield* asked("getUpdates", { offset: second + 1 }))).toEqual([])
      yield* telegram.settled
      yield* telegram.deliverTo(token, { urls: ["http://127.0.0.1:1/"] })
      expect(yield* asked("getUpdates")).toMatchObject({ status: 409 })
    }).pipe(Effect.provide(emulator({ speed: 50 })))
  )

  it.scopedLive("deliver only the update types that setWebhook requested", () =>
    Effect.gen(function* () {
      const telegram = yield* TelegramEmulator
      const { seen, url } = yield* webhook((_, response) => ok(response))
      yield* asked("setWebhook", { url, allowed_updates: ["message"] })
      expect((yield* asked("getWebhookInfo")).body.result).toMatchObject({ allowed_updates: ["message"] })
      yield* telegram.send(token, { poll: { id: "1" } } as unknown as Partial<Update>)
      const id = yield* telegram.say(token, { chat: 5, text: "one" })
      yield* telegram.settled
      expect(seen.map((one) => one.id)).toEqual([id])
    }).pipe(Effect.provide(emulator()))
  )
})
