import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Option } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import { Queue } from "../../src/queue/Queue.js"
import * as TestDatabase from "../support/TestDatabase.js"
import { backends, layerPostgres, TestServer } from "./TestServer.js"

const nobody = "0198c0de-0000-7000-8000-00000000dead"

/** Stores jobs and lets them die of these errors. */
const bury = (...errors: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const { admin } = yield* TestServer
    const queue = yield* Queue
    const ids = yield* makeGenerator
    const jobs = errors.map((error) => ({ kind: "greet", payload: { error } }))
    yield* admin("POST", "/api/v1/jobs", { json: { jobs } })
    const claimed = yield* queue.claim({ queue: "mail", pod: ids.pod(1), limit: 100 })
    yield* queue.finalize(
      claimed.map(({ id, lease, payload }) => {
        const { error } = payload as { error: string }
        return { id, lease, end: End.Dead({ reason: "exhausted", counted: true, error }) }
      })
    )
    return claimed.map(({ id }) => id)
  })

const bulk = (json: unknown) => Effect.flatMap(TestServer, ({ admin }) => admin("POST", "/api/v1/jobs/bulk", { json }))

/** Runs the operations as a pod would. */
const carryOut: Effect.Effect<void, unknown, Operations> = Effect.flatMap(Operations, ({ step }) =>
  Effect.flatMap(step(), (went) => (Option.isSome(went) ? carryOut : Effect.void))
)

