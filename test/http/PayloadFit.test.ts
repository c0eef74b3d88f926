import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Registry from "../../src/handlers/Registry.js"
import * as Job from "../../src/queue/Job.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { backends, TestServer } from "./TestServer.js"

class Opaque {}
const Wrapped = Job.make("wrapped", { payload: Schema.Struct({ opaque: Schema.instanceOf(Opaque) }) })
const Shout = Job.make("shout", { payload: Schema.Struct({ text: Schema.String.pipe(Schema.pattern(/^[a-z]+$/i)) }) })

const registered = Registry.registeredKinds(
  Registry.make([NoopEcho.handler, Handler.make(Wrapped, () => Effect.void), Handler.make(Shout, () => Effect.void)])
)

const post = (json: unknown) => Effect.flatMap(TestServer, ({ admin }) => admin("POST", "/api/v1/jobs", { json }))
const stored = Effect.flatMap(JobSearch, ({ total }) => Effect.map(total({}, 100), ({ count }) => count))

const misfit = {
  status: 400,
  json: {
    error: {
      tag: "InvalidJob",
      field: "payload.sleep_ms",
      message: expect.stringMatching(
        /^payload\.sleep_ms does not match the schema of the kind "noop_echo": .*\. Fix it, or store the job anyway with "force": true\.$/
      )
    }
  }
}

/** Checked by the kind's code in this process, or by its stored JSON Schema. */
const knownBy = [
  ["its code", registered],
  ["the JSON Schema that a pod left", registered.map(({ check: _, ...kind }) => kind)]
] as const

const bad = { kind: "noop_echo", payload: { sleep_ms: "x" } }
const good = { kind: "noop_echo", payload: { sleep_ms: 1, message: ["any", null], more: true } }

