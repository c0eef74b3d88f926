import { expect } from "@effect/vitest"
import { Duration, Effect, Redacted } from "effect"
import { minFailures, type NewEndpoint } from "../../src/queue/endpoints/Endpoint.js"
import { Endpoints } from "../../src/queue/endpoints/Endpoints.js"
import * as Send from "../../src/queue/endpoints/Send.js"
import { type Enqueued, Queue } from "../../src/queue/Queue.js"
import { Transactions } from "../../src/queue/Transactions.js"
import type { Law, Line } from "./Line.js"

const url = "https://customer.example.org/hooks"
const unknown = "0198c0de-0000-7000-8000-00000000dead"
const day = Duration.toMillis("1 day")

const create = (line: Line, more: Partial<NewEndpoint> = {}) =>
  line.endpoints.create({ url, customer: line.name, ...more })

const send = (line: Line, to: Send.SendTo, options?: Send.SendOptions) =>
  Send.send(to, { order: 7 }, options).pipe(
    Effect.provideService(Endpoints, line.endpoints),
    Effect.provideService(Queue, line.queue),
    Effect.provideService(Transactions, line.transactions)
  )

const failure = { url, error: "responded 500", isGone: false, disableAfter: 5 * day }

const outcomes = (sent: ReadonlyArray<Enqueued>) => sent.map(({ outcome }) => outcome)

