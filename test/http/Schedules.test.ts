import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Schedules } from "../../src/schedule/Schedules.js"
import { TickOutcome } from "../../src/schedule/TickOutcome.js"
import { backends, TestServer, viewerToken } from "./TestServer.js"

const nightly = { name: "nightly", kind: "plain", payload: { name: "Ada" }, cron: "30 2 * * *" }
const path = "/api/v1/schedules"

const create = (more: Record<string, unknown> = {}) =>
  Effect.flatMap(TestServer, ({ admin }) => admin("POST", path, { json: { ...nightly, ...more } }))

const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)

describe.each(backends)("on %s, /api/v1/schedules", (_, layer) => {
  it.scopedLive("creates a schedule and shows every field of it, null when empty", () =>
    Effect.gen(function* () {
      const { admin, ask } = yield* TestServer
      const made = yield* create()
      expect(made.status).toBe(201)
      expect(made.json).toEqual({
        ...nightly,
        timezone: "UTC",
        words: "at 02:30 every day, UTC",
        overlap: "allow",
        missed: "one",
        paused: false,
        queue: null,
        attempts: null,
        lastFireAt: null,
        nextFireAt: expect.stringMatching(/T02:30:00\.000Z$/),
        lastSkipAt: null,
        lastError: null,
        lastJobId: null,
        origin: "operator",
        edited: [],
        createdAt: instant,
        updatedAt: instant
      })
      expect(yield* admin("GET", `${path}/nightly`)).toMatchObject({ status: 200, json: made.json })
      const listed = yield* ask("GET", path, { token: viewerToken })
      expect(listed).toMatchObject({ status: 200, json: { schedules: [made.json], next: null } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("keeps every field of a definition", () =>
    Effect.gen(function* () {
      const said = {
        timezone: "Europe/Paris",
        overlap: "skip",
        missed: { all: 5 },
        paused: true,
        queue: "slow",
        attempts: 2,
        cron: "0 0 9 * * MON-FRI"
      }
      expect(yield* create(said)).toMatchObject({ status: 201, json: { ...said, nextFireAt: null } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("lists schedules by name, page by page", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const name of ["c", "a", "b"]) yield* create({ name })
      const names = (json: unknown) => Object(json).schedules.map(({ name }: { name: string }) => name)
      const first = yield* admin("GET", `${path}?limit=2`)
      expect([names(first.json), Object(first.json).next]).toEqual([["a", "b"], "b"])
      const second = yield* admin("GET", `${path}?limit=2&cursor=b`)
      expect([names(second.json), Object(second.json).next]).toEqual([["c"], null])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("changes the named fields, and recalculates the next run from now", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* create({ queue: "slow" })
      const edit = (json: unknown) => admin("PATCH", `${path}/nightly`, { json })
      expect(yield* edit({ paused: true })).toMatchObject({ status: 200, json: { paused: true, nextFireAt: null } })
      expect(yield* edit({ paused: false, cron: "45 4 * * *", queue: null, payload: null })).toMatchObject({
        status: 200,
        json: {
          cron: "45 4 * * *",
          kind: "plain",
          queue: null,
          payload: null,
          nextFireAt: expect.stringMatching(/T04:45:00\.000Z$/)
        }
      })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive(
    "fires a schedule now, and refuses while the previous job is unfinished when runs must not overlap",
    () =>
      Effect.gen(function* () {
        const { admin } = yield* TestServer
        yield* create({ overlap: "skip", paused: true })
        const fired = yield* admin("POST", `${path}/nightly/trigger`)
        expect(fired).toMatchObject({ status: 200, json: { name: "nightly", lastFireAt: instant } })
        const id = Object(fired.json).lastJobId
        expect(yield* admin("GET", `/api/v1/jobs/${id}`)).toMatchObject({
          status: 200,
          json: {
            kind: "plain",
            queue: "default",
            attempts: 5,
            payload: { name: "Ada" },
            meta: { schedule: "nightly" }
          }
        })
        expect(yield* admin("POST", `${path}/nightly/trigger`)).toMatchObject({
          status: 409,
          json: { error: { tag: "PreviousRunActive", message: expect.stringContaining(id) } }
        })
        yield* admin("POST", `/api/v1/jobs/${id}/cancel`)
        expect(yield* admin("POST", `${path}/nightly/trigger`)).toMatchObject({ status: 200 })
      }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("shows the next ten runs, or the requested number", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      yield* create({ paused: true })
      const next = yield* ask("GET", `${path}/nightly/next`, { token: viewerToken })
      expect(next).toMatchObject({
        status: 200,
        json: { name: "nightly", timezone: "UTC", words: "at 02:30 every day, UTC" }
      })
      const runs: ReadonlyArray<string> = Object(next.json).next
      expect(runs).toHaveLength(10)
      expect(runs.every((run) => run.endsWith("T02:30:00.000Z"))).toBe(true)
      const three = yield* ask("GET", `${path}/nightly/next?count=3`, { token: viewerToken })
      expect(Object(three.json).next).toEqual(runs.slice(0, 3))
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("previews an expression without a schedule, and explains what is wrong with it", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      const read = (query: Record<string, string>) =>
        ask("GET", `/api/v1/expressions?${new URLSearchParams(query)}`, { token: viewerToken })
      const noon = yield* read({ cron: "0 12 * * *", timezone: "Asia/Tokyo", count: "2" })
      expect(noon).toMatchObject({
        status: 200,
        json: {
          timezone: "Asia/Tokyo",
          words: "at 12:00 every day, Asia/Tokyo",
          next: [expect.stringMatching(/T03:00:00\.000Z$/), expect.stringMatching(/T03:00:00\.000Z$/)],
          wrong: null
        }
      })
      expect(Object((yield* read({ cron: "@daily" })).json)).toMatchObject({ timezone: "UTC", wrong: null })
      for (const [query, wrong] of [
        [{ cron: "0 25 * * *" }, /^cron is invalid: its hour/],
        [{ cron: "" }, /^cron /],
        [{ timezone: "UTC" }, /^cron /],
        [{ cron: "0 0 30 2 *" }, /^cron .* would never fire$/],
        [{ cron: "@daily", timezone: "Mars/Base" }, /^timezone /]
      ] as const) {
        expect(yield* read(query)).toMatchObject({
          status: 200,
          json: { words: null, next: [], wrong: expect.stringMatching(wrong) }
        })
      }
      expect(yield* read({ cron: "@daily", count: "101" })).toMatchObject({ status: 400 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive(
    "shows the outcome of its last ticks, who caused them, and the state of their jobs, even deleted ones",
    () =>
      Effect.gen(function* () {
        const { admin, ask } = yield* TestServer
        yield* create({ overlap: "allow" })
        const history = Effect.map(ask("GET", `${path}/nightly/history`, { token: viewerToken }), ({ json }) => json)
        expect(yield* history).toEqual({ name: "nightly", timezone: "UTC", runs: [] })
        const trigger = Effect.map(admin("POST", `${path}/nightly/trigger`), ({ json }) => Object(json).lastJobId)
        const [deleted, cancelled, waiting] = [yield* trigger, yield* trigger, yield* trigger]
        yield* admin("POST", `/api/v1/jobs/${cancelled}/cancel`)
        yield* admin("DELETE", `/api/v1/jobs/${deleted}`)
        const schedules = yield* Schedules
        yield* schedules.note("nightly", [
          TickOutcome.Missed({ since: 0, at: 3_600_000 }),
          TickOutcome.CaughtUp({ at: 7_200_000, job: waiting }),
          TickOutcome.Skipped({ since: 9_000_000, at: 9_000_000 }),
          TickOutcome.Fired({ at: 10_800_000, job: waiting })
        ])
        const none = { jobId: null, jobState: null, by: null }
        const job = { jobId: waiting, jobState: "pending", by: null }
        const byHand = { outcome: "triggered", at: instant, since: instant, by: "api:admin" }
        expect(yield* history).toEqual({
          name: "nightly",
          timezone: "UTC",
          runs: [
            { outcome: "fired", at: "1970-01-01T03:00:00.000Z", since: "1970-01-01T03:00:00.000Z", ...job },
            { outcome: "skipped", at: "1970-01-01T02:30:00.000Z", since: "1970-01-01T02:30:00.000Z", ...none },
            { outcome: "caughtUp", at: "1970-01-01T02:00:00.000Z", since: "1970-01-01T02:00:00.000Z", ...job },
            { outcome: "missed", at: "1970-01-01T01:00:00.000Z", since: "1970-01-01T00:00:00.000Z", ...none },
            { ...byHand, jobId: waiting, jobState: "pending" },
            { ...byHand, jobId: cancelled, jobState: "cancelled" },
            { ...byHand, jobId: deleted, jobState: null }
          ]
        })
      }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("removes a schedule, and code does not bring it back", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const schedules = yield* Schedules
      const definition = {
        ...nightly,
        timezone: "UTC",
        queue: undefined,
        attempts: undefined,
        overlap: "allow" as const,
        missed: "one" as const,
        paused: false
      }
      yield* schedules.declare([definition])
      const edited = yield* admin("PATCH", `${path}/nightly`, { json: { cron: "0 5 * * *" } })
      expect(edited.json).toMatchObject({ origin: "code", edited: ["cron"] })
      expect(yield* admin("DELETE", `${path}/nightly`)).toMatchObject({ status: 200, json: { name: "nightly" } })
      expect(yield* admin("GET", `${path}/nightly`)).toMatchObject({ status: 404 })
      yield* schedules.declare([definition])
      expect(yield* admin("GET", path)).toMatchObject({ json: { schedules: [] } })
      expect(yield* create()).toMatchObject({ status: 201, json: { origin: "operator" } })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses a name that is taken, and an unregistered kind unless forced", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      yield* create()
      expect(yield* create()).toMatchObject({ status: 409, json: { error: { tag: "ScheduleExists", field: "name" } } })
      expect(yield* create({ name: "other", kind: "gret" })).toMatchObject({
        status: 422,
        json: { error: { tag: "UnknownKind", field: "kind" } }
      })
      const edit = (json: unknown) => admin("PATCH", `${path}/nightly`, { json })
      expect(yield* edit({ kind: "gret" })).toMatchObject({ status: 422 })
      expect(yield* edit({ kind: "gret", force: true })).toMatchObject({ status: 200, json: { kind: "gret" } })
      expect(yield* create({ name: "other", kind: "gret", force: true })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("returns 404 for an unknown or invalid name", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const name of ["nobody", "%00", "a%20b", "a".repeat(500), "%F0%9F%98%80", "%3Cb%3E"]) {
        for (const [method, end, json] of [
          ["GET", "", undefined],
          ["PATCH", "", { paused: false }],
          ["DELETE", "", undefined],
          ["POST", "/trigger", undefined],
          ["GET", "/next", undefined],
          ["GET", "/history", undefined]
        ] as const) {
          const missing = yield* admin(method, `${path}/${name}${end}`, json === undefined ? {} : { json })
          expect([method, name, missing.status]).toEqual([method, name, 404])
          expect(missing.json).toMatchObject({
            error: { message: expect.stringMatching(/^There is no|^No route matches|does not exist/) }
          })
        }
      }
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("names the field it refuses, and writes nothing", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const refusals: ReadonlyArray<readonly [field: string, wrong: Record<string, unknown>, says: RegExp]> = [
        ["name", { name: "two words" }, /letters, digits/],
        ["name", { name: "" }, /letters, digits/],
        ["name", { name: "n\u0000" }, /NUL/],
        ["name", { name: 7 }, /must be text/],
        ["kind", { kind: "", force: true }, /empty/],
        ["kind", { kind: "k\u0000" }, /NUL/],
        ["payload", { payload: "\ud800" }, /surrogate/],
        ["payload", { payload: "x".repeat(70_000) }, /must be at most \d+ bytes as JSON, got 70002/],
        ["cron", { cron: "60 * * * *" }, /cron is invalid: its minute must be 0 to 59/],
        ["cron", { cron: "* * * * * * *" }, /got 7/],
        ["cron", { cron: "0,".repeat(5_000) }, /at most 256/],
        ["cron", { cron: "0 0 30 2 *" }, /never fire/],
        ["cron", { cron: "0 0 * *\u0000*" }, /NUL/],
        ["cron", { cron: 5 }, /must be text/],
        ["timezone", { timezone: "Mars/Olympus" }, /IANA/],
        ["timezone", { timezone: "+01:00" }, /IANA/],
        ["subject", { subject: "" }, /must not be empty/],
        ["overlap", { overlap: "maybe" }, /"allow" or "skip"/],
        ["missed", { missed: "all" }, /"one", "none" or/],
        ["missed", { missed: { all: 0 } }, /"one", "none" or/],
        ["missed", { missed: { all: 1_001 } }, /"one", "none" or/],
        ["missed", { missed: null }, /"one", "none" or/],
        ["paused", { paused: "yes" }, /true or false/],
        ["queue", { queue: "a b" }, /letters, digits/],
        ["attempts", { attempts: 0 }, /1 to 1000/],
        ["attempts", { attempts: "5" }, /must be a number/],
        ["crom", { crom: "* * * * *" }, /not a known field/]
      ]
      for (const [field, wrong, says] of refusals) {
        const refused = yield* create(wrong)
        expect([field, wrong, refused.status]).toEqual([field, wrong, 400])
        expect(refused.json).toMatchObject({ error: { field, message: expect.stringMatching(says) } })
      }
      for (const missing of ["name", "kind", "payload", "cron"] as const) {
        const { [missing]: _, ...rest } = nightly
        const refused = yield* admin("POST", path, { json: rest })
        expect(refused).toMatchObject({ status: 400, json: { error: { field: missing } } })
      }
      for (const query of ["?limit=0", "?limit=many", "?cursor=%00", "?x=1"]) {
        expect(yield* admin("GET", `${path}${query}`)).toMatchObject({ status: 400 })
      }
      expect(yield* admin("GET", path)).toMatchObject({ json: { schedules: [] } })
      yield* create()
      expect(yield* admin("PATCH", `${path}/nightly`, { json: { name: "other" } })).toMatchObject({
        status: 400,
        json: { error: { field: "name" } }
      })
      expect(yield* admin("PATCH", `${path}/nightly`, { json: [] })).toMatchObject({ status: 400 })
      expect(yield* admin("PATCH", `${path}/nightly`, { json: { cron: "61 * * * *", kind: "plain" } })).toMatchObject({
        status: 400,
        json: { error: { field: "cron" } }
      })
      expect(yield* admin("GET", `${path}/nightly/next?count=101`)).toMatchObject({
        status: 400,
        json: { error: { field: "count" } }
      })
      expect(yield* admin("GET", `${path}/nightly`)).toMatchObject({ json: nightly })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("lets a viewer read and change nothing", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      yield* create()
      const token = viewerToken
      for (const [method, end] of [
        ["POST", ""],
        ["PATCH", "/nightly"],
        ["DELETE", "/nightly"],
        ["POST", "/nightly/trigger"]
      ] as const) {
        expect(yield* ask(method, `${path}${end}`, { token, json: {} })).toMatchObject({ status: 403 })
      }
      expect(yield* ask("GET", path)).toMatchObject({ status: 401 })
    }).pipe(Effect.provide(layer()))
  )
})
