import type * as Http from "node:http"
import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { Sessions } from "../../src/access/Sessions.js"
import { Leadership } from "../../src/cluster/Leadership.js"
import { exact } from "../../src/core/Count.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { Lifecycle } from "../../src/core/Lifecycle.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import { JobOverview } from "../../src/queue/search/JobOverview.js"
import { listen } from "./EventListener.js"
import { adminToken, backends, layer, TestServer, viewerToken } from "./TestServer.js"

const follow = (token = viewerToken, query = "") => followWith({ authorization: `Bearer ${token}` }, query)

const followWith = (credentials: Http.OutgoingHttpHeaders, query = "") => listen(`/api/v1/events${query}`, credentials)

const enqueue = Effect.flatMap(TestServer, ({ admin }) =>
  admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload: { secret: "hunter2" } }] } })
)

/** Logs in and returns the cookie. */
const login = Effect.gen(function* () {
  const { ask } = yield* TestServer
  const { headers } = yield* ask("POST", "/api/v1/session", { json: { token: viewerToken } })
  return { cookie: headers["set-cookie"]?.[0]?.split(";")[0] ?? "", "sec-fetch-site": "same-origin" }
})

describe.concurrent.each(backends)("on %s, live events", (_, layer) => {
  it.scopedLive("end in every tab when their session is ended, and continue for others", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const ours = yield* login
      const tabs = [yield* followWith(ours), yield* followWith(ours)]
      const others = yield* followWith(yield* login)
      yield* Effect.forEach([...tabs, others], ({ heard }) => heard("snapshot"))
      expect(yield* ask("DELETE", "/api/v1/session", { headers: ours })).toMatchObject({ status: 204 })
      yield* Effect.forEach(tabs, ({ ended }) => ended)
      yield* enqueue
      yield* others.heard("jobs")
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("end when their session expires", () =>
    Effect.gen(function* () {
      const expiring = yield* followWith(yield* login)
      const lasting = yield* follow()
      yield* lasting.heard("snapshot")
      yield* expiring.ended
      yield* enqueue
      yield* lasting.heard("jobs")
    }).pipe(Effect.provide(layer({ sessionLasting: Duration.seconds(1) })))
  )

  it.scopedLive("end when their session is ended by another process", () =>
    Effect.gen(function* () {
      const sessions = yield* Sessions
      const { cookie } = yield* login
      const elsewhere = yield* followWith({ cookie })
      const lasting = yield* follow()
      yield* Effect.forEach([elsewhere, lasting], ({ heard }) => heard("snapshot"))
      yield* sessions.end(cookie.split("=")[1] ?? "")
      yield* elsewhere.ended
      yield* enqueue
      yield* lasting.heard("jobs")
    }).pipe(Effect.provide(layer()))
  )
})

describe.concurrent.each(backends)("on %s, GET /api/v1/events", (_, layer) => {
  it.scopedLive("begins with a snapshot and continues with changes", () =>
    Effect.gen(function* () {
      yield* enqueue
      const listener = yield* follow()
      expect(listener.status).toBe(200)
      expect(listener.headers["content-type"]).toBe("text/event-stream")
      const { data } = yield* listener.heard("snapshot")
      expect(data).toMatchObject({
        queues: [{ name: "mail", counts: { pending: exact(1) } }],
        countedAt: expect.any(String),
        jobs: [{ kind: "greet", state: "pending" }],
        sampled: false,
        pods: [],
        warnings: [{ code: "unserved_queue", message: expect.stringContaining("mail") }]
      })
      const queue = yield* Queue
      const pod = (yield* makeGenerator).pod(1)
      const [claimed] = yield* queue.claim({ queue: "mail", pod, limit: 1 })
      yield* listener.heard("jobs", ({ jobs }) => JSON.stringify(jobs).includes('"running"'))
      if (claimed === undefined) return yield* Effect.dieMessage("nothing was claimed")
      const later = Date.UTC(2126, 0, 1)
      const again = End.Again({ runAt: later, counted: true, error: "no <b>luck</b>", remember: "failed" })
      yield* queue.finalize([{ id: claimed.id, lease: claimed.lease, end: again }])
      const changed = yield* listener.heard("jobs", ({ jobs }) => JSON.stringify(jobs).includes('"retrying"'))
      expect(changed.data).toMatchObject({ jobs: [{ id: claimed.id, error: "no <b>luck</b>", attempt: 1 }] })
      const counted = yield* listener.heard("queues", ({ changed }) =>
        JSON.stringify(changed).includes('"retrying":{"value":1')
      )
      expect(counted.data).toMatchObject({
        changed: [{ name: "mail", counts: { pending: exact(0), retrying: exact(1) } }],
        gone: []
      })
      expect(JSON.stringify([data, changed, counted])).not.toContain("hunter2")
    }).pipe(Effect.provide(layer()))
  )
})

describe("live events", () => {
  it.scopedLive("leave out the jobs on request, and refuse other values", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      yield* enqueue
      const others = yield* follow()
      const listener = yield* follow(viewerToken, "?jobs=none")
      const { data } = yield* listener.heard("snapshot")
      expect(data).toMatchObject({ queues: [{ name: "mail" }], pods: [] })
      expect(Object.keys(data)).not.toContain("jobs")
      yield* enqueue
      const { data: full } = yield* others.heard("jobs")
      expect(full).toMatchObject({ jobs: [{ kind: "greet" }] })
      expect((yield* listener.heard("jobs")).data).toEqual({})
      expect(yield* viewer("GET", "/api/v1/events?jobs=some")).toMatchObject({ status: 400 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("begin with the state of the database", () =>
    Effect.gen(function* () {
      const { data } = yield* (yield* follow()).heard("heartbeat")
      const instant = expect.stringMatching(/^\d{4}-.*Z$/)
      expect(data).toEqual({ at: instant, database: "up", countedAt: instant, measuredAt: instant })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("report a database that does not respond, without ending", () =>
    Effect.gen(function* () {
      Object.assign(yield* Leadership, { leader: Effect.fail(new Error("no answer")) })
      const listener = yield* follow()
      expect((yield* listener.heard("heartbeat")).data).toMatchObject({ database: "down" })
      expect((yield* listener.heard("snapshot")).data).toMatchObject({ warnings: [{ code: "database" }] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("begin with the state at that moment, not that of the last heartbeat", () =>
    Effect.gen(function* () {
      expect((yield* (yield* follow()).heard("heartbeat")).data).toMatchObject({ database: "up" })
      Object.assign(yield* Leadership, { leader: Effect.fail(new Error("no answer")) })
      expect((yield* (yield* follow()).heard("heartbeat")).data).toMatchObject({ database: "down" })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("are polled once for all subscribers, and not at all without any", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const overview = yield* JobOverview
      let looks = 0
      const counting = overview.changed
      Object.assign(overview, {
        changed: (since: number, limit: number) => {
          looks += 1
          return counting(since, limit)
        }
      })
      // One poll at the start and one per second, however slow the machine is: five pollers would do five times as many.
      const polls = () => {
        const began = performance.now()
        return () => 1 + Math.floor((performance.now() - began) / 1_000)
      }
      expect(looks).toBe(0)
      const most = polls()
      const listeners = yield* Effect.all(Array.from({ length: 5 }, () => follow()))
      for (const listener of listeners) yield* listener.heard("snapshot")
      yield* enqueue
      for (const listener of listeners) yield* listener.heard("jobs")
      expect(looks).toBeLessThanOrEqual(most())
      for (const listener of listeners) listener.leave()
      yield* Effect.repeat(admin("GET", "/healthz"), { times: 5 })
      const after = looks
      const maxAgain = polls()
      const fresh = yield* follow(adminToken)
      expect((yield* fresh.heard("snapshot")).data).toMatchObject({ jobs: [{ kind: "greet" }] })
      expect(looks - after).toBeLessThanOrEqual(maxAgain())
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("have a limit of subscribers, and require a token", () =>
    Effect.gen(function* () {
      const { ask, viewer } = yield* TestServer
      yield* Effect.flatMap(follow(), ({ heard }) => heard("snapshot"))
      yield* Effect.flatMap(follow(), ({ heard }) => heard("snapshot"))
      const refused = yield* viewer("GET", "/api/v1/events")
      expect(refused).toMatchObject({ status: 503, json: { error: { tag: "EventsUnavailable" } } })
      expect(refused.headers["retry-after"]).toBe("10")
      expect(yield* ask("GET", "/api/v1/events")).toMatchObject({ status: 401 })
      expect(yield* viewer("HEAD", "/api/v1/events")).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer({ listeners: 2 })))
  )

  it.scopedLive("end when the process is asked to stop, so that no subscriber delays it", () =>
    Effect.gen(function* () {
      const { viewer } = yield* TestServer
      const lifecycle = yield* Lifecycle
      const listener = yield* follow()
      yield* listener.heard("snapshot")
      yield* lifecycle.drain
      yield* listener.ended
      expect(yield* viewer("GET", "/api/v1/events")).toMatchObject({ status: 503 })
    }).pipe(Effect.provide(layer()))
  )
})
