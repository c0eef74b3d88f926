import { readFileSync } from "node:fs"
import * as Http from "node:http"
import * as Https from "node:https"
import { describe, expect, it } from "@effect/vitest"
import {
  Cause,
  ConfigProvider,
  Deferred,
  Duration,
  Effect,
  Exit,
  Fiber,
  Layer,
  Redacted,
  Schema,
  TestClock
} from "effect"
import type { JobId } from "../../src/core/Ids.js"
import * as Outcome from "../../src/core/Outcome.js"
import * as Allowance from "../../src/gateway/config/Allowance.js"
import * as SafeFetch from "../../src/gateway/fetch/SafeFetch.js"
import * as Push from "../../src/gateway/push/Push.js"
import { keyOf, verify } from "../../src/gateway/SignedSources.js"
import { opened } from "../../src/handlers/Handler.js"
import * as Registry from "../../src/handlers/Registry.js"
import * as Job from "../../src/queue/Job.js"
import { endpoint, listening, type Received, reading, secretOf } from "./PushEndpoint.js"

const Resize = Job.make("resize", {
  payload: Schema.Struct({ file: Schema.String, at: Schema.DateFromString }),
  queue: "images",
  timeout: "30s"
})
const stored = { file: "a.png", at: "2026-01-02T03:04:05.000Z" }

const job = {
  id: "01a1e5ad-70f6-702d-83f1-3b2f65786d0d" as JobId,
  kind: "resize",
  queue: "images",
  key: "k",
  attempt: 2,
  attempts: 5,
  meta: { by: "test" },
  progress: () => Effect.void
}

const allowing = (rules: string) =>
  Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["HTTP_HANDLER_ALLOW", rules]])))

interface Sent extends Partial<Push.PushOptions> {
  readonly allow?: string
}

/** Runs one attempt as a worker does: decodes the stored payload and runs the handler. */
const push = (url: string, { allow = "127.0.0.1", ...options }: Sent = {}) =>
  Effect.gen(function* () {
    const handler = yield* opened(Push.make(Resize, { url, secret: Redacted.make(secretOf("a")), ...options }))
    const decoded = Registry.make([handler]).get("resize")?.decode(stored, 1)
    if (decoded?._tag !== "Ready") return yield* Effect.dieMessage(JSON.stringify(decoded))
    return yield* handler.run(decoded.payload, job)
  }).pipe(Effect.scoped, Effect.provide(allowing(allow)))

const answering = (status: number, body: string, headers: Record<string, string> = {}) =>
  endpoint(reading((_, response) => response.writeHead(status, headers).end(body)))

const json = { "content-type": "application/json; charset=utf-8" }

const pushTo = (status: number, body: string, headers: Record<string, string> = {}, options: Sent = {}) =>
  Effect.flatMap(answering(status, body, headers), (url) => push(url, options))

const hostOf = (url: string) => new URL(url).host