export const endpointLaws = (law: Law): void => {
  law("are stored whole, without the secret, newest first and in pages", (line) =>
    Effect.gen(function* () {
      const { secret, ...first } = yield* create(line, { description: "bücher", types: ["order.paid", "x"] })
      expect(secret).toMatch(/^whsec_[\w+/]{43}=$/)
      expect(first).toMatchObject({ url, customer: line.name, description: "bücher", types: ["order.paid", "x"] })
      expect(first).toMatchObject({ failures: 0, disabledAt: undefined, firstFailedAt: undefined })
      expect(yield* line.endpoints.get(first.id)).toEqual(first)
      const { secret: own, ...second } = yield* create(line, { secret: `whsec_${Buffer.alloc(24).toString("base64")}` })
      expect(own).toBe(`whsec_${"A".repeat(32)}`)
      const page = yield* line.endpoints.list({ limit: 1, customer: line.name })
      expect(page).toEqual({ endpoints: [second], next: second.id })
      const rest = yield* line.endpoints.list({ limit: 1, customer: line.name, cursor: page.next })
      expect(rest).toEqual({ endpoints: [first], next: undefined })
      expect(yield* Effect.flip(line.endpoints.list({ limit: 1, cursor: "x" }))).toMatchObject({ _tag: "BadCursor" })
    })
  )

  law("are refused with the field that is wrong, and never with the secret", (line) =>
    Effect.gen(function* () {
      const refused = (given: Partial<NewEndpoint>) => Effect.flip(create(line, given))
      expect(yield* refused({ url: "https://me:pass@example.org" })).toMatchObject({ field: "url" })
      expect(yield* refused({ url: "ftp://example.org" })).toMatchObject({ field: "url" })
      expect(yield* refused({ customer: "" })).toMatchObject({ field: "customer" })
      expect(yield* refused({ types: [] })).toMatchObject({ field: "types" })
      expect(yield* refused({ description: "\u0000" })).toMatchObject({ field: "description" })
      // Programs in JavaScript.
      for (const missing of [undefined, null])
        expect(yield* refused({ url: missing as never })).toMatchObject({ field: "url" })
      for (const field of ["customer", "description", "secret"])
        expect(yield* refused({ [field]: null })).toMatchObject({ field })
      expect(yield* create(line, { types: null as never })).toMatchObject({ types: undefined })
      const bad = yield* refused({ secret: "hunter2" })
      expect(bad).toMatchObject({ _tag: "InvalidEndpoint", field: "secret" })
      expect(String(bad)).not.toContain("hunter2")
      for (const id of [unknown, "x"])
        for (const act of [line.endpoints.get, line.endpoints.remove, line.endpoints.open])
          expect(yield* Effect.flip<unknown, unknown, never>(act(id))).toMatchObject({ _tag: "EndpointNotFound", id })
    })
  )

  law("change only the given fields", (line) =>
    Effect.gen(function* () {
      const { secret: _, ...before } = yield* create(line, { types: ["a"], description: "d" })
      const changed = yield* line.endpoints.change(before.id, { url: "http://other.example.org/" })
      expect(changed).toEqual({ before, after: { ...before, url: "http://other.example.org/" } })
      const { after } = yield* line.endpoints.change(before.id, { types: null, description: "" })
      expect(after).toEqual({ ...changed.after, types: undefined, description: "" })
      expect(yield* Effect.flip(line.endpoints.change(before.id, { url: "x" }))).toMatchObject({ field: "url" })
      expect(yield* line.endpoints.remove(before.id)).toEqual(after)
      expect(yield* Effect.flip(line.endpoints.get(before.id))).toMatchObject({ _tag: "EndpointNotFound" })
    })
  )

  law("sign with the previous secret until its time is over", (line) =>
    Effect.gen(function* () {
      const first = yield* create(line)
      const secrets = Effect.map(line.endpoints.open(first.id), (open) => open.secrets.map(Redacted.value))
      const second = yield* line.endpoints.rotate(first.id, Duration.days(1))
      expect(yield* secrets).toEqual([second.secret, first.secret])
      yield* line.advance("12 hours")
      const third = yield* line.endpoints.rotate(first.id, Duration.days(7))
      expect(yield* secrets).toEqual([third.secret, second.secret, first.secret])
      yield* line.advance("13 hours")
      expect(yield* secrets).toEqual([third.secret, second.secret])
      const last = yield* line.endpoints.rotate(first.id, Duration.zero)
      expect(yield* secrets).toEqual([last.secret])
    })
  )

  law("are disabled after days of failures without a success, and not one failure early", (line) =>
    Effect.gen(function* () {
      const { id } = yield* create(line)
      const fail = Effect.map(line.endpoints.failed(id, failure), ({ after }) => after)
      const startedAt = yield* line.now
      for (let attempt = 1; attempt < minFailures; attempt += 1)
        expect(yield* fail).toMatchObject({ failures: attempt, firstFailedAt: startedAt, disabledAt: undefined })
      // Long enough, but one attempt too few; then enough attempts after a success, but not long enough.
      yield* line.endpoints.succeeded(id, url)
      expect(yield* line.endpoints.get(id)).toMatchObject({
        failures: 0,
        firstFailedAt: undefined,
        lastError: undefined
      })
      const again = yield* line.now
      for (let attempt = 1; attempt < minFailures - 1; attempt += 1) yield* fail
      yield* line.advance("5 days")
      expect(yield* fail).toMatchObject({ failures: minFailures - 1, disabledAt: undefined, firstFailedAt: again })
      expect(
        (yield* line.endpoints.list({ limit: 9, customer: line.name, standing: "failing" })).endpoints
      ).toHaveLength(1)
      const disabledAt = yield* line.now
      expect(yield* fail).toMatchObject({ disabledAt, disabledBecause: "failing", lastError: "responded 500" })
      const odd = yield* line.endpoints.failed(id, { ...failure, error: `\u0000${"x".repeat(998)}\u{1f642}` })
      expect(odd.after.lastError).toBe(`\ufffd${"x".repeat(998)}\ufffd`)
      expect(yield* line.endpoints.get(id)).toEqual(odd.after)
      const enabled = (yield* line.endpoints.enable(id, true)).after
      expect(enabled).toMatchObject({ disabledAt: undefined, disabledBecause: undefined, failures: 0 })
      for (let attempt = 0; attempt < 2 * minFailures; attempt += 1) yield* fail
      yield* line.advance(Duration.millis(5 * day - 1))
      expect(yield* fail).toMatchObject({ disabledAt: undefined })
      yield* line.advance(Duration.millis(1))
      expect(yield* fail).toMatchObject({ disabledBecause: "failing" })
    })
  )

  law("are never disabled if that is switched off, and at once if they are gone", (line) =>
    Effect.gen(function* () {
      const { id } = yield* create(line)
      for (let attempt = 0; attempt <= minFailures; attempt += 1) {
        yield* line.endpoints.failed(id, { ...failure, disableAfter: 0 })
        yield* line.advance("1 day")
      }
      expect(yield* line.endpoints.get(id)).toMatchObject({ failures: minFailures + 1, disabledAt: undefined })
      const { after, before } = yield* line.endpoints.failed(id, { ...failure, isGone: true })
      expect([before.disabledAt, after.disabledBecause]).toEqual([undefined, "gone"])
      const kept = (yield* line.endpoints.enable(id, false)).after
      expect(kept.disabledBecause).toBe("gone")
    })
  )

  law("count only attempts at their present URL", (line) =>
    Effect.gen(function* () {
      const { id } = yield* create(line)
      yield* line.endpoints.failed(id, failure)
      const moved = (yield* line.endpoints.change(id, { url: `${url}/new` })).after
      expect(moved).toMatchObject({ failures: 0, firstFailedAt: undefined, lastError: undefined })
      expect((yield* line.endpoints.failed(id, { ...failure, isGone: true })).after).toEqual(moved)
      const failing = (yield* line.endpoints.failed(id, { ...failure, url: `${url}/new` })).after
      expect(failing).toMatchObject({ failures: 1, lastError: "responded 500", disabledAt: undefined })
      yield* line.endpoints.succeeded(id, url)
      expect(yield* line.endpoints.get(id)).toEqual(failing)
      const gone = (yield* line.endpoints.failed(id, { ...failure, url: `${url}/new`, isGone: true })).after
      expect((yield* line.endpoints.change(id, { url })).after).toEqual({ ...gone, url })
    })
  )

  law("of a customer that want a type each get one job, in the transaction of the sender", (line) =>
    Effect.gen(function* () {
      const [all, paid] = [yield* create(line), yield* create(line, { types: ["order.paid"] })]
      yield* create(line, { customer: `${line.name}-other` })
      const off = yield* create(line, { types: ["order.paid"] })
      yield* line.endpoints.enable(off.id, false)
      const to = { customer: line.name, type: "order.paid" }
      const rolledBack = line.transactions.run(Effect.zipRight(send(line, to), Effect.fail("no")))
      expect(yield* Effect.flip(rolledBack)).toBe("no")
      const sent = yield* send(line, to, { id: "A-17" })
      expect(sent.map(({ endpoint }) => endpoint)).toEqual([all.id, paid.id, off.id])
      const jobs = yield* Effect.forEach(sent, ({ id }) => line.search.get(id))
      expect(jobs.map(({ key, kind, payload }) => ({ key, kind, payload }))).toEqual(
        sent.map(({ endpoint }) => ({
          key: endpoint,
          kind: "webhook.send",
          payload: { type: "order.paid", data: { order: 7 } }
        }))
      )
      const found = yield* line.search.list({ key: paid.id }, { limit: 10 })
      expect(found.jobs.map(({ id }) => id)).toEqual([sent[1]?.id])
      expect(outcomes(yield* send(line, to, { id: "A-17" }))).toEqual(Array(3).fill("deduplicated"))
      expect(yield* send(line, { customer: line.name, type: "unwanted" })).toMatchObject([{ endpoint: all.id }])
      expect(yield* send(line, { endpoint: paid.id, type: "unwanted" })).toMatchObject([{ endpoint: paid.id }])
      expect(yield* send(line, { customer: `${line.name}-none`, type: "order.paid" })).toEqual([])
    })
  )

  law("refuse a send to nobody", (line) =>
    Effect.gen(function* () {
      const refused = (to: Send.SendTo) => Effect.flip(send(line, to))
      expect(yield* refused({ endpoint: unknown, type: "x" })).toMatchObject({ _tag: "EndpointNotFound" })
      expect(yield* refused({ endpoint: unknown, customer: "c", type: "x" })).toMatchObject({ field: "endpoint" })
      expect(yield* refused({ customer: "", type: "x" })).toMatchObject({ field: "customer" })
      expect(yield* refused({ type: "" })).toMatchObject({ field: "type" })
      for (const id of ["", "x".repeat(257)])
        expect(yield* Effect.flip(send(line, { type: "x" }, { id }))).toMatchObject({ field: "id" })
    })
  )
}
