import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { exact } from "../../src/core/Count.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import { adminToken, backends, onSharedServers, TestServer } from "./TestServer.js"

const nobody = "0198c0de-0000-7000-8000-00000000dead"

interface Shown {
  readonly id: string
  readonly [field: string]: unknown
}

const enqueue = (...jobs: ReadonlyArray<Record<string, unknown>>) =>
  Effect.gen(function* () {
    const { admin } = yield* TestServer
    const json = { jobs: jobs.map((job) => ({ kind: "greet", payload: {}, ...job })) }
    const answer = yield* admin("POST", "/api/v1/jobs", { json })
    expect(answer.status).toBe(201)
    const stored: ReadonlyArray<Shown> = JSON.parse(answer.text).jobs
    return stored.map(({ id }) => id)
  })

const list = (query = "") =>
  Effect.gen(function* () {
    const { admin } = yield* TestServer
    const answer = yield* admin("GET", `/api/v1/jobs${query}`)
    expect(answer.status).toBe(200)
    const page: { jobs: ReadonlyArray<Shown>; next: string | null; total: unknown } = JSON.parse(answer.text)
    return page
  })

/** Claims the due jobs of a queue and ends them all. */
const run = (queueName: string, end: End) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const pod = (yield* makeGenerator).pod(yield* Clock.currentTimeMillis)
    const claimed = yield* queue.claim({ queue: queueName, pod, limit: 100 })
    yield* queue.finalize(claimed.map(({ id, lease }) => ({ id, lease, end })))
  })

const failed = End.Dead({ reason: "rejected", counted: true, error: "no <b>such</b> address" })

onSharedServers(backends, "GET /api/v1/jobs/{id}", (it) => {
  it.effect("shows every field of a job, null when empty", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const dedupe = { key: "k", scope: "retained" }
      const [id] = yield* enqueue({ payload: { a: [1, null] }, dedupe, runAt: "2026-01-31T09:00:00Z" })
      const { json, status } = yield* admin("GET", `/api/v1/jobs/${id?.toUpperCase()}`)
      expect(status).toBe(200)
      expect(json).toEqual({
        id,
        kind: "greet",
        version: 3,
        queue: "mail",
        state: "pending",
        payload: { a: [1, null] },
        attempt: 0,
        attempts: 7,
        priority: 0,
        runAt: "2026-01-31T09:00:00.000Z",
        createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        startedAt: null,
        finishedAt: null,
        cancelRequestedAt: null,
        lastError: null,
        history: [],
        reason: null,
        result: null,
        progress: null,
        key: null,
        dedupe,
        batch: null,
        pod: null,
        meta: null
      })
    })
  )

  it.effect("shows how a job ended and its errors on the way", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [id] = yield* enqueue({})
      yield* run("mail", failed)
      expect((yield* admin("GET", `/api/v1/jobs/${id}`)).json).toMatchObject({
        state: "dead",
        reason: "rejected",
        lastError: "no <b>such</b> address",
        finishedAt: expect.stringMatching(/Z$/),
        history: [
          { attempt: 1, outcome: "rejected", message: "no <b>such</b> address", endedAt: expect.stringMatching(/Z$/) }
        ]
      })
    })
  )

  it.effect("has the stack trace of an error, which lists leave out", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [id] = yield* enqueue({ queue: "trace" })
      const error = "no reply\n    at send (/app/mail.ts:7:1)\nCaused by: Error: refused"
      yield* run("trace", End.Dead({ reason: "rejected", counted: true, error }))
      const whole = { lastError: error, history: [{ message: error }] }
      expect((yield* admin("GET", `/api/v1/jobs/${id}`)).json).toMatchObject(whole)
      const short = { lastError: "no reply", history: [{ message: "no reply" }] }
      expect((yield* admin("GET", "/api/v1/jobs?queue=trace")).json).toMatchObject({ jobs: [short] })
    })
  )

  it.effect("returns 404 for an unknown or invalid id", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const id of [nobody, "seven", "%00", "a".repeat(500)]) {
        const missing = yield* admin("GET", `/api/v1/jobs/${id}`)
        expect(missing).toMatchObject({
          status: 404,
          json: { error: { message: expect.stringMatching(/^There is no|^No route matches|does not exist/) } }
        })
      }
    })
  )
})

