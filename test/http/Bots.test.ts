import { createHmac } from "node:crypto"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import * as AuthSessionsMemory from "../../src/gateway/auth/AuthSessionsMemory.js"
import * as Bots from "../../src/gateway/Bots.js"
import * as BotsFile from "../../src/gateway/config/BotsFile.js"
import { GatewayConfig } from "../../src/gateway/config/GatewayConfig.js"
import { Deliveries, DeliveryBook, maxDeliveries } from "../../src/gateway/Deliveries.js"
import { SafeFetch } from "../../src/gateway/fetch/SafeFetch.js"
import { Telegram } from "../../src/gateway/telegram/Telegram.js"
import { jobsOfBot, WebhookIntake } from "../../src/gateway/WebhookIntake.js"
import { WebhookEndpoint } from "../../src/http/hooks/WebhookEndpoint.js"
import type { ServerConfig } from "../../src/http/ServerConfig.js"
import { Queue } from "../../src/queue/Queue.js"
import type { Metrics } from "../../src/telemetry/Metrics.js"
import { message } from "../gateway/Updates.js"
import { type Hooks, layerPostgres, type Ports, TestServer } from "./TestServer.js"

const yaml = `
bots:
  echo: { handler: echo, requireAuth: false }
  jobs: { handler: echo, requireAuth: false, async: true }
  asks: { handler: http, requireAuth: false, http: { url: "https://example.org/private-path?key=hidden-key" } }
sources:
  ci: { style: github, kind: plain }
`

const hidden = /hidden/
const env = {
  ...Object.fromEntries(
    ["ECHO", "JOBS", "ASKS"].flatMap((name) => [
      [`BOT_${name}_TOKEN`, `42:hidden-token-${name}`],
      [`BOT_${name}_SECRET`, "hidden-secret"]
    ])
  ),
  SOURCE_CI_SECRET: "hidden-signature"
}

/** The webhook endpoint with the bots of the text above. */
const hooks: Hooks<Ports | Metrics | ServerConfig> = Layer.unwrapEffect(
  Effect.map(
    BotsFile.declarationsIn("bots.yaml", yaml, { database: true, kinds: new Set(["plain"]), authSecret: false }),
    (declared) =>
      WebhookEndpoint.layer.pipe(
        Layer.provide(WebhookIntake.layer),
        Layer.provideMerge(Bots.layer<never>({ declared, database: true, handlers: [] })),
        Layer.provideMerge(Deliveries.layer),
        Layer.provide(Layer.mergeAll(Telegram.layer, SafeFetch.layer, AuthSessionsMemory.layer)),
        Layer.provide(GatewayConfig.layer)
      )
  )
).pipe(Layer.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(env))))), Layer.orDie)

const secret = { "x-telegram-bot-api-secret-token": "hidden-secret" }

const push = (id: string) => {
  const body = JSON.stringify({ ref: "main" })
  const signature = createHmac("sha256", "hidden-signature").update(body).digest("hex")
  return {
    body,
    headers: {
      "content-type": "application/json",
      "x-hub-signature-256": `sha256=${signature}`,
      "x-github-delivery": id
    }
  }
}

