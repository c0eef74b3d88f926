import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Audit } from "../../src/access/Audit.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { RateLimits } from "../../src/rate-limits/RateLimits.js"
import { backends, layerPostgresWith, TestServer } from "./TestServer.js"

const enqueue = (more: Record<string, unknown> = {}) =>
  Effect.gen(function* () {
    const { admin } = yield* TestServer
    const json = { jobs: [{ kind: "greet", payload: { name: "Ada" }, ...more }] }
    const { text } = yield* admin("POST", "/api/v1/jobs", { json })
    const id: string = JSON.parse(text).jobs[0].id
    return id
  })

interface Entry {
  readonly id: string
  readonly act: string
  readonly target: string
  readonly reason: string | null
}

const entries = (query = "") =>
  Effect.gen(function* () {
    const { viewer } = yield* TestServer
    const { status, text } = yield* viewer("GET", `/api/v1/audit${query}`)
    expect(status).toBe(200)
    const page: { entries: ReadonlyArray<Entry>; next: string | null } = JSON.parse(text)
    return page
  })

describe.each(backends)("on %s, an operator's change", (_, layer) => {
  it.scopedLive("is audited with its author, reason, and the values before and after", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue()
      yield* admin("POST", `/api/v1/jobs/${id}/cancel`, { headers: { "x-reason": "asked by Ada" } })
      yield* admin("POST", `/api/v1/jobs/${id}/requeue`)
      const json = { payload: { name: "Eve" }, priority: 3, reason: "wrong name" }
      yield* admin("PATCH", `/api/v1/jobs/${id}`, { json })
      yield* admin("DELETE", `/api/v1/jobs/${id}`)
      const { entries: found } = yield* entries(`?target=${id}`)
      expect(found.map(({ act, reason }) => [act, reason])).toEqual([
        ["job.delete", null],
        ["job.edit", "wrong name"],
        ["job.requeue", null],
        ["job.cancel", "asked by Ada"]
      ])
      expect(found[3]).toMatchObject({
        who: "api:admin",
        at: expect.stringMatching(/Z$/),
        before: { state: "pending", kind: "greet" },
        after: { state: "cancelled", reason: "cancelled" }
      })
      expect(found[1]).toMatchObject({
        before: { payload: { name: "Ada" }, priority: 0 },
        after: { payload: { name: "Eve" }, priority: 3 }
      })
      const { entries: cancels, next } = yield* entries("?act=job.cancel&limit=1")
      expect(cancels).toMatchObject([{ target: id }])
      expect(next).toBeNull()
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("of a queue is audited", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* Effect.flatMap(Queues, ({ declare }) => declare(["mail"]))
      yield* admin("PATCH", "/api/v1/queues/mail", { json: { paused: true } })
      const { entries: found } = yield* entries("?act=queue")
      expect(found).toMatchObject([
        { act: "queue.change", target: "mail", before: { paused: false }, after: { paused: true, maxWorkers: 10 } }
      ])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("of a schedule is audited", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const json = { name: "nightly", kind: "greet", payload: { n: 1 }, cron: "0 3 * * *" }
      yield* admin("POST", "/api/v1/schedules", { json, headers: { "x-reason": "as agreed" } })
      yield* admin("PATCH", "/api/v1/schedules/nightly", { json: { paused: true, payload: { n: 2 } } })
      const triggered = yield* admin("POST", "/api/v1/schedules/nightly/trigger")
      yield* admin("DELETE", "/api/v1/schedules/nightly")
      const { entries: found } = yield* entries("?act=schedule&target=nightly")
      expect(found).toMatchObject([
        { act: "schedule.delete", before: { paused: true, cron: "0 3 * * *" }, after: null },
        { act: "schedule.trigger", after: { job: JSON.parse(triggered.text).lastJobId } },
        {
          act: "schedule.edit",
          before: { paused: false, payload: { n: 1 } },
          after: { paused: true, payload: { n: 2 } }
        },
        { act: "schedule.create", who: "api:admin", reason: "as agreed", before: null, after: { kind: "greet" } }
      ])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("of a limit and of a workspace's tokens is audited, without secrets", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* Effect.flatMap(RateLimits, ({ register }) => register([{ scope: "github", capacity: 5, rate: 1 }]))
      yield* admin("PATCH", "/api/v1/limits/github", { json: { capacity: 4 } })
      yield* admin("POST", "/api/v1/limits/github/drain", { json: { duration: 30_000 } })
      const made = JSON.parse(
        (yield* admin("POST", "/api/v1/workspaces/acme/tokens", { json: { label: "laptop" } })).text
      )
      yield* admin("DELETE", `/api/v1/workspaces/acme/tokens/${made.id}`)
      const { entries: found } = yield* entries()
      expect(found).toMatchObject([
        { act: "token.revoke", target: made.id, before: { workspace: "acme", label: "laptop" } },
        { act: "token.create", target: made.id, after: { workspace: "acme", prefix: made.token.slice(0, 12) } },
        { act: "limit.drain", target: "github", before: { tokens: 4 }, after: { tokens: 0, duration: "30s" } },
        {
          act: "limit.tune",
          target: "github",
          before: { capacity: 5, tuned: false },
          after: { capacity: 4, tuned: true }
        }
      ])
      expect(JSON.stringify(found)).not.toContain(made.token.slice(12))
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("that was refused leaves no entry", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue()
      yield* admin("POST", `/api/v1/jobs/${id}/requeue`)
      yield* admin("PATCH", `/api/v1/jobs/${id}`, { json: { priority: 99_999 } })
      yield* admin("PATCH", "/api/v1/queues/nowhere", { json: { maxWorkers: 3 } })
      yield* Effect.flatMap(RateLimits, ({ register }) => register([{ scope: "github", capacity: 5, rate: 1 }]))
      yield* admin("POST", "/api/v1/limits/github/drain", { json: { duration: "1000d" } })
      yield* admin("PATCH", "/api/v1/limits/github", { json: { capacity: 0 } })
      yield* admin("POST", "/api/v1/schedules", { json: { name: "x", kind: "greet", payload: {}, cron: "never" } })
      yield* admin("DELETE", `/api/v1/workspaces/acme/tokens/${id}`)
      expect(yield* entries()).toEqual({ entries: [], next: null })
    }).pipe(Effect.provide(layer()))
  )
})

const withoutMemory = Layer.effect(
  Audit,
  Effect.map(Audit, (audit) => ({ ...audit, record: () => Effect.fail(new DatabaseFault({ detail: "no room" })) }))
)

describe("a change whose audit entry cannot be written", () => {
  it.scopedLive("is not made", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue()
      expect(yield* admin("POST", `/api/v1/jobs/${id}/cancel`)).toMatchObject({ status: 500 })
      expect(yield* admin("GET", `/api/v1/jobs/${id}`)).toMatchObject({ json: { state: "pending" } })
      const limits = yield* RateLimits
      yield* limits.register([{ scope: "github", capacity: 5, rate: 1 }])
      expect(yield* admin("POST", "/api/v1/limits/github/drain")).toMatchObject({ status: 500 })
      expect(yield* limits.get("github")).toMatchObject({ tokens: 5 })
    }).pipe(Effect.provide(layerPostgresWith(withoutMemory)))
  )
})

