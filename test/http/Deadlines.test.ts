import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Layer, Option, Schedule } from "effect"
import type { Client } from "pg"
import * as LosingProxy from "../support/LosingProxy.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { type Answer, backends, layerPostgres, layerPostgresOver, TestServer } from "./TestServer.js"

const scheduled = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const { json } = yield* admin("POST", "/api/v1/jobs", {
    json: { jobs: [{ kind: "greet", payload: {}, runAt: "2126-01-31T09:00:00Z" }] }
  })
  return (json as { jobs: ReadonlyArray<{ id: string }> }).jobs[0]?.id ?? ""
})

const cancel = (id: string, deadline: string) =>
  Effect.flatMap(TestServer, ({ admin }) =>
    admin("POST", `/api/v1/jobs/${id}/cancel`, { headers: { "x-deadline": deadline } })
  )

const state = (id: string) =>
  Effect.flatMap(TestServer, ({ admin }) =>
    Effect.map(admin("GET", `/api/v1/jobs/${id}`), ({ json }) => (json as { state: string }).state)
  )

describe.each(backends)("on %s, a change with a deadline", (_, layer) => {
  it.scopedLive("is made before it, and refused after it", () =>
    Effect.gen(function* () {
      const id = yield* scheduled
      const late = yield* cancel(id, "2026-01-31T09:00:00Z")
      expect(late).toMatchObject({
        status: 412,
        json: { error: { tag: "DeadlinePassed", message: expect.stringContaining("nothing was changed") } }
      })
      expect(yield* state(id)).toBe("scheduled")
      expect(yield* cancel(id, "soon")).toMatchObject({ status: 400, json: { error: { field: "x-deadline" } } })
      expect(yield* cancel(id, "2126-01-31T09:00:00Z")).toMatchObject({ status: 200 })
      expect(yield* state(id)).toBe("cancelled")
    }).pipe(Effect.provide(layer()))
  )
})

const hook = { url: "https://customer.example.org/hooks" }

/** Changes that store something new, the table that they insert into, and a list that would show it. */
const stored: ReadonlyArray<readonly [path: string, json: object, table: string, list: string]> = [
  ["jobs", { kind: "greet", payload: {} }, "job", "jobs"],
  ["batches", { jobs: [{ kind: "greet", payload: {} }] }, "job", "batches"],
  ["workflows", { workflow: "greet", key: "Ada", payload: {} }, "job", "workflows"],
  ["publish", { name: "paid", data: {} }, "event", "published"],
  ["endpoints/send", { type: "paid", data: {} }, "job", "jobs"]
]

/** On PostgreSQL, with a clock that stands still until the test moves it. */
const steppable = () => Layer.provideMerge(layerPostgres(), SteppableClock.layer)

const inTenMinutes = Effect.map(Clock.currentTimeMillis, (now) => new Date(now + 600_000).toISOString())

/** Moves the clock past the deadline of a request, once it waits for a lock. */
const delayed = (request: Fiber.Fiber<Answer>, other: Client) =>
  Effect.gen(function* () {
    const waiting = "select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()"
    const isWaiting = Effect.map(
      Effect.promise(() => other.query(waiting)),
      ({ rowCount }) => (rowCount ?? 0) > 0
    )
    const hasEnded = Effect.map(Fiber.poll(request), Option.isSome)
    yield* Effect.repeat(
      Effect.zipWith(isWaiting, hasEnded, (waits, ended) => waits || ended),
      { until: (done) => done, schedule: Schedule.spaced("20 millis") }
    )
    expect(Option.getOrUndefined(yield* Fiber.poll(request)), "the end of a request that did not wait").toBeUndefined()
    yield* SteppableClock.advance("11 minutes")
  })

describe("a change that waits for the database until its deadline has passed", () => {
  it.scopedLive.each(stored)("stores nothing with POST /api/v1/%s", ([path, json, table, list]) =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* admin("POST", "/api/v1/endpoints", { json: hook })
      const before = (yield* admin("GET", `/api/v1/${list}`)).text
      const other = yield* TestDatabase.connection
      const query = (text: string) => Effect.promise(() => other.query(text))
      yield* query("begin")
      yield* query(`lock table nightshift.${table} in share mode`)
      const headers = { "x-deadline": yield* inTenMinutes }
      const storing = yield* Effect.fork(admin("POST", `/api/v1/${path}`, { json, headers }))
      yield* delayed(storing, other)
      yield* query("rollback")
      expect(yield* storing).toMatchObject({ status: 412, json: { error: { tag: "DeadlinePassed" } } })
      expect((yield* admin("GET", `/api/v1/${list}`)).text).toBe(before)
      const later = { "x-deadline": yield* inTenMinutes }
      expect(yield* admin("POST", `/api/v1/${path}`, { json, headers: later })).toMatchObject({
        status: 201
      })
      expect((yield* admin("GET", `/api/v1/${list}`)).text).not.toBe(before)
    }).pipe(Effect.provide(steppable()))
  )

  it.scopedLive("is rolled back", () =>
    Effect.gen(function* () {
      const id = yield* scheduled
      const other = yield* TestDatabase.connection
      const query = (text: string) => Effect.promise(() => other.query(text))
      yield* query("begin")
      yield* query(`select from nightshift.job where id = '${id}' for update`)
      const cancelling = yield* Effect.fork(cancel(id, yield* inTenMinutes))
      yield* delayed(cancelling, other)
      yield* query("rollback")
      expect(yield* cancelling).toMatchObject({ status: 412, json: { error: { tag: "DeadlinePassed" } } })
      expect(yield* state(id)).toBe("scheduled")
    }).pipe(Effect.provide(steppable()))
  )
})

/** The connection is lost this many times while it stores the job. That a second loss is answered with 503 shows that the first took place. */
const losses: ReadonlyArray<readonly [lost: number, status: number, jobs: number]> = [
  [1, 201, 1],
  [2, 503, 0]
]

describe("a change with a deadline that loses its connection before the commit", () => {
  it.scopedLive.each(losses)("is made again once: lost %i times, status %i", ([lost, status, jobs]) =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const headers = { "x-deadline": yield* inTenMinutes }
      const json = { kind: "greet", payload: { name: "Ada Lovelace" } }
      expect(yield* admin("POST", "/api/v1/jobs", { json, headers })).toMatchObject({ status })
      const listed = (yield* admin("GET", "/api/v1/jobs")).json as { readonly jobs: ReadonlyArray<unknown> }
      expect(listed.jobs).toHaveLength(jobs)
    }).pipe(
      Effect.provide(layerPostgresOver(TestDatabase.layerBehind((url) => LosingProxy.open(url, "Ada Lovelace", lost))))
    )
  )
})
