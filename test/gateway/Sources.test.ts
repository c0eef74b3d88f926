import { createHmac } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import * as SignedSources from "../../src/gateway/SignedSources.js"
import { Kinds } from "../../src/queue/Kinds.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import * as RawClient from "../support/RawClient.js"
import { layer, WebhookServer } from "./WebhookServer.js"

const yaml = `
bots:
  echo: { handler: echo }
sources:
  ci: { style: github, kind: build }
  pay: { style: stripe, kind: paid }
  std: { style: standard, kind: build }
  orphan: { style: github, kind: nobodys }
`

const key = Buffer.alloc(32, 9)
const env = {
  SOURCE_CI_SECRET: "new-hush,hush",
  SOURCE_PAY_SECRET: "whsec_pay",
  SOURCE_STD_SECRET: `whsec_${key.toString("base64")}`,
  SOURCE_ORPHAN_SECRET: "hush"
}

const memory = QueueMemory.layer.pipe(Layer.provide(Wakeups.layer))
const registered = Layer.effectDiscard(
  Effect.flatMap(Kinds, ({ register }) =>
    register([
      { name: "build", queue: "builds", version: 3, attempts: 9, onDead: undefined },
      { name: "paid", queue: "money", version: 1, attempts: 5, onDead: undefined }
    ])
  )
).pipe(Layer.provideMerge(memory), Layer.orDie)

const gate = layer({ yaml, env }, registered)

const hmac = (secret: string | Buffer, text: string, encoding: "hex" | "base64" = "hex") =>
  createHmac("sha256", secret).update(text).digest(encoding)

const seconds = Effect.map(Clock.currentTimeMillis, (now) => Math.floor(now / 1000))

const github = (body: string, more: Record<string, string> = {}) => ({
  "content-type": "application/json",
  "x-hub-signature-256": `sha256=${hmac("hush", body)}`,
  "x-github-delivery": "d-1",
  "x-github-event": "push",
  ...more
})

const stripe = (body: string, at: number, secret = "whsec_pay") => ({
  "content-type": "application/json",
  "stripe-signature": `t=${at},v1=${"0".repeat(64)},v1=${hmac(secret, `${at}.${body}`)},v0=x`
})

const standard = (body: string, at: number, id = "msg_1") => ({
  "content-type": "application/json",
  "webhook-id": id,
  "webhook-timestamp": String(at),
  "webhook-signature": `v1a,AAAA v1,${hmac(key, "else", "base64")} v1,${hmac(key, `${id}.${at}.${body}`, "base64")}`
})

const stored = Effect.flatMap(JobSearch, (search) => Effect.map(search.list({}, { limit: 100 }), ({ jobs }) => jobs))

