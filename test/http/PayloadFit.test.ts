import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Registry from "../../src/handlers/Registry.js"
import * as Job from "../../src/queue/Job.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { backends, Doors } from "./Doors.js"

class Opaque {}
const Wrapped = Job.make("wrapped", { payload: Schema.Struct({ opaque: Schema.instanceOf(Opaque) }) })
const Shout = Job.make("shout", { payload: Schema.Struct({ text: Schema.String.pipe(Schema.pattern(/^[a-z]+$/i)) }) })

const registered = Registry.registeredKinds(
  Registry.make([NoopEcho.handler, Handler.make(Wrapped, () => Effect.void), Handler.make(Shout, () => Effect.void)])
)

const post = (json: unknown) => Effect.flatMap(Doors, ({ admin }) => admin("POST", "/api/v1/jobs", { json }))
const stored = Effect.flatMap(JobSearch, ({ total }) => Effect.map(total({}, 100), ({ count }) => count))

const bad = { kind: "noop_echo", payload: { sleep_ms: "x" } }
const good = { kind: "noop_echo", payload: { sleep_ms: 1, message: ["any", null], more: true } }

describe.each(backends)("on %s, a payload that does not fit its kind", (_, layer) => {
  it.scopedLive("is refused by its field where this process has the kind's code, unless it is forced in", () =>
    Effect.gen(function* () {
      yield* Effect.flatMap(Kinds, ({ register }) => register(registered))
      const single = yield* post(bad)
      expect(single).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidJob", field: "payload.sleep_ms" } }
      })
      expect(single.text).toContain('payload.sleep_ms does not fit the kind \\"noop_echo\\": Expected')
      expect(single.text).not.toContain("Job 0")
      const second = yield* post({ jobs: [good, bad] })
      expect(second).toMatchObject({ status: 400, json: { error: { field: "jobs[1].payload.sleep_ms" } } })
      expect(second.text).toContain("Job 1: payload.sleep_ms does not fit")
      expect(yield* post({ kind: "shout", payload: { text: "12" } })).toMatchObject({ status: 400 })
      expect(yield* post({ kind: "wrapped", payload: { opaque: {} } })).toMatchObject({ status: 400 })
      expect(yield* stored).toBe(0)
      expect(yield* post({ ...bad, force: true })).toMatchObject({ status: 201, json: { outcome: "enqueued" } })
      expect(yield* post(good)).toMatchObject({ status: 201 })
      expect(yield* post({ kind: "shout", payload: { text: "Hi" } })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("is refused by the JSON Schema that a pod left, where this process has no code of it", () =>
    Effect.gen(function* () {
      const elsewhere = registered.map(({ check: _, ...kind }) => kind)
      yield* Effect.flatMap(Kinds, ({ register }) => register(elsewhere))
      const refused = yield* post({ jobs: [bad] })
      expect(refused).toMatchObject({
        status: 400,
        json: { error: { tag: "InvalidJob", field: "jobs[0].payload.sleep_ms" } }
      })
      expect(refused.text).toMatch(/^[^:]*:[^:]*:[^:]*:"payload.sleep_ms does not fit the kind/)
      expect(refused.text).toContain('Expected \\"integer\\"')
      expect(yield* post({ kind: "noop_echo", payload: [] })).toMatchObject({ status: 400 })
      expect(yield* post({ kind: "shout", payload: {} })).toMatchObject({ status: 400 })
      expect(yield* stored).toBe(0)
      expect(yield* post(good)).toMatchObject({ status: 201 })
      expect(yield* post({ ...bad, force: true })).toMatchObject({ status: 201 })
      // Nobody can say it in JSON Schema, and a pattern has lost its flags there: the handler decides.
      expect(yield* post({ kind: "wrapped", payload: {} })).toMatchObject({ status: 201 })
      expect(yield* post({ kind: "shout", payload: { text: "Hi" } })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )
})
