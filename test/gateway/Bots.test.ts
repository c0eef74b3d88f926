import { writeFileSync } from "node:fs"
import * as Http from "node:http"
import type { AddressInfo } from "node:net"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Schema } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import * as Reload from "../../src/gateway/config/Reload.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { message } from "./Updates.js"
import { layer, WebhookServer } from "./WebhookServer.js"

const memory = QueueMemory.layer.pipe(Layer.provide(Wakeups.layer))

const Shout = Job.make("shout", {
  payload: Schema.Struct({ message: Schema.Struct({ text: Schema.String }) })
})
const shout = Handler.make(Shout, ({ message: { text } }) =>
  Effect.gen(function* () {
    if (text === "fail") return yield* Effect.fail("no luck")
    if (text === "die") return yield* Effect.dieMessage("bad luck")
    if (text === "dead") return Outcome.dead("never")
    if (text === "done") return Outcome.done({ text: "all done" })
    if (text === "silent") return { other: 1 }
    return text.toUpperCase()
  })
)

const yaml = `
bots:
  loud: { handler: shout, requireAuth: false }
  again: { handler: shout, requireAuth: false, onError: redeliver }
`

const gate = layer({ yaml, handlers: [shout] }, memory)

const say = (slug: string, text: string) =>
  Effect.flatMap(WebhookServer, ({ update }) =>
    Effect.map(update(slug, message(1, text)), ({ json, status }) => [status, json])
  )

describe("a sync bot that runs a kind", () => {
  it.scopedLive("answers with the kind's return value", () =>
    Effect.gen(function* () {
      const method = "sendMessage"
      expect(yield* say("loud", "hello")).toEqual([200, { method, chat_id: 7, text: "HELLO" }])
      expect(yield* say("loud", "done")).toEqual([200, { method, chat_id: 7, text: "all done" }])
      expect(yield* say("loud", "silent")).toEqual([200, undefined])
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("apologizes when it fails, so that the update does not block its chat", () =>
    Effect.gen(function* () {
      const { counts, update } = yield* WebhookServer
      for (const text of ["fail", "die", "dead"]) {
        expect(yield* say("loud", text)).toMatchObject([200, { text: expect.stringMatching(/^Sorry/) }])
      }
      expect(yield* update("loud", { update_id: 1, poll: {} })).toMatchObject({ status: 200, text: "" })
      expect(yield* counts).toEqual({ "loud failed": 3, "loud ignored": 1 })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("has the update delivered again when it fails, if the file says so", () =>
    Effect.gen(function* () {
      const { counts } = yield* WebhookServer
      expect(yield* say("again", "fail")).toMatchObject([500, { error: { tag: "HandlerFailed" } }])
      expect(yield* say("again", "fine")).toMatchObject([200, { text: "FINE" }])
      expect(yield* counts).toEqual({ "again failed": 1, "again answered": 1 })
    }).pipe(Effect.provide(gate))
  )
})

describe("a sync bot with a url", () => {
  const upstream = Effect.acquireRelease(
    Effect.async<Http.Server>((resume) => {
      const server = Http.createServer((_, response) => void response.end('{"text":"from inside"}')).listen(
        0,
        "127.0.0.1",
        () => resume(Effect.succeed(server))
      )
    }),
    (server) => Effect.sync(() => void server.close())
  )

  const asking = (env: Record<string, string>) =>
    Effect.gen(function* () {
      const { port } = (yield* upstream).address() as AddressInfo
      const bots = `bots: { loud: { handler: http, requireAuth: false, http: { url: "http://localhost:${port}/" } } }`
      return yield* Effect.provide(say("loud", "hello"), layer({ yaml: bots, env }, memory))
    })

  it.scopedLive("calls private addresses only when HTTP_HANDLER_ALLOW permits it, and apologizes otherwise", () =>
    Effect.gen(function* () {
      expect(yield* asking({})).toMatchObject([200, { text: expect.stringMatching(/^Sorry/) }])
      expect(yield* asking({ HTTP_HANDLER_ALLOW: "localhost" })).toMatchObject([200, { text: "from inside" }])
    })
  )
})

describe("a bots file that is reloaded", () => {
  const reload = Effect.flatMap(WebhookServer, ({ bots }) => bots.reload)

  it.scopedLive("replaces all bots at once", () =>
    Effect.gen(function* () {
      const { file } = yield* WebhookServer
      writeFileSync(file, "bots: { loud: { handler: echo, requireAuth: false } }")
      yield* reload
      expect(yield* say("loud", "hello")).toMatchObject([200, { text: "hello" }])
      expect(yield* say("again", "hello")).toMatchObject([404, {}])
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("changes nothing when it is invalid, and says why", () =>
    Effect.gen(function* () {
      const { file } = yield* WebhookServer
      for (const [text, why] of [
        ["bots: {", "line 1"],
        ["bots: { loud: { handler: eco } }", "did you mean echo"],
        ["bots: { loud: { handler: echo, requireAuth: false }, other: { handler: echo } }", "BOT_OTHER_TOKEN"],
        ["bots: { loud: { handler: echo, requireAuth: false, async: true } }", "restart the process to apply"]
      ] as const) {
        writeFileSync(file, text)
        expect((yield* Effect.flip(reload)).message).toContain(why)
        expect(yield* say("loud", "hello")).toMatchObject([200, { text: "HELLO" }])
        expect(yield* say("again", "hello")).toMatchObject([200, {}])
      }
      yield* Reload.once
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("refuses other settings of an async bot's jobs and queue, which are made at start", () =>
    Effect.gen(function* () {
      const { bots, file } = yield* WebhookServer
      const write = (settings: string) =>
        Effect.sync(() => writeFileSync(file, `bots: { loud: { requireAuth: false, async: true, ${settings} } }`))
      yield* write("handler: echo, backoff: 5s, chatOrder: strict, attempts: 7, updates: [message]")
      yield* reload
      for (const [settings, key] of [
        ["handler: echo, backoff: 6s, chatOrder: strict", "backoff"],
        ["handler: echo, chatOrder: strict", "backoff"],
        ["handler: echo, backoff: 5s", "chatOrder"],
        ["handler: slow, backoff: 5s, chatOrder: strict", "handler"],
        ["handler: transactional, backoff: 5s, chatOrder: strict", "handler"]
      ] as const) {
        yield* write(settings)
        const { message } = yield* Effect.flip(reload)
        expect(message).toContain(`bots.loud.${key}: `)
        expect(message).toContain("changed since this process started; restart the process to apply the change")
        expect(bots.bot("loud")).toMatchObject({ attempts: 7, chatOrder: "strict" })
      }
      yield* write("handler: usual, backoff: 5s, chatOrder: strict")
      yield* reload
      writeFileSync(file, "bots: {}")
      yield* reload
      yield* write("handler: echo, backoff: 5s, chatOrder: none")
      expect((yield* Effect.flip(reload)).message).toContain("bots.loud.chatOrder")
    }).pipe(
      Effect.provide(
        layer(
          {
            yaml: "bots: { loud: { handler: echo, requireAuth: false, async: true, backoff: 5s, chatOrder: strict } }",
            handlers: [
              Handler.make(Job.make("usual", { payload: Schema.Unknown, timeout: "30 seconds" }), () => Effect.void),
              Handler.make(Job.make("slow", { payload: Schema.Unknown, timeout: "1 hour" }), () => Effect.void),
              Handler.makeInTransaction(
                Job.make("transactional", { payload: Schema.Unknown, timeout: "30 seconds" }),
                () => Effect.void
              )
            ]
          },
          memory
        )
      )
    )
  )
})
