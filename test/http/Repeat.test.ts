import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Events } from "../../src/queue/events/Events.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { backends, TestServer } from "./TestServer.js"

const job = { kind: "greet", payload: { order: 7 } }

const post = (json: unknown, key: string) =>
  Effect.flatMap(TestServer, ({ admin }) =>
    admin("POST", "/api/v1/jobs", { json, headers: { "idempotency-key": key } })
  )

const stored = Effect.flatMap(JobSearch, ({ total }) => Effect.map(total({}, 1_000), ({ count }) => count))

describe.each(backends)("on %s, an enqueue with an idempotency key", (_, layer) => {
  it.scopedLive("returns the same answer on every repetition, and stores its jobs once", () =>
    Effect.gen(function* () {
      const json = { jobs: [job, { ...job, queue: "other" }] }
      const first = yield* post(json, "order-7")
      expect(first.status).toBe(201)
      const again = yield* post(json, "order-7")
      expect(again).toMatchObject({ status: 201, text: first.text })
      expect(yield* stored).toBe(2)
      const ids: ReadonlyArray<{ id: string }> = JSON.parse(first.text).jobs
      expect(new Set(ids.map(({ id }) => id)).size).toBe(2)
      for (const { id } of ids)
        expect(id).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
      const other = yield* post(json, "order-8")
      expect(other.text).not.toBe(first.text)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("returns the first answer even if the deduplicating job is gone", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const dedupe = { key: "only-one", scope: "active" }
      const { text } = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ ...job, dedupe }] } })
      const [{ id }] = JSON.parse(text).jobs
      const json = { jobs: [{ ...job, dedupe }] }
      expect((yield* post(json, "k")).json).toEqual({ jobs: [{ id, outcome: "deduplicated" }] })
      yield* admin("DELETE", `/api/v1/jobs/${id}`)
      expect((yield* post(json, "k")).json).toEqual({ jobs: [{ id, outcome: "deduplicated" }] })
      expect(yield* stored).toBe(0)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused when the key was used with another request", () =>
    Effect.gen(function* () {
      yield* post({ jobs: [job] }, "k")
      const refused = yield* post({ jobs: [{ ...job, priority: 1 }] }, "k")
      expect(refused).toMatchObject({ status: 422, json: { error: { tag: "IdempotencyKeyReused" } } })
      expect(yield* stored).toBe(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("may be fixed and sent again after a refusal", () =>
    Effect.gen(function* () {
      expect(yield* post({ jobs: [{ ...job, priority: 99_999 }] }, "k")).toMatchObject({ status: 400 })
      expect(yield* post({ jobs: [{ ...job, kind: "nobodys" }] }, "k")).toMatchObject({ status: 422 })
      expect(yield* post({ jobs: [job] }, "k")).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is executed once under concurrency", () =>
    Effect.gen(function* () {
      const ten = Array.from({ length: 10 }, () => post({ jobs: [job] }, "k"))
      const answers = yield* Effect.all(ten, { concurrency: "unbounded" })
      expect(new Set(answers.map(({ text }) => text)).size).toBe(1)
      expect(yield* stored).toBe(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("returns the first answer even if the kind now has another schema, whatever it stores", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { register } = yield* Kinds
      const kind = { name: "hear", queue: "hear", version: 1, attempts: 3, onDead: undefined }
      yield* register([kind])
      yield* Effect.flatMap(Events, ({ subscribe }) => subscribe(["hear"], [{ event: "heard", kind: "hear" }]))
      const payload = { order: 7 }
      const followUp = { kind: "hear", payload }
      const made = yield* admin("POST", "/api/v1/batches", { json: { jobs: [{ kind: "greet", payload }] } })
      const requests = [
        ["jobs", { kind: "hear", payload }],
        ["batches", { jobs: [{ kind: "hear", payload }], followUp }],
        [`batches/${JSON.parse(made.text).batch.id}/jobs`, { jobs: [{ kind: "hear", payload }] }],
        ["publish", { name: "heard", data: payload }]
      ] as const
      const send = ([path, json]: (typeof requests)[number], key: string) =>
        admin("POST", `/api/v1/${path}`, { json, headers: { "idempotency-key": `${key} ${path}` } })
      const first = yield* Effect.forEach(requests, (request) => send(request, "k"))
      expect(first.map(({ status }) => status)).toEqual([201, 201, 201, 201])
      yield* register([{ ...kind, schema: JSON.stringify({ type: "object", required: ["invoice"] }) }])
      const refused = yield* Effect.forEach(requests, (request) => send(request, "other"))
      expect(refused.map(({ status }) => status)).toEqual([400, 400, 400, 400])
      const again = yield* Effect.forEach(requests, (request) => send(request, "k"))
      expect(again.map(({ json }) => json)).toEqual(first.map(({ json }) => json))
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("needs a key of a reasonable length", () =>
    Effect.gen(function* () {
      for (const key of ["", "x".repeat(256)]) {
        expect(yield* post({ jobs: [job] }, key)).toMatchObject({
          status: 400,
          json: { error: { field: "Idempotency-Key" } }
        })
      }
      expect(yield* stored).toBe(0)
    }).pipe(Effect.provide(layer()))
  )
})