describe("bots and sources", () => {
  it.scopedLive("are listed with this process's deliveries, and without their secrets", () =>
    Effect.gen(function* () {
      const { ask, viewer } = yield* TestServer
      yield* ask("POST", "/hooks/telegram/echo", { json: message(1, "hello"), headers: secret })
      yield* ask("POST", "/hooks/telegram/echo", { json: message(2, "hello") })
      const answer = yield* viewer("GET", "/api/v1/bots")
      expect(answer).toMatchObject({
        status: 200,
        json: {
          since: expect.any(String),
          bots: [
            {
              slug: "echo",
              path: "/hooks/telegram/echo",
              handler: "echo",
              mode: "sync",
              queue: null,
              counts: { answered: 1, unauthorized: 1 },
              lastSeenAt: expect.any(String)
            },
            { slug: "jobs", mode: "async", queue: "bot-jobs", kind: "telegram.jobs", counts: {}, lastSeenAt: null },
            { slug: "asks", handler: "http", target: "example.org" }
          ],
          sources: [{ name: "ci", path: "/hooks/ci", style: "github", kind: "plain" }]
        }
      })
      expect(answer.text).not.toMatch(hidden)
      expect(answer.text).not.toContain("private-path")
    }).pipe(Effect.provide(layerPostgres({}, hooks)))
  )

  it.scopedLive("distinguish first deliveries from redeliveries, with their outcome and job", () =>
    Effect.gen(function* () {
      const { admin, ask, viewer } = yield* TestServer
      for (const id of [7, 8, 7, 7]) {
        expect(
          yield* ask("POST", "/hooks/telegram/jobs", { json: message(id, "later"), headers: secret })
        ).toMatchObject({ status: 200 })
      }
      yield* ask("POST", "/hooks/telegram/echo", { json: message(1, "now"), headers: secret })
      for (const id of ["d-1", "d-1", '<script>alert("d-2")</script>']) yield* ask("POST", "/hooks/ci", push(id))
      // A job of the same kind from the API is not a delivery.
      yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "plain", payload: 1 }] } })

      const ofBot = yield* viewer("GET", "/api/v1/bots/jobs/deliveries")
      const job = { id: expect.any(String), state: "pending" }
      expect(ofBot).toMatchObject({
        status: 200,
        json: {
          complete: true,
          deliveries: [
            { id: "7", redelivered: 2, outcome: "stored", job },
            { id: "8", redelivered: 0, outcome: "stored", job }
          ]
        }
      })
      expect((yield* viewer("GET", "/api/v1/bots/echo/deliveries")).json).toMatchObject({
        deliveries: [{ id: "1", redelivered: 0, outcome: "answered", job: null }]
      })
      expect((yield* viewer("GET", "/api/v1/sources/ci/deliveries")).json).toMatchObject({
        deliveries: [
          { id: '<script>alert("d-2")</script>', redelivered: 0, job },
          { id: "d-1", redelivered: 1, job }
        ]
      })
      for (const path of ["bots/nobody", "bots/ci", "sources/jobs"]) {
        expect(yield* admin("GET", `/api/v1/${path}/deliveries`)).toMatchObject({ status: 404 })
      }
    }).pipe(Effect.provide(layerPostgres({}, hooks)))
  )

  it.scopedLive("show the job state of every delivery that the process remembers, however many followed", () =>
    Effect.gen(function* () {
      const { ask, viewer } = yield* TestServer
      const send = (id: number) => ask("POST", "/hooks/telegram/jobs", { json: message(id, "later"), headers: secret })
      yield* Effect.forEach(
        Array.from({ length: 60 }, (_, id) => id),
        send,
        { concurrency: 10 }
      )
      const { text } = yield* viewer("GET", "/api/v1/bots/jobs/deliveries")
      const { deliveries } = JSON.parse(text) as { deliveries: ReadonlyArray<{ job: { state: string | null } }> }
      expect(deliveries.map(({ job }) => job.state)).toEqual(Array.from({ length: 60 }, () => "pending"))
    }).pipe(Effect.provide(layerPostgres({}, hooks)))
  )

  it.scopedLive("show a delivery to another process by its job", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const queue = yield* Queue
      yield* queue.enqueue([jobsOfBot("jobs")({ update_id: 7 })])
      expect((yield* viewer("GET", "/api/v1/bots/jobs/deliveries")).json).toMatchObject({
        deliveries: [{ id: "7", redelivered: 0, outcome: "stored", job: { state: "pending" } }]
      })
    }).pipe(Effect.provide(layerPostgres({}, hooks)))
  )
})

describe("the deliveries that a process remembers", () => {
  const job = "0198c0de-1234-7000-8000-000000000001" as JobId

  it("are the newest hundred", () => {
    const book = new DeliveryBook()
    for (let id = 0; id < maxDeliveries + 5; id += 1) book.note(String(id), "answered", undefined, id)
    expect(book.recent.map(({ id }) => id)).toEqual(Array.from({ length: maxDeliveries }, (_, n) => String(n + 5)))
  })

  it("date a redelivery by its job's id", () => {
    const book = new DeliveryBook()
    book.note("7", "duplicate", job, 5_000_000_000_000)
    expect(book.recent).toEqual([
      {
        id: "7",
        firstSeenAt: 0x0198c0de1234,
        lastSeenAt: 5_000_000_000_000,
        redelivered: 1,
        outcome: "stored",
        job
      }
    ])
  })

  it("count no delivery as its own repetition when a duplicate is noted first", () => {
    const book = new DeliveryBook()
    book.note("7", "duplicate", job, 1)
    book.note("7", "stored", job, 2)
    expect(book.recent).toMatchObject([{ redelivered: 1, outcome: "stored" }])
  })

  it("count a delivery again that could not be stored the first time", () => {
    const book = new DeliveryBook()
    book.note("7", "unavailable", undefined, 1)
    book.note("7", "stored", job, 2)
    expect(book.recent).toMatchObject([{ redelivered: 1, outcome: "stored", firstSeenAt: 1, job }])
  })
})
