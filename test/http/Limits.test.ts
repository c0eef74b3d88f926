import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { RateLimits } from "../../src/rate-limits/RateLimits.js"
import { backends, TestServer } from "./TestServer.js"

const declared = Effect.gen(function* () {
  const limits = yield* RateLimits
  yield* limits.register([
    { scope: "slack", capacity: 5, rate: 0.5 },
    { scope: "git:hub", capacity: 100, rate: 10 }
  ])
  return limits
})

describe.each(backends)("on %s, /api/v1/limits", (_, layer) => {
  it.scopedLive("shows every scope with its available tokens", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      expect((yield* admin("GET", "/api/v1/limits")).json).toEqual({ limits: [] })
      const limits = yield* declared
      yield* limits.acquire("slack", 5)
      const { json } = yield* admin("GET", "/api/v1/limits")
      expect(json).toMatchObject({
        limits: [
          { scope: "git:hub", tokens: 100, capacity: 100, rate: 10, lent: 0, dryUntil: null, tuned: false },
          { scope: "slack", capacity: 5, rate: 0.5, declared: { capacity: 5, rate: 0.5 } }
        ]
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("does not ignore a chunked body without a content type", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const limits = yield* declared
      const body = [Buffer.from('{"duration":'), Buffer.from('"5m"}')]
      expect((yield* admin("POST", "/api/v1/limits/slack/drain", { body })).status).toBe(415)
      expect(yield* limits.get("slack")).toMatchObject({ tokens: 5 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("tunes only the named fields, until the code's values are restored", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* declared
      const path = "/api/v1/limits/git%3Ahub"
      const tuned = yield* admin("PATCH", path, { json: { rate: 2.5 } })
      expect(tuned).toMatchObject({
        status: 200,
        json: { capacity: 100, rate: 2.5, tuned: true, declared: { capacity: 100, rate: 10 } }
      })
      expect((yield* admin("PATCH", path, { json: { capacity: 7 } })).json).toMatchObject({ capacity: 7, rate: 2.5 })
      expect((yield* admin("PATCH", path, { json: { capacity: null, rate: null } })).json).toMatchObject({
        capacity: 100,
        rate: 10,
        tuned: false
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("drains a bucket for the requested time", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const limits = yield* declared
      const drained = yield* admin("POST", "/api/v1/limits/slack/drain")
      expect(drained).toMatchObject({ status: 200, json: { scope: "slack", tokens: 0, dryUntil: null } })
      // Some clients send the type of a body that they leave out.
      const headers = { "content-type": "application/json" }
      expect(yield* admin("POST", "/api/v1/limits/slack/drain", { headers })).toMatchObject({ status: 200 })
      const before = yield* Clock.currentTimeMillis
      const paused = yield* admin("POST", "/api/v1/limits/slack/drain", { json: { duration: "90s" } })
      const { dryUntil } = paused.json as { readonly dryUntil: string }
      expect(Date.parse(dryUntil)).toBeGreaterThanOrEqual(before + 90_000)
      expect(yield* limits.acquire("slack")).toMatchObject({ _tag: "Throttled" })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses an invalid limit, names the field and changes nothing", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const limits = yield* declared
      const bad: ReadonlyArray<readonly [json: unknown, field: string | undefined]> = [
        [{ capacity: 0 }, "capacity"],
        [{ capacity: "many" }, "capacity"],
        [{ rate: -1 }, "rate"],
        [{ rate: 2, capacity: -1 }, "capacity"],
        [{ rate: 2, colour: "red" }, "colour"],
        [[], undefined]
      ]
      for (const [json, field] of bad) {
        const refused = yield* admin("PATCH", "/api/v1/limits/slack", { json })
        expect(refused).toMatchObject({ status: 400, json: { error: field === undefined ? {} : { field } } })
      }
      for (const json of [{ duration: -1 }, { duration: "90" }, { duration: "1000d" }, { seconds: 1 }, 7]) {
        expect(yield* admin("POST", "/api/v1/limits/slack/drain", { json })).toMatchObject({ status: 400 })
      }
      expect(yield* limits.get("slack")).toMatchObject({ capacity: 5, rate: 0.5, tuned: false })
      for (const scope of ["nobody", "%00", "a%2Fb"]) {
        const missing = yield* admin("PATCH", `/api/v1/limits/${scope}`, { json: { rate: 1 } })
        expect(missing).toMatchObject({ status: 404, json: { error: { tag: "UnknownScope" } } })
      }
    }).pipe(Effect.provide(layer()))
  )
})
