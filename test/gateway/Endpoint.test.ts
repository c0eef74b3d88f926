import { gzipSync } from "node:zlib"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import { DatabaseFault, DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { Queue, type Submit } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { message } from "./Updates.js"
import { layer, secretOf, WebhookServer } from "./WebhookServer.js"

const memory = QueueMemory.layer.pipe(Layer.provide(Wakeups.layer))

const yaml = `
bots:
  echo: { handler: echo, requireAuth: false }
  jobs:
    handler: echo
    requireAuth: false
    async: true
    updates: [message, channel_post, inline_query, callback_query, poll, poll_answer, my_chat_member]
  closed: { handler: echo }
`

const gate = (env: Record<string, string> = {}) => layer({ yaml, env }, memory)

const stored = Effect.flatMap(JobSearch, (search) => Effect.map(search.list({}, { limit: 100 }), ({ jobs }) => jobs))

const secret = { "x-telegram-bot-api-secret-token": secretOf("jobs") }
const asJson = { "content-type": "application/json" }

describe("an update on arrival", () => {
  it.scopedLive("of a sync bot is answered with the bot's reply as a method in the response", () =>
    Effect.gen(function* () {
      const { update } = yield* WebhookServer
      const answer = yield* update("echo", message(1, "hello", 42))
      expect(answer).toMatchObject({ status: 200, json: { method: "sendMessage", chat_id: 42, text: "hello" } })
      const silent = yield* update("echo", { update_id: 2, poll: { id: "1" } })
      expect(silent).toMatchObject({ status: 200, text: "" })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("of an async bot is stored whole as a job before it is acknowledged, with its chat as key", () =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      const given = { ...message(7, "later", -100123, 5), a_field_of_tomorrow: { deep: [1, null, "ü"] } }
      expect(yield* update("jobs", given)).toMatchObject({ status: 200, text: "" })
      expect(yield* stored).toMatchObject([
        {
          kind: "telegram.jobs",
          queue: "bot-jobs",
          key: "-100123",
          payload: given,
          attempts: 5,
          dedupe: { key: "telegram:jobs:7", scope: "retained" },
          onDead: { kind: "telegram.dead_letter", queue: "bot-jobs", payload: { bot: "jobs", chat: -100123 } }
        }
      ])
      expect(yield* counts).toEqual({ "jobs stored": 1 })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("that was delivered before is acknowledged and not stored again", () =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      const answers = yield* Effect.all(
        Array.from({ length: 20 }, () => update("jobs", message(9, "once"))),
        { concurrency: "unbounded" }
      )
      expect(answers.map(({ status }) => status)).toEqual(Array(20).fill(200))
      expect(yield* stored).toHaveLength(1)
      expect(yield* counts).toEqual({ "jobs stored": 1, "jobs duplicate": 19 })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("has the user as its key without a chat, and no key without either", () =>
    Effect.gen(function* () {
      const { update } = yield* WebhookServer
      const from = { id: 77, is_bot: false, first_name: "Ada" }
      yield* update("jobs", { update_id: 1, inline_query: { id: "1", from, query: "x", offset: "" } })
      yield* update("jobs", { update_id: 2, callback_query: { id: "1", from, message: { chat: { id: -5 } } } })
      yield* update("jobs", { update_id: 3, poll: { id: "1" } })
      yield* update("jobs", { update_id: 4, poll_answer: { poll_id: "1", user: from } })
      yield* update("jobs", { update_id: 5, my_chat_member: { chat: { id: 88 }, from } })
      const jobs = [...(yield* stored)].reverse()
      expect(jobs.map(({ key }) => key)).toEqual(["77", "-5", undefined, "77", "88"])
      expect(jobs[2]?.onDead).toBeUndefined()
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive(
    "is stored even if its text cannot be held by PostgreSQL: a refusal would block its chat for a day",
    () =>
      Effect.gen(function* () {
        const { post } = yield* WebhookServer
        const body = JSON.stringify(message(1, "x")).replace('"x"', '"a\\u0000b\\ud800c"')
        expect(yield* post("telegram/jobs", { body, headers: { ...secret, ...asJson } })).toMatchObject({ status: 200 })
        expect(yield* stored).toMatchObject([{ payload: { update_id: 1, message: { text: "a\ufffdb\ufffdc" } } }])
      }).pipe(Effect.provide(gate()))
  )
})

describe("the webhook endpoint refuses a request", () => {
  it.scopedLive("with an unknown bot name", () =>
    Effect.gen(function* () {
      const { counts, post, update } = yield* WebhookServer
      for (const path of ["telegram/nobody", "telegram/", "telegram", "telegram/jobs/more", "", "telegram/%6aobs"]) {
        expect(yield* post(path, { json: message(1, "x"), headers: secret })).toMatchObject({
          status: 404,
          json: { error: { tag: "NotFound" } }
        })
      }
      expect(yield* update("jobs", message(1, "x"))).toMatchObject({ status: 200 })
      expect(yield* counts).toEqual({ " unknown": 6, "jobs stored": 1 })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("without the bot's secret, before reading the body", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      for (const given of ["", "jobs-secre", "jobs-secret2", secretOf("echo"), undefined]) {
        const headers = { ...asJson, ...(given === undefined ? {} : { "x-telegram-bot-api-secret-token": given }) }
        // The body is not parsed: invalid JSON goes unnoticed.
        const refused = yield* post("telegram/jobs", { body: "{", headers })
        expect(refused).toMatchObject({ status: 401, json: { error: { tag: "Unauthorized" } } })
        expect(refused.headers.connection).toBe("close")
      }
      expect(yield* stored).toEqual([])
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("with a body that is not an update in JSON", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const bodies = [
        "",
        "{",
        "[]",
        "null",
        '"x"',
        "{}",
        '{"update_id":"7"}',
        '{"update_id":1.5}',
        "[{}]",
        '{"update_id":1e400}'
      ]
      for (const body of [...bodies, Buffer.from([0x7b, 0xff, 0x7d])]) {
        const refused = yield* post("telegram/jobs", { body, headers: { ...secret, ...asJson } })
        expect(refused).toMatchObject({ status: 400, json: { error: { tag: "BadRequest" } } })
      }
      expect(yield* stored).toEqual([])
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("with a compressed body or another content type, before reading it", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const bomb = gzipSync(Buffer.alloc(8 * 1024 * 1024, " "))
      const gzip = yield* post("telegram/jobs", {
        body: bomb,
        headers: { ...secret, ...asJson, "content-encoding": "gzip" }
      })
      expect(gzip).toMatchObject({ status: 415, json: { error: { message: expect.stringContaining("gzip") } } })
      for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin1"]) {
        const headers = { ...secret, "content-type": type }
        expect(yield* post("telegram/jobs", { body: "{}", headers })).toMatchObject({ status: 415 })
      }
      const plain = { ...secret, "content-encoding": "identity" }
      expect(yield* post("telegram/jobs", { body: JSON.stringify(message(1, "x")), headers: plain })).toMatchObject({
        status: 200
      })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("with more than a mebibyte, declared or not", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const piece = Buffer.alloc(256 * 1024, " ")
      const pieces = Array.from({ length: 5 }, () => piece)
      for (const body of [pieces, Buffer.concat(pieces)]) {
        const refused = yield* post("telegram/jobs", { body, headers: { ...secret, ...asJson } })
        expect(refused).toMatchObject({ status: 413, json: { error: { tag: "BodyTooLarge" } } })
      }
      const most = Buffer.from(JSON.stringify(message(1, "x")).padEnd(1024 * 1024))
      expect(yield* post("telegram/jobs", { body: most, headers: { ...secret, ...asJson } })).toMatchObject({
        status: 200
      })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("with excessively nested JSON, and accepts text that only looks nested", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const headers = { ...secret, ...asJson }
      for (const open of ["[", '{"a":']) {
        const body = `{"update_id":1,"x":${open.repeat(50_000)}`
        const refused = yield* post("telegram/jobs", { body, headers })
        expect(refused).toMatchObject({ status: 400, json: { error: { message: expect.stringContaining("deeper") } } })
      }
      const harmless = message(2, `${"[{".repeat(500)}\\"`)
      expect(yield* post("telegram/jobs", { json: harmless, headers })).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(gate()))
  )

  it.scopedLive("with any other method", () =>
    Effect.gen(function* () {
      const { port } = yield* WebhookServer
      const response = yield* Effect.promise(() => fetch(`http://127.0.0.1:${port}/hooks/telegram/jobs`))
      expect(response.status).toBe(405)
      expect(response.headers.get("allow")).toBe("POST")
    }).pipe(Effect.provide(gate()))
  )
})

describe("two secrets", () => {
  it.scopedLive("are both accepted during a rotation", () =>
    Effect.gen(function* () {
      const { update } = yield* WebhookServer
      for (const given of ["new-one", "old-one"]) {
        const headers = { "x-telegram-bot-api-secret-token": given }
        expect(yield* update("echo", message(1, "x"), headers)).toMatchObject({ status: 200 })
      }
      expect(yield* update("echo", message(1, "x"))).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(gate({ BOT_ECHO_SECRET: "new-one,old-one" })))
  )
})

describe("users", () => {
  it.scopedLive("that are not on the list are acknowledged, dropped and counted", () =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      expect(yield* update("jobs", message(1, "x", 5))).toMatchObject({ status: 200, text: "" })
      expect(yield* update("jobs", message(2, "x", -1, 6))).toMatchObject({ status: 200, text: "" })
      expect(yield* update("jobs", { update_id: 3, channel_post: { chat: { id: -9 } } })).toMatchObject({ status: 200 })
      expect(yield* update("jobs", message(4, "x", 7))).toMatchObject({ status: 200 })
      expect(yield* counts).toEqual({ "jobs dropped": 2, "jobs stored": 2 })
      expect((yield* stored).map(({ payload }) => payload)).toEqual([message(4, "x", 7), message(2, "x", -1, 6)])
    }).pipe(Effect.provide(gate({ ALLOWED_USERS: "6, 7" })))
  )

  it.scopedLive("that have not signed in are asked to, in the response and without an outgoing call", () =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      const asked = yield* update("closed", message(1, "x", 5))
      expect(asked).toMatchObject({ status: 200, json: { method: "sendMessage", chat_id: 5 } })
      expect(asked.text).toContain("/auth")
      expect(yield* update("closed", { update_id: 3, poll: { id: "1" } })).toMatchObject({ status: 200, text: "" })
      expect(yield* counts).toEqual({ "closed prompted": 1, "closed ignored": 1 })
    }).pipe(Effect.provide(gate({ TELEGRAM_API_URL: "http://127.0.0.1:1" })))
  )
})

describe("without the database", () => {
  const failing = (error: DatabaseUnavailable | DatabaseFault) =>
    Layer.effect(
      Queue,
      Effect.map(Queue, (queue) => ({
        ...queue,
        submitter: Effect.succeed<Submit>((_, answer) => answer(Exit.fail(error)))
      }))
    ).pipe(Layer.provideMerge(memory))

  it.scopedLive.each([
    new DatabaseUnavailable({ detail: "gone from 10.1.2.3", nothingWritten: true }),
    new DatabaseUnavailable({ detail: "gone from 10.1.2.3", nothingWritten: false }),
    new DatabaseFault({ detail: "no such table at 10.1.2.3" })
  ])("nothing is acknowledged, and Telegram gets a retry delay", (error) =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      const refused = yield* update("jobs", message(1, "x"))
      expect(refused).toMatchObject({ status: 503, headers: { "retry-after": "5" } })
      expect(refused.text).not.toContain("10.1")
      expect(yield* update("echo", message(1, "x"))).toMatchObject({ status: 200 })
      expect(yield* counts).toMatchObject({ "jobs unavailable": 1 })
    }).pipe(Effect.provide(layer({ yaml }, failing(error))))
  )
})
