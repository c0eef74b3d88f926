import { createHmac } from "node:crypto"
import type * as Http from "node:http"
import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, LogLevel } from "effect"
import * as Webhook from "../../src/gateway/push/Webhook.js"
import { keyOf, verify } from "../../src/gateway/SignedSources.js"
import { Endpoints } from "../../src/queue/endpoints/Endpoints.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { TestShift } from "../../src/testing/TestShift.js"
import { endpoint, type Received, reading } from "./PushEndpoint.js"

/** A worker on a virtual clock that may reach these addresses. A test reads no settings, so the handler gets them. */
const allowing = (allow: string, more: ReadonlyArray<readonly [string, string]> = []) => {
  const settings = ConfigProvider.fromMap(new Map([["HTTP_HANDLER_ALLOW", allow], ...more]))
  const open = Effect.withConfigProvider(Webhook.handler.open as NonNullable<typeof Webhook.handler.open>, settings)
  return Effect.provide(
    TestShift.layer({
      handlers: [{ ...Webhook.handler, open }],
      queues: ["webhooks"],
      startAt: Date.now(),
      logLevel: LogLevel.None
    })
  )
}

/** A customer whose endpoint answers as the last call of `answers` says, and keeps what it received. */
const customer = Effect.gen(function* () {
  const received: Array<Received> = []
  let answer = (response: Http.ServerResponse): unknown => response.writeHead(200).end("thanks")
  const url = yield* endpoint(
    reading((request, response) => {
      received.push(request)
      answer(response)
    })
  )
  const endpoints = yield* Endpoints
  const made = yield* endpoints.create({ url, customer: "acme" })
  return {
    ...made,
    endpoints,
    received,
    host: new URL(url).host,
    now: endpoints.get(made.id),
    answers: (status: number, body = "", headers: Record<string, string> = {}) => {
      answer = (response) => response.writeHead(status, headers).end(body)
    },
    /** Changes the URL before it answers. */
    moves: (status: number, to: string) => {
      answer = async (response) => {
        await Effect.runPromise(endpoints.change(made.id, { url: to }))
        response.writeHead(status).end()
      }
    },
    hangs: () => {
      answer = () => {}
    }
  }
})

const send = Effect.map(
  Webhook.send({ customer: "acme", type: "order.paid" }, { order: 7 }),
  ([only]) => only as Webhook.Sent
)

const isGenuine = (secret: string, { body, headers }: Received, now: number) =>
  verify("standard", [keyOf("standard", secret) ?? Buffer.alloc(0)], headers, Buffer.from(body), now)._tag === "Genuine"

const clockNow = Effect.clockWith((clock) => clock.currentTimeMillis)