describe("a signed delivery", () => {
  it.scopedLive("becomes a job of its source's kind, with the body as payload and the rest as meta", () =>
    Effect.gen(function* () {
      const { counts, post } = yield* WebhookServer
      const at = yield* seconds
      const push = '{"ref": "refs/heads/main"}'
      expect(yield* post("ci", { body: push, headers: github(push) })).toMatchObject({ status: 200, text: "" })
      const paid = '{"id":"evt_1","type":"invoice.paid"}'
      expect(yield* post("pay", { body: paid, headers: stripe(paid, at) })).toMatchObject({ status: 200 })
      const event = '{"type":"user.created","data":{"ü":"✓"}}'
      expect(yield* post("std", { body: event, headers: standard(event, at) })).toMatchObject({ status: 200 })
      expect([...(yield* stored)].reverse()).toMatchObject([
        {
          kind: "build",
          queue: "builds",
          version: 3,
          attempts: 9,
          payload: { ref: "refs/heads/main" },
          dedupe: { key: "source:ci:d-1", scope: "retained" },
          meta: { source: "ci", delivery: "d-1", event: "push" }
        },
        { kind: "paid", queue: "money", dedupe: { key: "source:pay:evt_1" }, meta: { event: "invoice.paid" } },
        { kind: "build", payload: { data: { ü: "✓" } }, dedupe: { key: "source:std:msg_1" } }
      ])
      expect(yield* counts).toEqual({ "ci stored": 1, "pay stored": 1, "std stored": 1 })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("in the Standard Webhooks format may carry Svix headers", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const at = yield* seconds
      const body = '{"type":"user.created"}'
      const headers = Object.fromEntries(
        Object.entries(standard(body, at)).map(([name, value]) => [name.replace("webhook-", "svix-"), value])
      )
      expect(yield* post("std", { body, headers })).toMatchObject({ status: 200 })
      expect(yield* stored).toMatchObject([{ dedupe: { key: "source:std:msg_1" }, meta: { event: "user.created" } }])
      // Headers of two formats mixed are not a valid signature.
      const mixed = { ...headers, "webhook-signature": headers["svix-signature"] ?? "" }
      expect(yield* post("std", { body, headers: mixed })).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("is stored with a replacement for characters that PostgreSQL cannot store", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const at = yield* seconds
      const push = '{"ref":"half \\ud83d","a\\u0000b":[1e999]}'
      for (const _ of [1, 2])
        expect(yield* post("ci", { body: push, headers: github(push) })).toMatchObject({ status: 200 })
      const paid = '{"id":"evt_\\u0000","type":"\\udc00"}'
      expect(yield* post("pay", { body: paid, headers: stripe(paid, at) })).toMatchObject({ status: 200 })
      expect([...(yield* stored)].reverse()).toMatchObject([
        { payload: { ref: "half \ufffd", "a\ufffdb": [null] }, meta: { delivery: "d-1", event: "push" } },
        { payload: { id: "evt_\ufffd" }, meta: { delivery: "evt_\ufffd", event: "\ufffd" } }
      ])
      const deep = `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`
      expect(yield* post("ci", { body: deep, headers: github(deep, { "x-github-delivery": "d-2" }) })).toMatchObject({
        status: 400
      })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("is stored once per source, however often it is delivered", () =>
    Effect.gen(function* () {
      const { counts, post } = yield* WebhookServer
      const body = "{}"
      for (const _ of [1, 2, 3]) yield* post("ci", { body, headers: github(body) })
      yield* post("ci", { body, headers: github(body, { "x-github-delivery": "d-2" }) })
      expect(yield* stored).toHaveLength(2)
      expect(yield* counts).toEqual({ "ci stored": 2, "ci duplicate": 2 })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("is accepted under either secret during a rotation", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const headers = github("{}", { "x-hub-signature-256": `sha256=${hmac("new-hush", "{}")}` })
      expect(yield* post("ci", { body: "{}", headers })).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("is refused when the signature is missing, wrong, for another body or for another source", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const at = yield* seconds
      const refused = (path: string, body: string, headers: Record<string, string>) =>
        Effect.map(post(path, { body, headers }), ({ status }) => expect(status).toBe(401))
      yield* refused("ci", "{}", { "content-type": "application/json" })
      yield* refused("ci", "{} ", github("{}"))
      yield* refused("ci", "{}", github("{}", { "x-hub-signature-256": `sha1=${hmac("hush", "{}")}` }))
      yield* refused("ci", "{}", github("{}", { "x-hub-signature-256": "sha256=" }))
      yield* refused("pay", '{"id":"e"}', stripe('{"id":"e"}', at, "whsec_other"))
      yield* refused("pay", "{}", { "stripe-signature": "v1=0" })
      yield* refused("std", "{}", { ...standard("{}", at), "webhook-id": "msg_2" })
      yield* refused("std", "{}", { "webhook-signature": "v1,AA==" })
      expect(yield* stored).toEqual([])
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("is refused when signed more than five minutes ago or ahead", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const now = yield* seconds
      const body = '{"id":"evt"}'
      for (const [at, status] of [
        [now - 310, 401],
        [now + 310, 401],
        [now - 280, 200],
        [Number.NaN, 401]
      ] as const) {
        expect(yield* post("pay", { body, headers: stripe(body, at) })).toMatchObject({ status })
        expect(yield* post("std", { body, headers: standard(body, at) })).toMatchObject({ status })
      }
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("is refused without an id, and when it is not JSON", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const at = yield* seconds
      expect(yield* post("pay", { body: "{}", headers: stripe("{}", at) })).toMatchObject({ status: 400 })
      expect(yield* post("ci", { body: "x", headers: github("x") })).toMatchObject({ status: 400 })
      const form = { ...github("{}"), "content-type": "application/x-www-form-urlencoded" }
      expect(yield* post("ci", { body: "{}", headers: form })).toMatchObject({ status: 415 })
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("gets a retryable error while its kind is not registered", () =>
    Effect.gen(function* () {
      const { post } = yield* WebhookServer
      const deliver = post("orphan", { body: "{}", headers: github("{}") })
      expect(yield* deliver).toMatchObject({ status: 503, headers: { "retry-after": "5" } })
      const { register } = yield* Kinds
      yield* register([{ name: "nobodys", queue: "q", version: 1, attempts: 1, onDead: undefined }])
      expect(yield* deliver).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(gate))
  )
})

describe("unfinished bodies with an invalid signature", () => {
  it.scopedLive("do not block other senders, however many there are", () =>
    Effect.gen(function* () {
      const { port, post, update } = yield* WebhookServer
      const size = 1024 * 1024
      const head = `POST /hooks/ci HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\nx-hub-signature-256: sha256=${"0".repeat(64)}\r\ncontent-length: ${size}\r\n\r\n`
      const unfinished = Buffer.concat([Buffer.from(head), Buffer.alloc(size - 1, " ")])
      const flood = yield* Effect.replicateEffect(RawClient.make(port), 70)
      yield* Effect.forEach(flood, ({ send }) => Effect.fork(send(unfinished)))
      // The memory limit is reached once the first of them gets a 503.
      yield* Effect.raceAll(flood.map(({ said }) => said(/HTTP\/1\.1 503/)))
      const body = `{${" ".repeat(1_000)}}`
      for (const number of [1, 2, 3]) {
        const delivery = { "x-github-delivery": `d-${number}` }
        expect(yield* post("ci", { body, headers: github(body, delivery) })).toMatchObject({ status: 200 })
        const message = { text: "x".repeat(1_000) }
        expect(yield* update("echo", { update_id: number, message })).toMatchObject({ status: 200 })
      }
      yield* Effect.forEach(flood, ({ vanish }) => vanish)
    }).pipe(Effect.provide(gate))
  )

  it.scopedLive("are not read when the headers alone show that they are not genuine", () =>
    Effect.gen(function* () {
      const { port } = yield* WebhookServer
      const old = (yield* seconds) - 310
      for (const [path, header] of [
        ["ci", "x-hub-signature-256: sha256=0"],
        ["ci", `x-hub-signature-256: sha1=${"0".repeat(64)}`],
        ["pay", `stripe-signature: t=${old},v1=${"0".repeat(64)}`],
        ["pay", `stripe-signature: t=x,v1=${"0".repeat(64)}`],
        ["std", `webhook-id: m\r\nwebhook-timestamp: ${old}\r\nwebhook-signature: v1,${hmac(key, "", "base64")}`],
        ["std", "webhook-id: m\r\nwebhook-signature: v1,AA=="]
      ]) {
        const { said, send, vanish } = yield* RawClient.make(port)
        yield* send(`POST /hooks/${path} HTTP/1.1\r\nhost: x\r\n${header}\r\ncontent-length: 100\r\n\r\n`)
        expect((yield* said(/HTTP\/1\.1 (\d+)/))?.[1]).toBe("401")
        yield* vanish
      }
    }).pipe(Effect.provide(gate))
  )
})

describe("a signature", () => {
  it("in the Standard Webhooks format matches the specification's test vector", () => {
    const secret = SignedSources.keyOf("standard", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw") ?? Buffer.alloc(0)
    const headers = {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
    }
    const body = Buffer.from('{"test": 2432232314}')
    const verify = (at: number) => SignedSources.verify("standard", [secret], headers, body, at)
    expect(verify(1_614_265_330_000)).toMatchObject({ _tag: "Genuine" })
    expect(verify(1_614_266_330_000)).toMatchObject({ _tag: "Refused" })
  })

  it("with a thousand values costs bounded work", () => {
    const headers = { "stripe-signature": `t=1,${"v1=00,".repeat(1000)}` }
    expect(SignedSources.verify("stripe", [key], headers, Buffer.from("{}"), 1000)).toMatchObject({ _tag: "Refused" })
  })
})