describe.each(backends)("on %s, a payload that does not match its kind", (_, layer) => {
  it.scopedLive("is refused by field when this process has the kind's code, unless forced", () =>
    Effect.gen(function* () {
      yield* Effect.flatMap(Kinds, ({ register }) => register(registered))
      const single = yield* post(bad)
      expect(single).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidJob", field: "payload.sleep_ms" } }
      })
      expect(single.text).toContain('payload.sleep_ms does not match the schema of the kind \\"noop_echo\\": Expected')
      expect(single.text).not.toContain("Job 0")
      const second = yield* post({ jobs: [good, bad] })
      expect(second).toMatchObject({ status: 400, json: { error: { field: "jobs[1].payload.sleep_ms" } } })
      expect(second.text).toContain("Job 1: payload.sleep_ms does not match")
      expect(yield* post({ kind: "shout", payload: { text: "12" } })).toMatchObject({ status: 400 })
      expect(yield* post({ kind: "wrapped", payload: { opaque: {} } })).toMatchObject({ status: 400 })
      expect(yield* stored).toBe(0)
      expect(yield* post({ ...bad, force: true })).toMatchObject({ status: 201, json: { outcome: "enqueued" } })
      expect(yield* post(good)).toMatchObject({ status: 201 })
      expect(yield* post({ kind: "shout", payload: { text: "Hi" } })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused by the JSON Schema that a pod registered when this process has no code for it", () =>
    Effect.gen(function* () {
      const elsewhere = registered.map(({ check: _, ...kind }) => kind)
      yield* Effect.flatMap(Kinds, ({ register }) => register(elsewhere))
      const refused = yield* post({ jobs: [bad] })
      expect(refused).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidJob", field: "jobs[0].payload.sleep_ms" } }
      })
      expect(refused.text).toMatch(/^[^:]*:[^:]*:[^:]*:"payload.sleep_ms does not match the schema of the kind/)
      expect(refused.text).toContain("expected integer, got string. Fix it")
      expect(yield* post({ kind: "noop_echo", payload: [] })).toMatchObject({ status: 400 })
      const shout = yield* post({ kind: "shout", payload: {} })
      expect(shout).toMatchObject({ status: 400 })
      expect(shout.text).toContain('the field \\"text\\" is missing')
      expect(yield* stored).toBe(0)
      expect(yield* post(good)).toMatchObject({ status: 201 })
      expect(yield* post({ ...bad, force: true })).toMatchObject({ status: 201 })
      // This schema has no JSON Schema form, and patterns lose their flags there: the handler decides.
      expect(yield* post({ kind: "wrapped", payload: {} })).toMatchObject({ status: 201 })
      expect(yield* post({ kind: "shout", payload: { text: "Hi" } })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive.each(knownBy)("is refused when a job is edited, by %s", ([, kinds]) =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* Effect.flatMap(Kinds, ({ register }) => register(kinds))
      const { id } = (yield* post({ ...good, runAt: "2126-01-31T09:00:00Z" })).json as { id: string }
      const edit = (json: unknown) => admin("PATCH", `/api/v1/jobs/${id}`, { json })
      expect(yield* edit({ payload: bad.payload, priority: 3 })).toMatchObject(misfit)
      expect(yield* admin("GET", `/api/v1/jobs/${id}`)).toMatchObject({ json: { payload: good.payload, priority: 0 } })
      expect(yield* edit({ payload: { sleep_ms: 2 } })).toMatchObject({
        status: 200,
        json: { payload: { sleep_ms: 2 } }
      })
      expect(yield* edit({ payload: bad.payload, force: true })).toMatchObject({
        status: 200,
        json: { payload: bad.payload }
      })
      // Unchanged fields are not checked.
      expect(yield* edit({ priority: 5 })).toMatchObject({ status: 200, json: { priority: 5 } })
      expect(yield* edit({ force: true })).toMatchObject({ status: 400 })
      const forced = (yield* post({ kind: "never_heard_of", payload: 1, runAt: "2126-01-31T09:00:00Z", force: true }))
        .json
      const { id: stranger } = forced as { id: string }
      expect(yield* admin("PATCH", `/api/v1/jobs/${stranger}`, { json: { payload: 2 } })).toMatchObject({ status: 200 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is not checked against the schema of another version than the job's", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { register } = yield* Kinds
      yield* register(registered)
      const { id } = (yield* post({ ...good, runAt: "2126-01-31T09:00:00Z" })).json as { id: string }
      yield* register(registered.map(({ check: _, ...kind }) => ({ ...kind, version: 2 })))
      expect(yield* admin("PATCH", `/api/v1/jobs/${id}`, { json: { payload: bad.payload } })).toMatchObject({
        status: 200
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive.each(knownBy)("is refused when a schedule is created or edited, by %s", ([, kinds]) =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* Effect.flatMap(Kinds, ({ register }) => register(kinds))
      const schedule = { name: "nightly", cron: "@daily", ...good }
      const create = (json: unknown) => admin("POST", "/api/v1/schedules", { json })
      const edit = (json: unknown) => admin("PATCH", "/api/v1/schedules/nightly", { json })
      expect(yield* create({ ...schedule, ...bad })).toMatchObject(misfit)
      expect(yield* admin("GET", "/api/v1/schedules/nightly")).toMatchObject({ status: 404 })
      expect(yield* create({ ...schedule, name: "forced", ...bad, force: true })).toMatchObject({ status: 201 })
      expect(yield* create({ ...schedule, kind: "shout", payload: { text: "Hi" } })).toMatchObject({ status: 201 })
      // Checks a new kind against the kept payload, and a new payload against the kept kind.
      expect(yield* edit({ kind: "noop_echo", payload: bad.payload })).toMatchObject(misfit)
      expect(yield* edit({ kind: "noop_echo" })).toMatchObject({ status: 200 })
      expect(yield* edit({ payload: bad.payload, cron: "@hourly" })).toMatchObject(misfit)
      expect(yield* edit({ kind: "shout", payload: {} })).toMatchObject({
        status: 400,
        json: {
          error: {
            tag: "InvalidJob",
            message: expect.stringContaining('does not match the schema of the kind "shout"')
          }
        }
      })
      expect(yield* admin("GET", "/api/v1/schedules/nightly")).toMatchObject({
        json: { kind: "noop_echo", payload: { text: "Hi" }, cron: "@daily" }
      })
      expect(yield* edit({ payload: bad.payload, force: true })).toMatchObject({
        status: 200,
        json: { payload: bad.payload }
      })
      expect(yield* edit({ paused: true })).toMatchObject({ status: 200 })
      expect(yield* edit({ kind: "shout" })).toMatchObject({ status: 400 })
    }).pipe(Effect.provide(layer()))
  )
})