describe.each(backends)("on %s, GET /api/v1/jobs", (_, layer) => {
  it.scopedLive("returns pages, newest first, each job once even while jobs are added", () =>
    Effect.gen(function* () {
      const ids = [...(yield* enqueue({}, {}, {})), ...(yield* enqueue({}, {}))]
      const first = yield* list("?limit=2")
      expect(first.total).toEqual({ count: 5, exact: true })
      yield* enqueue({})
      const second = yield* list(`?limit=2&cursor=${encodeURIComponent(first.next ?? "")}`)
      const third = yield* list(`?limit=2&cursor=${encodeURIComponent(second.next ?? "")}`)
      expect(third.next).toBeNull()
      expect([first, second, third].flatMap(({ jobs }) => jobs.map(({ id }) => id))).toEqual(ids.reverse())
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("supports every filter", () =>
    Effect.gen(function* () {
      const [dead] = yield* enqueue({ queue: "doomed" })
      yield* run("doomed", failed)
      const [later] = yield* enqueue({ kind: "plain", runAt: "2126-01-31T09:00:00Z", payload: { tag: ["a", "b"] } })
      const found = (query: string) => Effect.map(list(query), ({ jobs }) => jobs.map(({ id }) => id))
      expect(yield* found("?queue=doomed")).toEqual([dead])
      expect(yield* found("?kind=plain")).toEqual([later])
      expect(yield* found("?state=scheduled")).toEqual([later])
      expect(yield* found("?state=dead&reason=rejected")).toEqual([dead])
      expect(yield* found(`?text=${encodeURIComponent("<b>such")}`)).toEqual([dead])
      expect(yield* found(`?payload=${encodeURIComponent('{"tag":["b"]}')}`)).toEqual([later])
      expect(yield* found("?since=2020-01-01T00:00:00Z")).toHaveLength(2)
      expect(yield* found("?until=2020-01-01T00:00:00Z")).toEqual([])
      expect(yield* found("?queue=doomed&queue=default")).toEqual([later, dead])
      expect(yield* found("?queue=doomed,default&kind=plain&kind=other")).toEqual([later])
      expect(yield* found("?state=dead,scheduled")).toEqual([later, dead])
      expect(yield* found("?state=done&state=dead")).toEqual([dead])
      expect(yield* found("?reason=poison,rejected")).toEqual([dead])
      expect(yield* found("?dedupe=no-such-key")).toEqual([])
      expect(yield* found(`?shape=${encodeURIComponent("no <b>such</b> address")}`)).toEqual([dead])
      expect(yield* list("?queue=nobody")).toEqual({
        jobs: [],
        next: null,
        total: { count: 0, exact: true },
        sortedAmong: null,
        searched: null
      })
    }).pipe(Effect.provide(layer()))
  )
})

// Refused before any query, so one backend is enough.
describe.each(backends.slice(0, 1))("on %s, GET /api/v1/jobs with something wrong", (_, layer) => {
  it.scopedLive("is refused with the name of the field", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const [field, query, says] of [
        ["limit", "limit=0", /1 to 1000/],
        ["limit", "limit=1001", /1 to 1000/],
        ["limit", "limit=many", /1 to 1000/],
        ["cursor", "cursor=over-there", /cursor/],
        ["state", "state=asleep", /one of scheduled, retrying/],
        ["reason", "reason=boredom", /one of exhausted/],
        ["since", "since=yesterday", /RFC 3339/],
        ["until", "until=2026-01-31", /RFC 3339/],
        ["payload", "payload=%7B", /must be JSON/],
        ["payload", "payload=%22%5Cu0000%22", /NUL/],
        ["payload.id", `payload=${encodeURIComponent('{"id":9007199254740993}')}`, /64-bit float cannot hold/],
        [
          "payload",
          "payload=9007199254740993",
          /^payload contains 9007199254740993, which a 64-bit float cannot hold\. Use another field or a smaller number\.$/
        ],
        ["payload", "payload=-0", /^payload contains -0, which PostgreSQL stores as 0\. Use 0\.$/],
        ["kind", "kind=%00", /NUL/],
        ["state", "state=dead&state=asleep", /one of scheduled, retrying/],
        ["state", "state=dead,", /one of scheduled, retrying/],
        ["queue", "queue=a&queue=%00", /NUL/],
        ["kind", Array.from({ length: 51 }, (_, index) => `kind=${index}`).join("&"), /more than 50/],
        ["text", "text=a&text=b", /must be text/],
        ["sate", "sate=dead", /not a known field/]
      ] as const) {
        const refused = yield* admin("GET", `/api/v1/jobs?${query}`)
        expect(refused, query).toMatchObject({
          status: 400,
          json: { error: { field, message: expect.stringMatching(says) } }
        })
      }
    }).pipe(Effect.provide(layer()))
  )
})