describe.each(backends)("on %s, PATCH /api/v1/jobs/{id}", (_, layer) => {
  it.scopedLive("changes the named fields of a waiting job, and returns the job", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue()
      const edit = (json: unknown) => admin("PATCH", `/api/v1/jobs/${id}`, { json })
      expect(yield* edit({ runAt: "2126-01-31T09:00:00Z" })).toMatchObject({
        status: 200,
        json: { state: "scheduled", runAt: "2126-01-31T09:00:00.000Z", payload: { name: "Ada" } }
      })
      expect(yield* edit({ payload: null })).toMatchObject({ status: 200, json: { payload: null } })
      yield* admin("POST", `/api/v1/jobs/${id}/cancel`)
      expect(yield* edit({ priority: 1 })).toMatchObject({
        status: 409,
        json: { error: { tag: "JobNotInState", message: expect.stringMatching(/is cancelled: edit needs a job/) } }
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses invalid changes and changes nothing", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const id = yield* enqueue()
      for (const [json, says, field] of [
        [{}, /has nothing to change/, undefined],
        [{ reason: "x" }, /has nothing to change/, undefined],
        [{ priority: "high" }, /must be a number/, "priority"],
        [{ priority: 1.5 }, /whole number/, "priority"],
        [{ runAt: "soon" }, /RFC 3339/, "runAt"],
        [{ payload: "\u0000" }, /NUL/, "payload"],
        [{ kind: "other" }, /not a known field/, "kind"],
        [[1], /must be an object/, undefined]
      ] as const) {
        const refused = yield* admin("PATCH", `/api/v1/jobs/${id}`, { json })
        expect(refused).toMatchObject({ status: 400, json: { error: { message: expect.stringMatching(says) } } })
        if (field !== undefined) expect(refused).toMatchObject({ json: { error: { field } } })
        expect(yield* admin("GET", `/api/v1/jobs/${id}`)).toMatchObject({ json: { priority: 0, kind: "greet" } })
      }
    }).pipe(Effect.provide(layer()))
  )
})