describe("a webhook to a customer", () => {
  it.scopedLive("is signed by every secret, and keeps its id and body over retries and a resend", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(500, "busy")
      const { id } = yield* send
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "retrying", lastError: `${acme.host} responded 500: busy` })
      expect(yield* acme.now).toMatchObject({ failures: 1, lastError: `${acme.host} responded 500: busy` })
      const next = yield* acme.endpoints.rotate(acme.id, Duration.days(1))
      acme.answers(201, "thanks")
      yield* shift.advance("10s")
      expect(yield* shift.job(id)).toMatchObject({
        state: "done",
        attempt: 2,
        result: { status: 201, response: "thanks", millis: expect.any(Number) }
      })
      expect(yield* acme.now).toMatchObject({ failures: 0, firstFailedAt: undefined, lastError: undefined })
      const jobs = yield* JobAdmin
      yield* jobs.requeue(id)
      yield* shift.settle
      expect(acme.received).toHaveLength(3)
      expect(new Set(acme.received.map(({ headers }) => headers["webhook-id"]))).toEqual(new Set([id]))
      expect(new Set(acme.received.map(({ body }) => body)).size).toBe(1)
      expect(JSON.parse(acme.received[0]?.body ?? "")).toEqual({
        type: "order.paid",
        timestamp: expect.stringMatching(/Z$/),
        data: { order: 7 }
      })
      const now = yield* clockNow
      const [first, second] = acme.received as [Received, Received]
      expect([acme.secret, next.secret].map((secret) => isGenuine(secret, first, now))).toEqual([true, false])
      expect([acme.secret, next.secret].map((secret) => isGenuine(secret, second, now))).toEqual([true, true])
      // The signature as the specification of Standard Webhooks defines it, computed here.
      const { "webhook-id": sentId, "webhook-timestamp": at, "webhook-signature": signatures } = second.headers
      const key = Buffer.from(next.secret.slice("whsec_".length), "base64")
      const expected = createHmac("sha256", key).update(`${sentId}.${at}.${second.body}`).digest("base64")
      expect(String(signatures).split(" ")).toContain(`v1,${expected}`)
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("fails if the endpoint redirects, whatever it asks of the queue, and waits as it asks", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(307, "", { location: "http://169.254.169.254/latest", "nightshift-outcome": "cancelled" })
      const { id } = yield* send
      yield* shift.settle
      const error = `${acme.host} responded 307, a redirect, which is not followed.`
      expect(yield* shift.job(id)).toMatchObject({ state: "retrying", lastError: error })
      acme.answers(429, "slow down", { "retry-after": "1800" })
      yield* shift.advance("10s")
      expect(yield* shift.job(id)).toMatchObject({ attempt: 2, lastError: `${acme.host} responded 429: slow down` })
      yield* shift.advance("29m")
      expect(acme.received).toHaveLength(2)
      yield* shift.advance("2m")
      expect(acme.received).toHaveLength(3)
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("does not run out of attempts because the endpoint asks for short waits", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(503, "maintenance", { "retry-after": "1" })
      const { id } = yield* send
      yield* shift.advance("20m")
      expect(acme.received).toHaveLength(4)
      acme.answers(200)
      yield* shift.advance("1h")
      expect(yield* shift.job(id)).toMatchObject({ state: "done", attempt: 5 })
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("counts responses whose text PostgreSQL cannot store", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(500, "no\u0000")
      const { id } = yield* send
      yield* shift.settle
      expect(yield* acme.now).toMatchObject({ failures: 1, lastError: `${acme.host} responded 500: no\ufffd` })
      acme.answers(200, `${"x".repeat(999)}\u{1f642}`)
      yield* shift.advance("10s")
      expect(yield* shift.job(id)).toMatchObject({ state: "done", result: { response: `${"x".repeat(999)}\ufffd` } })
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("shows no masked value that the endpoint echoes", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(500, "you sent open sesame")
      const [sent] = yield* Webhook.send({ customer: "acme", type: "login" }, { password: "open sesame" })
      yield* shift.settle
      expect((yield* acme.now).lastError).toBe(`${acme.host} responded 500: you sent [masked]`)
      acme.answers(200, "you sent open sesame")
      yield* shift.advance("10s")
      expect(yield* shift.job(sent?.id as Webhook.Sent["id"])).toMatchObject({
        result: { response: "you sent [masked]" }
      })
      // Cut in the middle of the value, an echo would still show its beginning.
      acme.answers(200, `${"x".repeat(990)} open sesame`)
      const [long] = yield* Webhook.send({ customer: "acme", type: "login" }, { password: "open sesame" })
      yield* shift.settle
      expect(yield* shift.job(long?.id as Webhook.Sent["id"])).toMatchObject({
        result: { response: `${"x".repeat(990)} [masked]` }
      })
    }).pipe(allowing("127.0.0.1", [["NIGHTSHIFT_MASK", "password"]]))
  )

  it.scopedLive("reaches no private address", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      const { id } = yield* send
      yield* shift.settle
      expect((yield* shift.job(id)).lastError).toContain("HTTP_HANDLER_ALLOW")
      expect(acme.received).toEqual([])
      expect(yield* acme.now).toMatchObject({ failures: 1 })
    }).pipe(allowing(""))
  )

  it.scopedLive("disables an endpoint that is gone; the next one is dead, and both are resent once it is enabled", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(410)
      const first = yield* send
      yield* shift.settle
      expect(yield* acme.now).toMatchObject({ disabledBecause: "gone", failures: 1 })
      acme.answers(200)
      const second = yield* send
      yield* shift.settle
      expect(acme.received).toHaveLength(1)
      expect((yield* shift.job(second.id)).lastError).toMatch(/was disabled at .*: it responded 410 Gone\. Enable it/)
      const metrics = yield* Metrics
      expect(yield* metrics.render).toContain('nightshift_endpoints_disabled_total{reason="gone"} 1')
      yield* acme.endpoints.enable(acme.id, true)
      const jobs = yield* JobAdmin
      for (const { id } of [first, second]) yield* jobs.requeue(id)
      yield* shift.settle
      for (const { id } of [first, second]) expect((yield* shift.job(id)).state).toBe("done")
      expect(acme.received.map(({ headers }) => headers["webhook-id"])).toEqual([first.id, first.id, second.id])
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("keeps an endpoint whose old URL says that it is gone, and is sent to the new one", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.moves(410, `${acme.url}/new`)
      const { id } = yield* send
      yield* shift.settle
      const error = `${acme.host} responded 410.`
      expect(yield* shift.job(id)).toMatchObject({ state: "retrying", lastError: error })
      expect(yield* acme.now).toMatchObject({ url: `${acme.url}/new`, disabledAt: undefined, failures: 0 })
      acme.answers(200)
      yield* shift.advance("10s")
      expect(yield* shift.job(id)).toMatchObject({ state: "done", attempt: 2 })
      expect(acme.received.map(({ path }) => path)).toEqual(["/jobs", "/jobs/new"])
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("disables an endpoint that has failed for five days, and not a day earlier", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.answers(503)
      yield* send
      for (let day = 0; day < 4; day += 1) {
        yield* shift.advance("1d")
        yield* send
      }
      yield* shift.advance("23h")
      const failing = yield* acme.now
      expect(failing).toMatchObject({ disabledAt: undefined })
      expect(failing.failures).toBeGreaterThan(10)
      yield* shift.advance("1d")
      const disabled = yield* acme.now
      expect(disabled).toMatchObject({ disabledBecause: "failing" })
      expect((disabled.disabledAt ?? 0) - (disabled.firstFailedAt ?? 0)).toBeGreaterThanOrEqual(5 * 86_400_000)
      const attempts = acme.received.length
      expect(attempts).toBe(disabled.failures)
      yield* send
      yield* shift.drain
      expect(acme.received).toHaveLength(attempts)
      expect((yield* shift.jobs).map(({ state }) => state)).toEqual(Array(6).fill("dead"))
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("is dead if its endpoint was deleted", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      const { id } = yield* send
      yield* acme.endpoints.remove(acme.id)
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "dead", lastError: `Endpoint ${acme.id} was deleted.` })
    }).pipe(allowing("127.0.0.1"))
  )

  it.scopedLive("counts a slow endpoint as failed", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const acme = yield* customer
      acme.hangs()
      const { id } = yield* send
      yield* shift.advance("20s")
      expect((yield* shift.job(id)).lastError).toContain("within 15s")
      expect(yield* acme.now).toMatchObject({ failures: 1 })
    }).pipe(allowing("127.0.0.1"))
  )
})
