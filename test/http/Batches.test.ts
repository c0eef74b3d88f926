import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Batches } from "../../src/queue/batch/Batches.js"
import { Queue } from "../../src/queue/Queue.js"
import { backends, TestServer } from "./TestServer.js"

const nobody = "0198c0de-0000-7000-8000-00000000dead"

const greet = (name: string) => ({ kind: "greet", payload: { name } })

/** Claims and finishes all jobs of the queue, then closes batches as the leader does. */
const work = Effect.gen(function* () {
  const queue = yield* Queue
  const { close } = yield* Batches
  const ids = yield* makeGenerator
  const runs = yield* queue.claim({ queue: "mail", pod: ids.pod(1), limit: 100 })
  yield* queue.finalize(runs.map(({ id, lease }) => ({ id, lease, end: End.Done({ result: undefined }) })))
  yield* close
})

describe.each(backends)("on %s, /api/v1/batches", (_, layer) => {
  it.scopedLive("stores a batch, adds to it, shows its progress and its follow-up", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const created = yield* admin("POST", "/api/v1/batches", {
        json: { name: "greetings", jobs: [greet("Ada"), greet("Grace")], followUp: greet("all") }
      })
      expect(created).toMatchObject({
        status: 201,
        json: {
          batch: { name: "greetings", total: 2, closedAt: null, followUp: { kind: "greet", queue: "mail", id: null } },
          jobs: [{ outcome: "enqueued" }, { outcome: "enqueued" }]
        }
      })
      const { batch } = JSON.parse(created.text)
      const added = yield* admin("POST", `/api/v1/batches/${batch.id}/jobs`, { json: { jobs: [greet("Edsger")] } })
      expect(added).toMatchObject({ status: 201, json: { jobs: [{ outcome: "enqueued" }] } })
      const listed = yield* admin("GET", `/api/v1/jobs?batch=${batch.id}`)
      expect(listed.json).toMatchObject({ total: { count: 3 }, jobs: [{ batch: batch.id }, {}, {}] })
      const look = admin("GET", `/api/v1/batches/${batch.id}`)
      expect((yield* look).json).toMatchObject({ total: 3, counts: { unfinished: 3, done: 0 } })
      yield* work
      const closed = yield* look
      expect(closed.json).toMatchObject({
        counts: { unfinished: 0, done: 3 },
        closedAt: expect.any(String),
        followUp: { id: expect.any(String) }
      })
      const followUp = yield* admin("GET", `/api/v1/jobs/${JSON.parse(closed.text).followUp.id}`)
      expect(followUp.json).toMatchObject({ kind: "greet", meta: { batch: { id: batch.id, total: 3, done: 3 } } })
      expect((yield* admin("GET", "/api/v1/batches?limit=1")).json).toMatchObject({ batches: [{ id: batch.id }] })
      const late = yield* admin("POST", `/api/v1/batches/${batch.id}/jobs`, { json: { jobs: [greet("late")] } })
      expect(late).toMatchObject({ status: 409, json: { error: { tag: "BatchClosed" } } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("stores a batch, and jobs of a batch, once per Idempotency-Key", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const headers = { "idempotency-key": "retry-1" }
      const json = { jobs: [greet("Ada"), greet("Grace")] }
      const first = yield* admin("POST", "/api/v1/batches", { json, headers })
      const again = yield* admin("POST", "/api/v1/batches", { json, headers })
      expect([first.status, again.status, again.json]).toEqual([201, 201, first.json])
      expect((yield* admin("GET", "/api/v1/batches")).json).toMatchObject({ batches: [{ total: 2 }] })
      const other = yield* admin("POST", "/api/v1/batches", { json: { jobs: [greet("Eve")] }, headers })
      expect(other).toMatchObject({ status: 422, json: { error: { tag: "IdempotencyKeyReused" } } })
      expect(yield* admin("POST", "/api/v1/jobs", { json, headers })).toMatchObject({ status: 422 })
      const { id } = (first.json as { batch: { id: string } }).batch
      const more = { json: { jobs: [greet("Edsger")] }, headers: { "idempotency-key": "retry-2" } }
      const added = yield* admin("POST", `/api/v1/batches/${id}/jobs`, more)
      expect((yield* admin("POST", `/api/v1/batches/${id}/jobs`, more)).json).toEqual(added.json)
      expect((yield* admin("GET", `/api/v1/batches/${id}`)).json).toMatchObject({ total: 3 })
      const bad = yield* admin("POST", "/api/v1/batches", { json, headers: { "idempotency-key": "x".repeat(256) } })
      expect(bad).toMatchObject({ status: 400, json: { error: { field: "Idempotency-Key" } } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses an invalid batch, names the field and stores nothing", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const refused = [
        [{ jobs: [greet("Ada"), { kind: "nope", payload: {} }] }, "jobs[1].kind", 422],
        [{ jobs: [greet("Ada"), { ...greet("Grace"), priority: 1e9 }] }, "jobs[1].priority"],
        [{ jobs: [greet("Ada")], followUp: { kind: "nope", payload: {} } }, "followUp.kind"],
        [{ jobs: [greet("Ada")], followUp: { ...greet("x"), queue: "no spaces" } }, "followUp.queue"],
        [{ jobs: [greet("Ada")], name: "x".repeat(129) }, "name"],
        [{ jobs: [greet("Ada")], id: "x" }, "id"],
        [{ jobs: "Ada" }, "jobs"],
        [{ jobs: [greet("Ada")], after: greet("x") }, "after"]
      ] as const
      for (const [json, field, status = 400] of refused) {
        const answer = yield* admin("POST", "/api/v1/batches", { json })
        expect([answer.status, (answer.json as { error: { field: string } }).error.field]).toEqual([status, field])
      }
      expect((yield* admin("GET", "/api/v1/jobs")).json).toMatchObject({ total: { count: 0 } })
      expect((yield* admin("GET", `/api/v1/batches/${nobody}`)).status).toBe(404)
      expect((yield* admin("GET", "/api/v1/batches/x")).status).toBe(404)
      expect((yield* admin("GET", "/api/v1/jobs?batch=x")).status).toBe(400)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("stores a repeated batch once, by its id", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const json = { id: nobody, jobs: [greet("Ada")] }
      yield* admin("POST", "/api/v1/batches", { json })
      const again = yield* admin("POST", "/api/v1/batches", { json })
      expect(again).toMatchObject({ status: 201, json: { batch: { id: nobody, total: 1 }, jobs: [] } })
      expect((yield* admin("GET", "/api/v1/jobs")).json).toMatchObject({ total: { count: 1 } })
    }).pipe(Effect.provide(layer()))
  )
})