onSharedServers(backends, "actions on a job", (it) => {
  it.effect("return the updated job", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [id] = yield* enqueue({ runAt: "2126-01-31T09:00:00Z" })
      const act = (name: string) => admin("POST", `/api/v1/jobs/${id}/${name}`)
      expect(yield* act("run-now")).toMatchObject({ status: 200, json: { id, state: "pending" } })
      expect(yield* act("cancel")).toMatchObject({
        status: 200,
        json: { id, state: "cancelled", reason: "cancelled" }
      })
      expect(yield* act("requeue")).toMatchObject({ status: 200, json: { id, state: "pending", attempt: 0 } })
      expect(yield* admin("DELETE", `/api/v1/jobs/${id}`)).toMatchObject({ status: 200, json: { id } })
      expect(yield* admin("GET", `/api/v1/jobs/${id}`)).toMatchObject({ status: 404 })
    })
  )

  it.effect("are undone exactly with the returned id, and only once", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [id] = yield* enqueue({ runAt: "2126-01-31T09:00:00Z" })
      const path = `/api/v1/jobs/${id}`
      const before = yield* admin("GET", path)
      const undoIdOf = (answer: { readonly json: unknown }) => (answer.json as { readonly undo: string | null }).undo
      for (const name of ["cancel", "run-now", "delete"]) {
        const acted = yield* name === "delete" ? admin("DELETE", path) : admin("POST", `${path}/${name}`)
        const undo = undoIdOf(acted)
        const restored = yield* admin("POST", `${path}/undo`, { json: { undo } })
        expect(restored).toMatchObject({ status: 200, json: before.json })
        expect(yield* admin("GET", path)).toMatchObject({ status: 200, json: before.json })
        const again = yield* admin("POST", `${path}/undo`, { json: { undo } })
        expect(again).toMatchObject({ status: 409, json: { error: { tag: "UndoRefused" } } })
      }
      const { json } = yield* admin("GET", `/api/v1/audit?target=${id}&limit=1`)
      expect(json).toMatchObject({ entries: [{ act: "job.undo", after: { state: "scheduled" } }] })
    })
  )

  it.effect("explain why they cannot be applied in the job's state", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const [id] = yield* enqueue({})
      const refused = yield* admin("POST", `/api/v1/jobs/${id}/requeue`)
      expect(refused).toMatchObject({
        status: 409,
        json: { error: { tag: "JobNotInState", message: expect.stringMatching(/is pending: requeue needs a job/) } }
      })
      yield* run("mail", End.Done({ result: "7" }))
      expect(yield* admin("POST", `/api/v1/jobs/${id}/run-now`)).toMatchObject({ status: 409 })
      expect(yield* admin("POST", `/api/v1/jobs/${id}/cancel`)).toMatchObject({ status: 409 })
      const dedupe = { key: "only-one", scope: "active" }
      const [first] = yield* enqueue({ dedupe })
      yield* admin("POST", `/api/v1/jobs/${first}/cancel`)
      yield* enqueue({ dedupe })
      expect(yield* admin("POST", `/api/v1/jobs/${first}/requeue`)).toMatchObject({
        status: 409,
        json: { error: { tag: "DedupeKeyHeld" } }
      })
    })
  )

  it.effect("return 404 for an unknown job", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const [method, end] of [
        ["POST", "/cancel"],
        ["POST", "/requeue"],
        ["POST", "/run-now"],
        ["DELETE", ""]
      ] as const) {
        const missing = yield* admin(method, `/api/v1/jobs/${nobody}${end}`)
        expect(missing).toMatchObject({ status: 404, json: { error: { tag: "JobNotFound" } } })
      }
    })
  )
})

describe.each(backends)("on %s, GET /api/v1/jobs/find", (_, layer) => {
  it.scopedLive("returns the jobs with a key, and none for text that is no key", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const key = "order/A 17"
      yield* enqueue({ queue: "a", dedupe: { key, scope: "active" } }, { queue: "a" })
      const found = (text: string) => viewer("GET", `/api/v1/jobs/find/${encodeURIComponent(text)}`)
      expect(yield* found(key)).toMatchObject({ status: 200, json: { jobs: [{ queue: "a", dedupe: { key } }] } })
      expect(yield* found("greet")).toMatchObject({ status: 200, json: { jobs: [] } })
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, GET /api/v1/queues", (_, layer) => {
  it.scopedLive("counts jobs by state and shows the age of the oldest due one", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      yield* enqueue(
        { queue: "a", runAt: "2026-01-31T09:00:00Z" },
        { queue: "a" },
        { queue: "b", runAt: "2126-01-31T09:00:00Z" }
      )
      const { json, status } = yield* ask("GET", "/api/v1/queues", { token: adminToken })
      expect(status).toBe(200)
      const states = ["scheduled", "retrying", "pending", "running", "done", "dead"]
      const none = Object.fromEntries(states.map((state) => [state, exact(0)]))
      expect(json).toMatchObject({
        queues: [
          { name: "a", counts: { ...none, pending: exact(2) }, oldestDueAgeSeconds: expect.any(Number) },
          { name: "b", counts: { ...none, scheduled: exact(1) }, oldestDueAgeSeconds: null }
        ]
      })
    }).pipe(Effect.provide(layer()))
  )
})
