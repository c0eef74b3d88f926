import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { exact } from "../../src/core/Count.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { backends, TestServer } from "./TestServer.js"

const declared = Effect.flatMap(Queues, (queues) => queues.declare(["mail"]))

const patch = (name: string, json: unknown, token?: string) =>
  Effect.flatMap(TestServer, ({ admin, ask }) =>
    token === undefined
      ? admin("PATCH", `/api/v1/queues/${name}`, { json })
      : ask("PATCH", `/api/v1/queues/${name}`, { json, token })
  )

const fresh = {
  name: "mail",
  counts: {
    scheduled: exact(0),
    retrying: exact(0),
    pending: exact(0),
    running: exact(0),
    done: exact(0),
    dead: exact(0),
    cancelled: exact(0)
  },
  oldestDueAgeSeconds: null,
  oldestDueAt: null,
  utilisation: 0,
  throughput: { seconds: expect.any(Number), completed: 0, dead: 0 },
  paused: false,
  maxWorkers: 10,
  retainDone: null,
  retainDead: null,
  backoff: { enabled: false, base: "1m", max: "30m" },
  limits: { rate: null, perKey: null, depthCap: null },
  throttledUntil: null,
  throttleAttempts: 0,
  declared: true
}

describe.each(backends)("on %s, /api/v1/queues", (_, layer) => {
  it.scopedLive("lists a queue with its settings although it has no jobs", () =>
    Effect.gen(function* () {
      yield* declared
      const { admin } = yield* TestServer
      const { json } = yield* admin("GET", "/api/v1/queues")
      expect(json).toEqual({ queues: [fresh], countedAt: expect.any(String), measuredAt: expect.any(String) })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("changes the named settings only, and treats null as the default", () =>
    Effect.gen(function* () {
      yield* declared
      const changed = yield* patch("mail", {
        paused: true,
        maxWorkers: 40,
        retainDone: "90m",
        retainDead: "30d",
        backoff: { enabled: true, base: 5_000 },
        limits: { rate: { jobs: 10, per: "1s" }, perKey: { concurrency: 1, order: "strict" }, depthCap: 500 }
      })
      expect(changed.status).toBe(200)
      expect(changed.json).toMatchObject({
        paused: true,
        maxWorkers: 40,
        retainDone: "1h30m",
        retainDead: "30d",
        backoff: { enabled: true, base: "5s", max: "30m" },
        limits: { rate: { jobs: 10, per: "1s" }, perKey: { concurrency: 1, order: "strict" }, depthCap: 500 }
      })
      const back = yield* patch("mail", {
        paused: false,
        maxWorkers: 10,
        retainDone: null,
        retainDead: null,
        backoff: { enabled: false, base: "60s" },
        limits: { rate: null, perKey: null, depthCap: null }
      })
      expect(back.json).toEqual(fresh)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("names the invalid field, and changes nothing", () =>
    Effect.gen(function* () {
      yield* declared
      const cases: ReadonlyArray<readonly [unknown, string]> = [
        [{ maxWorkers: -1, paused: true }, "maxWorkers"],
        [{ maxWorkers: "4" }, "maxWorkers"],
        [{ retainDone: -5 }, "retainDone"],
        [{ retainDone: "60" }, "retainDone"],
        [{ retainDead: "soon" }, "retainDead"],
        [{ backoff: { base: "100s", max: "10s" } }, "backoff.max"],
        [{ limits: { rate: { jobs: 0, per: "1s" } } }, "limits.rate.jobs"],
        [{ limits: { rate: { jobs: 1, per: true } } }, "limits.rate.per"],
        [{ limits: { perKey: { concurrency: 2, order: "strict" } } }, "limits.perKey.concurrency"],
        [{ limits: { perKey: { concurrency: 1, order: "sideways" } } }, "limits.perKey.order"],
        [{ limits: { depthCap: 1.5 } }, "limits.depthCap"],
        [{ pausd: true }, "pausd"]
      ]
      for (const [json, field] of cases) {
        const answer = yield* patch("mail", json)
        expect(answer, JSON.stringify(json)).toMatchObject({ status: 400, json: { error: { field } } })
      }
      const { admin } = yield* TestServer
      expect((yield* admin("GET", "/api/v1/queues")).json).toEqual({
        queues: [fresh],
        countedAt: expect.any(String),
        measuredAt: expect.any(String)
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("pauses an undeclared queue, returns 404 for other changes of it, and refuses a viewer's changes", () =>
    Effect.gen(function* () {
      expect(yield* patch("nowhere", { maxWorkers: 3 })).toMatchObject({
        status: 404,
        json: {
          error: { tag: "QueueNotFound", message: expect.stringContaining("pausing creates it") }
        }
      })
      expect(yield* patch("later", { paused: true })).toMatchObject({
        status: 200,
        json: { name: "later", paused: true, declared: true }
      })
      expect((yield* patch("a%20b", { paused: true })).status).toBe(400)
      expect((yield* patch("mail", { paused: true }, "nobody's")).status).toBe(401)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("answers 429 with a retry delay when a queue is full", () =>
    Effect.gen(function* () {
      yield* declared
      yield* patch("mail", { limits: { depthCap: 1 } })
      const { admin } = yield* TestServer
      const json = { jobs: [{ kind: "greet", payload: {} }] }
      expect((yield* admin("POST", "/api/v1/jobs", { json })).status).toBe(201)
      const refused = yield* admin("POST", "/api/v1/jobs", { json })
      expect(refused).toMatchObject({ status: 429, json: { error: { tag: "QueueFull" } } })
      expect(refused.headers["retry-after"]).toBe("5")
    }).pipe(Effect.provide(layer()))
  )
})