describe("a pushed job", () => {
  it.scopedLive("is a signed request with the payload as it is stored, and the job", () =>
    Effect.gen(function* () {
      const seen: Array<Received> = []
      const url = yield* endpoint(
        reading((received, response) => {
          seen.push(received)
          response.writeHead(200, json).end('{"width":3}')
        })
      )
      const secret = [Redacted.make(secretOf("a")), Redacted.make(secretOf("b"))]
      expect(yield* push(url, { secret })).toEqual(Outcome.done({ width: 3 }))
      const [{ body, headers } = { body: "", headers: {} }] = seen
      expect(JSON.parse(body)).toMatchObject({
        type: "resize",
        data: stored,
        job: { id: job.id, queue: "images", key: "k", attempt: 2, attempts: 5, meta: { by: "test" }, version: 1 }
      })
      expect(headers).toMatchObject({ "webhook-id": job.id, "content-type": "application/json" })
      for (const letter of ["a", "b"]) {
        const key = keyOf("standard", secretOf(letter)) ?? Buffer.alloc(0)
        expect(verify("standard", [key], headers, Buffer.from(body), Date.now())).toEqual({ _tag: "Genuine" })
      }
      const other = keyOf("standard", secretOf("c")) ?? Buffer.alloc(0)
      expect(verify("standard", [other], headers, Buffer.from(body), Date.now())._tag).toBe("Refused")
    })
  )

  it.scopedLive("is done after a 2xx response, with the result if it is JSON", () =>
    Effect.gen(function* () {
      expect(yield* pushTo(200, "[1]", json)).toEqual(Outcome.done([1]))
      expect(yield* pushTo(202, "null", { "content-type": "application/problem+json" })).toEqual(Outcome.done(null))
      expect(yield* pushTo(204, "")).toEqual(Outcome.done())
      expect(yield* pushTo(200, "ok", { "content-type": "text/plain" })).toEqual(Outcome.done())
      expect(yield* pushTo(200, "<p>".repeat(100_000), { "content-type": "text/html" })).toEqual(Outcome.done())
    })
  )

  it.scopedLive("is dead if its result cannot be stored, because another attempt would return the same", () =>
    Effect.gen(function* () {
      expect(yield* pushTo(200, "{", json)).toMatchObject({ _tag: "Dead", error: expect.stringContaining("not JSON") })
      const long = yield* pushTo(200, JSON.stringify("x".repeat(70_000)), json)
      expect(long).toMatchObject({ _tag: "Dead", error: expect.stringContaining("more than 65536 bytes") })
      expect(yield* pushTo(200, '{"ids":[1,9007199254740993]}', json)).toMatchObject({
        _tag: "Dead",
        error: expect.stringContaining("result.ids[1] is 9007199254740993, which a 64-bit float cannot hold")
      })
      expect(yield* pushTo(200, '{"at":-0.0,"average":33.3333333333333333}', json)).toMatchObject({ _tag: "Done" })
    })
  )

  it.scopedLive("fails with the status and the beginning of the body", () =>
    Effect.gen(function* () {
      const url = yield* answering(500, `${"x".repeat(5_000)}`)
      expect(yield* push(url)).toEqual(Outcome.retry(`${hostOf(url)} responded 500: ${"x".repeat(1_000)}`))
      const gone = yield* answering(404, "")
      expect(yield* push(gone)).toEqual(Outcome.retry(`${hostOf(gone)} responded 404.`))
      const moved = yield* answering(307, "", { location: "http://169.254.169.254/" })
      const error = `${hostOf(moved)} responded 307, a redirect, which is not followed.`
      expect(yield* push(moved)).toEqual(Outcome.retry(error))
      const later = yield* answering(500, "busy", { "retry-after": "90" })
      expect(yield* push(later)).toEqual(Outcome.retry(`${hostOf(later)} responded 500: busy`, "90s"))
    })
  )

  it.scopedLive("is throttled by 429 and 503 with Retry-After, and fails without it", () =>
    Effect.gen(function* () {
      expect(yield* pushTo(429, "", { "retry-after": "7" })).toEqual(Outcome.throttled({ after: "7s" }))
      expect(yield* pushTo(503, "", { "retry-after": "86400" }, { throttles: "key" })).toEqual(
        Outcome.throttled({ after: "1h", scope: "key" })
      )
      const date = new Date(Date.now() + 60_000).toUTCString()
      const { after = 0 } = (yield* pushTo(429, "", { "retry-after": date })) as Outcome.Throttled
      expect(after).toBeGreaterThan(55_000)
      expect(after).toBeLessThanOrEqual(60_000)
      expect(yield* pushTo(429, "slow down")).toMatchObject({ _tag: "Retry" })
      expect(yield* pushTo(503, "", { "retry-after": "soon" })).toMatchObject({ _tag: "Retry" })
    })
  )

  it.scopedLive("ends as the header nightshift-outcome says", () =>
    Effect.gen(function* () {
      const as = (outcome: string, body: string, more: Record<string, string> = {}) =>
        pushTo(500, body, { "nightshift-outcome": outcome, ...more })
      expect(yield* as("dead", "no such file")).toEqual(Outcome.dead("no such file"))
      expect(yield* as("retry", "busy", { "retry-after": "5" })).toEqual(Outcome.retry("busy", "5s"))
      expect(yield* as("snooze", "", { "retry-after": "7200" })).toEqual(Outcome.snooze("2h"))
      expect(yield* as("throttled", "", { "retry-after": "5", "nightshift-scope": "job" })).toEqual(
        Outcome.throttled({ after: "5s", scope: "job" })
      )
      expect(yield* as("cancelled", "")).toEqual(Outcome.cancelled)
      expect(yield* as("strange", "")).toMatchObject({ _tag: "Retry" })
    })
  )

  it.scopedLive("aborts its request when it is cancelled or times out", () =>
    Effect.gen(function* () {
      const arrived = yield* Deferred.make<void>()
      const closed = yield* Deferred.make<void>()
      const url = yield* endpoint((request) => {
        Deferred.unsafeDone(arrived, Exit.void)
        request.on("close", () => Deferred.unsafeDone(closed, Exit.void))
        request.resume()
      })
      const running = yield* Effect.fork(push(url))
      yield* Deferred.await(arrived)
      yield* Fiber.interrupt(running)
      yield* Deferred.await(closed)
    })
  )

  it.scopedLive("leaves no connection open to an endpoint that never closes it", () =>
    Effect.gen(function* () {
      const closed = yield* Deferred.make<void>()
      const server = Http.createServer({ keepAliveTimeout: 0 }, (_, response) => response.end())
      server.on("connection", (socket) => socket.on("close", () => Deferred.unsafeDone(closed, Exit.void)))
      const url = new URL(`http://127.0.0.1:${yield* listening(server)}/`)
      const fetch = yield* SafeFetch.make(Allowance.make(["127.0.0.1"]), Duration.millis(50))
      expect(yield* fetch.post({ url, json: "{}", redirects: undefined })).toMatchObject({ status: 200 })
      yield* Deferred.await(closed)
    })
  )

  it.scopedLive("reaches no private address, unless HTTP_HANDLER_ALLOW lists it", () =>
    Effect.gen(function* () {
      let requests = 0
      const url = yield* endpoint(
        reading((_, response) => {
          requests += 1
          response.end()
        })
      )
      const refused = yield* Effect.flip(push(url, { allow: "10.0.0.1" }))
      expect(String(refused)).toContain("Add it to HTTP_HANDLER_ALLOW")
      const named = url.replace("127.0.0.1", "localhost")
      expect(String(yield* Effect.flip(push(named, { allow: "" })))).toContain("is not a public address")
      expect(requests).toBe(0)
      expect(yield* push(url)).toEqual(Outcome.done())
    })
  )

  it.scopedLive("is not sent to a server whose certificate cannot be verified", () =>
    Effect.gen(function* () {
      let requests = 0
      const file = (name: string) => readFileSync(new URL(`../database/fixtures/tls/${name}`, import.meta.url))
      const server = Https.createServer({ cert: file("server.pem"), key: file("server.key") }, (_, response) => {
        requests += 1
        response.end()
      })
      const error = yield* Effect.flip(push(`https://127.0.0.1:${yield* listening(server)}/`))
      expect(String(error)).toMatch(/did not respond \((?:UNABLE_TO_VERIFY|SELF_SIGNED|DEPTH_ZERO)/)
      expect(requests).toBe(0)
    })
  )

  it.effect("stops the start of the process if HTTP_HANDLER_ALLOW is invalid", () =>
    Effect.gen(function* () {
      const exit = yield* Effect.exit(push("http://example.org/", { allow: "10.0.0.0/99" }))
      expect(Exit.isFailure(exit) && Cause.pretty(exit.cause)).toContain("HTTP_HANDLER_ALLOW")
      yield* TestClock.adjust("1 second")
    })
  )

  it("is refused with options that cannot work, without the secret", () => {
    const made = (options: Partial<Push.PushOptions>) => () =>
      Push.make(Resize, { url: "https://example.org/", secret: Redacted.make(secretOf("a")), ...options })
    expect(made({ url: "ftp://example.org/" })).toThrow("url must be an http or https URL without credentials")
    expect(made({ url: "https://me:pass@example.org/" })).toThrow(/^url must be (?!.*pass)/)
    expect(made({ secret: [] })).toThrow("secret must have 1 to 16 secrets, got 0.")
    expect(made({ secret: Redacted.make("hunter2") })).toThrow(/^secret must be whsec_(?!.*hunter2)/)
    expect(made({ throttles: "all" as never })).toThrow('throttles must be queue, key or job, got "all".')
  })
})
