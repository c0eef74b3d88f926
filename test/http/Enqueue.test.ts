import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Routes } from "../../src/queue/settings/Routes.js"
import { type Answer, backends, TestServer } from "./TestServer.js"

const job = { kind: "greet", payload: { name: "Ada" } }
const id = "0198c0de-0000-7000-8000-000000000001"

const post = (json: unknown) => Effect.flatMap(TestServer, ({ admin }) => admin("POST", "/api/v1/jobs", { json }))
const stored = Effect.flatMap(JobSearch, ({ total }) => Effect.map(total({}, 10_000), ({ count }) => count))

interface Outcome {
  readonly id: string
  readonly outcome: string
}
const outcomesOf = ({ text }: Answer): ReadonlyArray<Outcome> => JSON.parse(text).jobs

describe.each(backends)("on %s, POST /api/v1/jobs", (_, layer) => {
  it.scopedLive("stores jobs with the cluster's settings of their kind, and answers in order", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const answer = yield* post({
        jobs: [
          job,
          { ...job, queue: "fast", priority: -5, runAt: "2026-01-31T09:00:00+01:00", attempts: 2 },
          { ...job, id }
        ]
      })
      expect(answer.status).toBe(201)
      const outcomes = outcomesOf(answer)
      expect(outcomes.map(({ outcome }) => outcome)).toEqual(["enqueued", "enqueued", "enqueued"])
      expect(outcomes[2]?.id).toBe(id)
      const first = yield* admin("GET", `/api/v1/jobs/${outcomes[0]?.id}`)
      expect(first.json).toMatchObject({ queue: "mail", attempts: 7, priority: 0, payload: { name: "Ada" } })
      const second = yield* admin("GET", `/api/v1/jobs/${outcomes[1]?.id}`)
      expect(second.json).toMatchObject({
        queue: "fast",
        attempts: 2,
        priority: -5,
        runAt: "2026-01-31T08:00:00.000Z"
      })
      const search = yield* JobSearch
      const [{ version } = { version: 0 }] = (yield* search.list({ queue: "fast" }, { limit: 1 })).jobs
      expect(version).toBe(3)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("returns the existing job when the dedupe key is held", () =>
    Effect.gen(function* () {
      const dedupe = { key: "receipt:7", scope: "active" }
      const first = outcomesOf(yield* post({ jobs: [{ ...job, dedupe }] }))
      const second = outcomesOf(yield* post({ jobs: [{ ...job, dedupe }, job] }))
      expect(second[0]).toEqual({ id: first[0]?.id, outcome: "deduplicated" })
      expect(second[1]?.outcome).toBe("enqueued")
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("takes the window of a dedupe key, and replaces a pending job on request", () =>
    Effect.gen(function* () {
      const search = yield* JobSearch
      const add = (more: object) =>
        Effect.flatMap(post({ jobs: [{ ...job, ...more }] }), (answer) =>
          search.get((outcomesOf(answer)[0]?.id ?? "") as JobId)
        )
      const windowed = yield* add({ dedupe: { key: "hourly", window: "1h" } })
      expect(windowed.dedupe).toEqual({ key: "hourly", scope: "retained" })
      const first = yield* add({ delay: "1h", dedupe: { key: "last" } })
      expect(first.dedupe).toEqual({ key: "last", scope: "active" })
      const second = yield* add({ delay: "2h", dedupe: { key: "last", replace: true } })
      expect(second).toMatchObject({ id: first.id })
      expect(second.runAt).toBeGreaterThan(first.runAt)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("accepts the same id with the same content again, and refuses it with other content", () =>
    Effect.gen(function* () {
      expect((yield* post({ jobs: [{ ...job, id }] })).status).toBe(201)
      expect(outcomesOf(yield* post({ jobs: [{ ...job, id }] }))).toEqual([{ id, outcome: "enqueued" }])
      const refused = yield* post({ jobs: [job, { ...job, id, payload: 1 }] })
      expect(refused).toMatchObject({ status: 409, json: { error: { tag: "JobIdTaken", field: "jobs[1].id" } } })
      expect(yield* stored).toBe(1)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("refuses an unregistered kind unless forced", () =>
    Effect.gen(function* () {
      const strange = { kind: "strange", payload: null }
      const refused = yield* post({ jobs: [job, strange] })
      expect(refused).toMatchObject({ status: 422, json: { error: { tag: "UnknownKind", field: "jobs[1].kind" } } })
      expect(yield* post({ jobs: [strange] })).toMatchObject({ status: 422 })
      expect(yield* post({ jobs: [{ ...job, kind: "great" }] })).toMatchObject({
        status: 422,
        json: { error: { message: expect.stringMatching(/ the kind "great"\. Did you mean greet\? Start a process/) } }
      })
      expect(yield* stored).toBe(0)
      expect((yield* post({ jobs: [job, strange], force: true })).status).toBe(201)
      const search = yield* JobSearch
      const [forced] = (yield* search.list({ kind: "strange" }, { limit: 1 })).jobs
      expect(forced).toMatchObject({ queue: "default", attempts: 5, version: 1 })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("routes jobs without a queue by kind, else by the longest prefix, else to default", () =>
    Effect.gen(function* () {
      const routes = yield* Routes
      yield* routes.register({ str: "odd", "strange.": "odder", g: "never" })
      const jobs = [
        { kind: "greet", payload: 1 },
        { kind: "strange", payload: 2 },
        { kind: "strange.r", payload: 3 },
        { kind: "strange.r", payload: 4, queue: "own" },
        { kind: "xyz", payload: 5 }
      ]
      expect((yield* post({ jobs, force: true })).status).toBe(201)
      const search = yield* JobSearch
      const queues = yield* Effect.forEach(jobs, (_, index) =>
        Effect.map(search.list({ payload: index + 1 }, { limit: 1 }), ({ jobs }) => jobs[0]?.queue)
      )
      expect(queues).toEqual(["mail", "odd", "odder", "own", "default"])
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("accepts a thousand jobs", () =>
    Effect.gen(function* () {
      const answer = yield* post({ jobs: Array.from({ length: 1000 }, (_, n) => ({ ...job, payload: n })) })
      expect(answer.status).toBe(201)
      expect(new Set(outcomesOf(answer).map((outcome) => outcome.id)).size).toBe(1000)
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, POST /api/v1/jobs with one job", (_, layer) => {
  it.scopedLive("stores it, answers with it alone, and names its fields without an index", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const answer = yield* post({ ...job, key: "chat:1", meta: { order: "A-17" }, delay: "1h30m" })
      expect(answer).toMatchObject({ status: 201, json: { id: expect.any(String), outcome: "enqueued" } })
      const { id: given } = answer.json as Outcome
      const { json } = yield* admin("GET", `/api/v1/jobs/${given}`)
      expect(json).toMatchObject({ key: "chat:1", meta: { order: "A-17" }, state: "scheduled", queue: "mail" })
      const { createdAt, runAt } = json as { readonly createdAt: string; readonly runAt: string }
      expect(Math.round((Date.parse(runAt) - Date.parse(createdAt)) / 60_000)).toBe(90)
      const wrongs: ReadonlyArray<readonly [json: object, status: number, field: string, message: RegExp]> = [
        [{ ...job, priority: 40_000 }, 400, "priority", /^priority must be a whole/],
        [{ ...job, prioritty: 1 }, 400, "prioritty", /^prioritty is not a known field\. The known ones are .*priority/],
        [{ kind: "greet" }, 400, "payload", /^payload is missing/],
        [{ ...job, key: "" }, 400, "key", /^key must not be empty/],
        [{ ...job, meta: [] }, 400, "meta", /^meta must be an object/],
        [{ ...job, delay: -5 }, 400, "delay", /^delay must be a duration like 90s, .* or milliseconds/],
        [{ ...job, delay: "soon" }, 400, "delay", /^delay must be a duration/],
        [{ ...job, delay: "40000d" }, 400, "delay", /^delay must be at most 36500 days, got 40000 days/],
        [{ ...job, delay: 1, runAt: "2030-01-01T00:00:00Z" }, 400, "delay", /^delay must not be combined with runAt/],
        [{ ...job, kind: "strange" }, 422, "kind", /^No process has ever registered/],
        [{ ...job, id: given, payload: 1 }, 409, "id", /^id .* already belongs to a job with different content/]
      ]
      for (const [json, status, field, message] of wrongs) {
        const refused = yield* post(json)
        expect(refused, JSON.stringify(json)).toMatchObject({
          status,
          json: { error: { field, message: expect.stringMatching(message) } }
        })
        const listed = yield* post({ jobs: [json] })
        expect(listed, JSON.stringify(json)).toMatchObject({
          status,
          json: { error: { field: `jobs[0].${field}`, message: expect.stringMatching(message) } }
        })
      }
      expect(yield* post({ ...job, kind: "strange", force: true })).toMatchObject({ status: 201 })
      const idempotent = { json: { ...job, delay: 60_000 }, headers: { "idempotency-key": "once" } }
      const first = yield* admin("POST", "/api/v1/jobs", idempotent)
      expect((yield* admin("POST", "/api/v1/jobs", idempotent)).json).toEqual(first.json)
      expect(yield* stored).toBe(3)
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, a number in a request", (_, layer) => {
  it.scopedLive("is stored exactly as sent, or refused by name and value when no handler could receive it", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const headers = { "content-type": "application/json" }
      const send = (body: string) => admin("POST", "/api/v1/jobs", { body, headers })
      const body = (number: string) => `{"jobs":[{"kind":"greet","payload":{"order":[1,{"id": ${number}}]}}]}`
      for (const number of ["9007199254740993", "1e400", "-1e400", "12345678901234567.89"]) {
        const refused = yield* send(body(number))
        const field = "jobs[0].payload.order[1].id"
        expect(refused, number).toMatchObject({ status: 400, json: { error: { tag: "BadRequest", field } } })
        expect(refused.text).toContain(`payload.order[1].id is ${number}, which a 64-bit float cannot hold`)
        expect(refused.text).toContain("send it as a string")
      }
      for (const number of ["-0", "-0.0", "-0.00e3"]) {
        const refused = yield* send(body(number))
        expect(refused, number).toMatchObject({
          status: 400,
          json: { error: { field: "jobs[0].payload.order[1].id" } }
        })
        expect(refused.text).toContain(`is ${number}, which would be stored as 0`)
      }
      expect(yield* stored).toBe(0)
      for (const number of [
        "9007199254740991",
        "0.1",
        "1e21",
        "0.0",
        "-0.5",
        "-0.01",
        "5e-324",
        "0.10000000000000001"
      ]) {
        const [job] = outcomesOf(yield* send(body(number)))
        const { json } = yield* admin("GET", `/api/v1/jobs/${job?.id}`)
        expect(json).toMatchObject({ payload: { order: [1, { id: Number(number) + 0 }] } })
      }
      const [first] = outcomesOf(yield* send(body("1")))
      const patch = { body: '{"payload":{"id":9007199254740993}}', headers }
      const edited = yield* admin("PATCH", `/api/v1/jobs/${first?.id}`, patch)
      expect(edited).toMatchObject({ status: 400, json: { error: { field: "payload.id" } } })
    }).pipe(Effect.provide(layer()))
  )
})

/** The problem, the request, and the field that the answer must name. */
const wrongs: ReadonlyArray<readonly [what: string, json: unknown, field: string | undefined, says?: RegExp]> = [
  ["not an object", [], undefined],
  ["no jobs", {}, "jobs", /missing/],
  ["jobs that are no list", { jobs: job }, "jobs"],
  ["an empty batch", { jobs: [] }, "jobs", /1 to 1000/],
  ["1,001 jobs", { jobs: Array.from({ length: 1001 }, () => job) }, "jobs", /1 to 1000 entries, got 1001/],
  ["a job that is none", { jobs: [job, 7] }, "jobs[1]", /Job 1/],
  ["no kind", { jobs: [job, { payload: 1 }] }, "jobs[1].kind", /Job 1: kind is missing/],
  ["no payload", { jobs: [job, { kind: "greet" }] }, "jobs[1].payload", /Job 1: payload is missing/],
  ["an empty kind", { jobs: [{ ...job, kind: "" }], force: true }, "jobs[0].kind", /empty/],
  ["a kind that is too long", { jobs: [{ ...job, kind: "k".repeat(129) }], force: true }, "jobs[0].kind", /128/],
  ["NUL in the kind", { jobs: [{ ...job, kind: "a\u0000" }] }, "jobs[0].kind", /NUL/],
  ["NUL in the payload", { jobs: [job, { ...job, payload: { a: "\u0000" } }] }, "jobs[1].payload", /Job 1: .*NUL/],
  ["half a surrogate pair", { jobs: [{ ...job, payload: "\ud800" }] }, "jobs[0].payload", /surrogate/],
  [
    "a payload over the cap",
    { jobs: [job, { ...job, payload: "x".repeat(1024 * 1024) }] },
    "jobs[1].payload",
    /must be at most \d+ bytes/
  ],
  ["a priority out of range", { jobs: [job, { ...job, priority: 32_768 }] }, "jobs[1].priority", /Job 1: .*32767/],
  ["a broken priority", { jobs: [{ ...job, priority: 1.5 }] }, "jobs[0].priority", /whole/],
  ["a priority that is text", { jobs: [{ ...job, priority: "1" }] }, "jobs[0].priority", /must be a number/],
  ["no attempts", { jobs: [{ ...job, attempts: 0 }] }, "jobs[0].attempts"],
  ["an invalid queue name", { jobs: [{ ...job, queue: "a/b" }] }, "jobs[0].queue", /letters/],
  ["a queue that is null", { jobs: [{ ...job, queue: null }] }, "jobs[0].queue", /must be text/],
  ["a start without a zone", { jobs: [{ ...job, runAt: "2026-01-31T09:00:00" }] }, "jobs[0].runAt", /RFC 3339/],
  ["a start on no day", { jobs: [{ ...job, runAt: "2026-02-30T09:00:00Z" }] }, "jobs[0].runAt", /RFC 3339/],
  ["a start that is a number", { jobs: [{ ...job, runAt: 5 }] }, "jobs[0].runAt", /RFC 3339/],
  ["a start before time", { jobs: [{ ...job, runAt: "1969-12-31T23:59:59Z" }] }, "jobs[0].runAt", /1970/],
  ["a dedupe without a key", { jobs: [{ ...job, dedupe: { scope: "active" } }] }, "jobs[0].dedupe.key", /missing/],
  [
    "a window of an active key",
    { jobs: [{ ...job, dedupe: { key: "a", scope: "active", window: "1h" } }] },
    "jobs[0].dedupe.window",
    /needs the scope "retained", got "active"/
  ],
  [
    "a window that is none",
    { jobs: [{ ...job, dedupe: { key: "a", window: "ever" } }] },
    "jobs[0].dedupe.window",
    /1h30m/
  ],
  [
    "a replace that is neither",
    { jobs: [{ ...job, dedupe: { key: "a", replace: 1 } }] },
    "jobs[0].dedupe.replace",
    /true/
  ],
  ["an unknown scope", { jobs: [{ ...job, dedupe: { key: "a", scope: "ever" } }] }, "jobs[0].dedupe.scope", /retained/],
  ["an empty dedupe key", { jobs: [{ ...job, dedupe: { key: "", scope: "active" } }] }, "jobs[0].dedupe.key", /empty/],
  ["an id that is none", { jobs: [{ ...job, id: "seven" }] }, "jobs[0].id", /UUID/],
  [
    "one id twice",
    {
      jobs: [
        { ...job, id },
        { ...job, id }
      ]
    },
    "jobs[1].id",
    /twice/
  ],
  ["an unknown field", { jobs: [job, { ...job, prioritty: 1 }] }, "jobs[1].prioritty", /Job 1: prioritty is not/],
  ["a delay before now", { jobs: [{ ...job, delay: -5 }] }, "jobs[0].delay"],
  ["a field beside the jobs", { jobs: [job], forced: true }, "forced"],
  ["a force that is neither", { jobs: [job], force: "yes" }, "force", /true or false/]
]

// Refused before anything is stored, so one backend is enough.
describe.each(backends.slice(0, 1))("on %s, POST /api/v1/jobs with something wrong", (_, layer) => {
  it.scopedLive("is refused with the field, and nothing is stored", () =>
    Effect.gen(function* () {
      for (const [what, json, field, says] of wrongs) {
        const refused = yield* post(json)
        expect(refused.status, what).toBe(400)
        const { error } = JSON.parse(refused.text)
        expect(Object.keys(refused.json as object), what).toEqual(["error"])
        expect(error.tag, what).toMatch(/^(BadRequest|InvalidJob)$/)
        expect(error.field, what).toBe(field)
        expect(error.message, what).toMatch(says ?? /./)
        expect(error.message, what).not.toMatch(/Expected|readonly/)
        expect(yield* stored, what).toBe(0)
      }
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, meta", (_, layer) => {
  it.scopedLive("cannot say that a job was erased", () =>
    Effect.gen(function* () {
      for (const subjectErasedAt of ["x", "2020-01-01T00:00:00Z"])
        expect(yield* post({ ...job, meta: { subjectErasedAt } })).toMatchObject({
          status: 400,
          json: { error: { field: "meta", message: expect.stringContaining("subjectErasedAt") } }
        })
      expect(yield* stored).toBe(0)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("and tags cannot have the key __proto__, which would be lost", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const headers = { "content-type": "application/json" }
      const started = '{"workflow":"greet","key":"Ada","payload":1,"tags":{"__proto__":"1","a":"2"}}'
      for (const [path, body, field] of [
        ["jobs", '{"kind":"greet","payload":1,"meta":{"__proto__":1,"a":2}}', "meta"],
        ["jobs", '{"jobs":[{"kind":"greet","payload":1,"meta":{"__proto__":1}}]}', "jobs[0].meta"],
        ["workflows", started, "tags"]
      ] as const)
        expect(yield* admin("POST", `/api/v1/${path}`, { body, headers }), body).toMatchObject({
          status: 400,
          json: { error: { field, message: expect.stringContaining("must not have the key __proto__") } }
        })
      expect(yield* stored).toBe(0)
      expect(yield* post({ ...job, meta: { constructor: 1 } })).toMatchObject({ status: 201 })
    }).pipe(Effect.provide(layer()))
  )
})