describe.each(backends)("on %s, POST /api/v1/jobs/bulk", (_, layer) => {
  it.scopedLive("previews its effect, then runs in the background and reports its progress", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const ids = yield* bury("timeout after 3 ms", "timeout after 5 ms", "no such user")
      const filter = { queue: ["mail"], shape: "timeout after # ms" }
      const preview = yield* bulk({ action: "requeue", filter, dryRun: true })
      expect(preview).toMatchObject({ status: 200, json: { matched: { count: 2, exact: true } } })
      expect(
        JSON.parse(preview.text)
          .sample.map(({ id }: { id: string }) => id)
          .sort()
      ).toEqual(ids.slice(0, 2).sort())
      const begun = yield* bulk({ action: "requeue", filter, reason: "the upstream is back" })
      expect(begun.status).toBe(202)
      const { operation } = JSON.parse(begun.text)
      const look = admin("GET", `/api/v1/operations/${operation}`)
      expect((yield* look).json).toMatchObject({
        id: operation,
        action: "requeue",
        status: "running",
        who: "api:admin",
        reason: "the upstream is back",
        filter: { ...filter, state: ["dead"] },
        total: { count: 2, exact: true },
        done: 0,
        finishedAt: null
      })
      yield* carryOut
      expect((yield* look).json).toMatchObject({ status: "done", done: 2, skipped: {}, failed: 0, error: null })
      const dead = yield* admin("GET", "/api/v1/jobs?state=dead")
      expect(dead.json).toMatchObject({ total: { count: 1, exact: true } })
      const listed = yield* admin("GET", "/api/v1/operations?limit=1")
      expect(listed.json).toMatchObject({ operations: [{ id: operation }], next: null })
      const audit = yield* admin("GET", `/api/v1/audit?target=${operation}`)
      expect(audit.json).toMatchObject({
        entries: [{ act: "jobs.requeue", who: "api:admin", reason: "the upstream is back", after: { filter } }]
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("acts on the jobs that its preview counted, although others have died since", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* bury("timeout after 3 ms", "timeout after 5 ms")
      const filter = { queue: "mail", shape: "timeout after # ms" }
      const preview = yield* bulk({ action: "requeue", filter, dryRun: true, countTo: 1_000 })
      const shown = JSON.parse(preview.text)
      const moment = expect.stringMatching(/^\d{4}-.*Z$/)
      expect(shown.filter).toEqual({ ...filter, state: ["dead"], until: moment, diedBefore: moment })
      // The bound includes the millisecond of the preview.
      const at = Date.parse(shown.filter.diedBefore)
      yield* Effect.repeat(Clock.currentTimeMillis, { until: (now) => now > at })
      yield* bury("timeout after 7 ms")
      const { operation } = JSON.parse((yield* bulk({ action: "requeue", filter: shown.filter })).text)
      yield* carryOut
      expect((yield* admin("GET", `/api/v1/operations/${operation}`)).json).toMatchObject({
        done: shown.matched.count,
        total: { count: 2, exact: true },
        skipped: {}
      })
      expect((yield* admin("GET", "/api/v1/jobs?state=dead")).json).toMatchObject({ total: { count: 1 } })
      // A bound of the request stays if it is earlier.
      const early = { ...filter, diedBefore: "2026-01-31T09:00:00.000Z" }
      const none = yield* bulk({ action: "requeue", filter: early, dryRun: true })
      expect(none.json).toMatchObject({ matched: { count: 0, exact: true }, filter: early })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("counts as far as the request allows, and then says at least", () =>
    Effect.gen(function* () {
      yield* bury("a", "b", "c")
      const counted = (countTo: number) => bulk({ action: "requeue", filter: { queue: "mail" }, dryRun: true, countTo })
      expect((yield* counted(2)).json).toMatchObject({ matched: { count: 2, exact: false }, undoable: false })
      expect((yield* counted(3)).json).toMatchObject({ matched: { count: 3, exact: true }, undoable: true })
      expect(yield* counted(0)).toMatchObject({ status: 400, json: { error: { field: "countTo" } } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("acts on the named jobs, and reports those it skipped", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [first] = yield* bury("no")
      const ids = [first, nobody]
      const preview = yield* bulk({ action: "delete", ids, dryRun: true })
      expect(preview).toMatchObject({ json: { matched: { count: 1, exact: true }, sample: [{ id: first }] } })
      const { operation } = JSON.parse((yield* bulk({ action: "delete", ids })).text)
      yield* carryOut
      const ended = yield* admin("GET", `/api/v1/operations/${operation}`)
      expect(ended.json).toMatchObject({ status: "done", filter: null, done: 1, skipped: { not_found: 1 } })
      expect(yield* admin("GET", `/api/v1/jobs/${first}`)).toMatchObject({ status: 404 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is stopped by a cancel, which is audited", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* bury("no")
      const { operation } = JSON.parse((yield* bulk({ action: "requeue", filter: { state: "dead" } })).text)
      const reason = { "x-reason": "na%C3%AFve" }
      const cancelled = yield* admin("POST", `/api/v1/operations/${operation}/cancel`, { headers: reason })
      expect(cancelled).toMatchObject({ status: 200, json: { status: "cancelled", done: 0 } })
      yield* carryOut
      expect(yield* admin("GET", "/api/v1/jobs?state=dead")).toMatchObject({ json: { total: { count: 1 } } })
      const audit = yield* admin("GET", "/api/v1/audit?act=operation")
      expect(audit.json).toMatchObject({ entries: [{ act: "operation.cancel", target: operation, reason: "naïve" }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses invalid requests, names the field and starts nothing", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const refusals: ReadonlyArray<readonly [json: unknown, says: RegExp]> = [
        [{}, /action is missing/],
        [{ action: "explode", filter: { queue: "a" } }, /action must be one of cancel, requeue/],
        [{ action: "cancel" }, /one of ids and filter/],
        [{ action: "cancel", ids: [nobody], filter: { queue: "a" } }, /one of ids and filter/],
        [{ action: "cancel", ids: [] }, /1 to 10000 entries, got 0/],
        [{ action: "cancel", ids: ["seven"] }, /must be a job id/],
        [{ action: "cancel", ids: Array.from({ length: 10_001 }, () => nobody) }, /1 to 10000 entries, got 10001/],
        [{ action: "delete", filter: {} }, /must not be empty/],
        [{ action: "delete", filter: { payload: {} } }, /^filter\.payload must not be empty; give it a value/],
        [{ action: "delete", filter: { queue: "a", payload: [] } }, /^filter\.payload must not be empty/],
        [{ action: "delete", filter: { search: "" } }, /^filter\.search must not be empty/],
        [{ action: "requeue", filter: { queue: "a", text: "" } }, /^filter\.text must not be empty/],
        [{ action: "delete", filter: { state: "done", shape: "" } }, /^filter\.shape must not be empty/],
        [{ action: "requeue", filter: { state: "pending" } }, /must not be pending: requeue needs/],
        [{ action: "cancel", filter: { state: ["dead"] } }, /must not be dead/],
        [{ action: "cancel", filter: { sate: "dead" } }, /sate is not a known field/],
        [{ action: "cancel", filter: { queue: [] } }, /a string or a list of strings/],
        [{ action: "cancel", filter: { queue: "\u0000" } }, /a string or a list of strings/],
        [{ action: "cancel", filter: { since: "yesterday" } }, /RFC 3339/],
        [{ action: "cancel", filter: { queue: "a" }, dryRun: "yes" }, /true or false/],
        [[], /must be an object/]
      ]
      for (const [json, says] of refusals) {
        const refused = yield* bulk(json)
        expect(refused).toMatchObject({ status: 400, json: { error: { message: expect.stringMatching(says) } } })
      }
      expect(yield* admin("GET", "/api/v1/operations")).toMatchObject({ json: { operations: [] } })
      expect(yield* admin("GET", "/api/v1/operations/seven")).toMatchObject({ status: 404 })
      expect(yield* admin("GET", "/api/v1/operations?cursor=x")).toMatchObject({ status: 400 })
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, GET /api/v1/jobs/groups", (_, layer) => {
  it.scopedLive("groups dead jobs by cause, with a filter that matches exactly these jobs", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const invalid = (field: string) =>
        `[\n  {\n    "path": [\n      "${field}"\n    ]\n  }\n]\n    at send (jobs.ts:7:1)`
      yield* bury("user 17 not found", "user 4 not found", "user 9 not found", "<script>alert(1)</script>")
      yield* bury(invalid("email"), invalid("email"), invalid("name"))
      const { json, status, text } = yield* viewer("GET", "/api/v1/jobs/groups?state=dead")
      expect(status).toBe(200)
      expect(json).toMatchObject({
        groups: [
          { kind: "greet", reason: "exhausted", shape: "user # not found", count: 3 },
          { shape: '[ { "path": [ "email" ] } ]', count: 2 },
          { shape: '[ { "path": [ "name" ] } ]', count: 1 },
          { shape: "<script>alert(#)</script>", count: 1 }
        ],
        looked: 7,
        sampled: false
      })
      const [users, emails] = JSON.parse(text).groups
      for (const [{ filter }, count] of [
        [users, 3],
        [emails, 2]
      ]) {
        const found = yield* bulk({ action: "requeue", filter, dryRun: true })
        expect(found).toMatchObject({ json: { matched: { count, exact: true } } })
      }
      yield* bury("")
      const withoutText = { ...users.filter, shape: "" }
      const silent = yield* bulk({ action: "requeue", filter: withoutText, dryRun: true })
      expect(silent).toMatchObject({ json: { matched: { count: 1, exact: true } } })
      expect(yield* viewer("GET", "/api/v1/jobs/groups?queue=other")).toMatchObject({ json: { groups: [], looked: 0 } })
      expect(yield* viewer("GET", "/api/v1/jobs/groups?state=done")).toMatchObject({ status: 400 })
    }).pipe(Effect.provide(layer()))
  )
})

describe("a preview that takes too long", () => {
  it.scopedLive("answers within a second with a lower bound", () =>
    Effect.gen(function* () {
      yield* bury("a")
      const holder = yield* TestDatabase.connection
      yield* Effect.promise(() => holder.query("begin; lock table nightshift.job in access exclusive mode"))
      const preview = yield* bulk({ action: "requeue", filter: { queue: "mail" }, dryRun: true, countTo: 1_000 })
      expect(preview).toMatchObject({ status: 200, json: { matched: { count: 0, exact: false }, sample: [] } })
      yield* Effect.promise(() => holder.query("rollback"))
    }).pipe(Effect.provide(layerPostgres()))
  )
})

describe("groups of dead jobs from a slow query", () => {
  /** Asks while the table is locked, so that the answer is slow and gets cached. Works only while nothing is cached. */
  const askedDearly = Effect.gen(function* () {
    const { admin } = yield* TestServer
    const [holder, watcher] = [yield* TestDatabase.connection, yield* TestDatabase.connection]
    yield* Effect.promise(() => holder.query("begin; lock table nightshift.job in access exclusive mode"))
    const asking = yield* Effect.fork(admin("GET", "/api/v1/jobs/groups"))
    const waits = () =>
      watcher.query(
        `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'
           and clock_timestamp() - query_start > '300 milliseconds'`
      )
    yield* Effect.repeat(Effect.promise(waits), { until: ({ rowCount }) => (rowCount ?? 0) > 0 })
    yield* Effect.promise(() => holder.query("commit"))
    return JSON.parse((yield* Fiber.join(asking)).text).groups
  })

  const groups = Effect.gen(function* () {
    const { admin } = yield* TestServer
    return JSON.parse((yield* admin("GET", "/api/v1/jobs/groups")).text).groups
  })

  it.scopedLive("are cached for a while, and refreshed after an operator's action", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [id] = yield* bury("no such user")
      expect(yield* askedDearly).toHaveLength(1)
      yield* bury("out of paper")
      expect(yield* groups).toHaveLength(1)
      yield* admin("POST", `/api/v1/jobs/${id}/requeue`)
      expect(yield* groups).toMatchObject([{ shape: "out of paper" }])

      const { operation } = JSON.parse((yield* bulk({ action: "requeue", filter: { queue: "mail" } })).text)
      expect(yield* askedDearly).toHaveLength(1)
      yield* carryOut
      yield* admin("GET", `/api/v1/operations/${operation}`)
      expect(yield* groups).toEqual([])
    }).pipe(Effect.provide(layerPostgres()))
  )
})
