import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { Events } from "../../src/queue/events/Events.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { adminToken, backends, TestServer } from "./TestServer.js"

const path = "/api/v1/erase"
const marker = "Grace Hopper"

interface Erased {
  readonly erased: Readonly<Record<string, number>>
  readonly unfinished: ReadonlyArray<{ readonly id: string }>
  readonly done: boolean
}

describe.each(backends)("on %s, /api/v1/erase", (store, layer) => {
  it.scopedLive("counts and erases what is stored of a subject, and audits it without its text", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const subject = "customer:grace"
      const stored = (json: object) => admin("POST", "/api/v1/jobs", { json: { kind: "plain", subject, ...json } })
      const made = yield* stored({ payload: { name: marker }, key: marker, delay: "1h" })
      const { id } = JSON.parse(made.text)
      yield* stored({ payload: { name: marker }, dedupe: { key: marker }, delay: "1h" })
      yield* stored({ payload: { name: marker }, subject: "customer:other", delay: "1h" })
      const headers = { "x-reason": `for ${marker}` }
      yield* (yield* Kinds).register([{ name: "hear", queue: "hear", version: 1, attempts: 3, onDead: undefined }])
      yield* (yield* Events).subscribe(["hear"], [{ event: "heard", kind: "hear" }])
      const heard = yield* admin("POST", "/api/v1/publish", { json: { name: "heard", data: marker, subject } })
      const replay = { json: { subscriber: "hear" }, headers }
      const replayed = yield* admin("POST", `/api/v1/published/${JSON.parse(heard.text).id}/replay`, replay)
      expect(replayed.status).toBe(201)
      yield* admin("POST", "/api/v1/batches", { json: { jobs: [], name: marker, subject } })
      const hook = { url: "https://customer.example.org/hooks" }
      expect((yield* admin("POST", "/api/v1/endpoints", { json: hook })).status).toBe(201)
      const webhook = { type: "paid", data: { name: marker }, subject }
      expect((yield* admin("POST", "/api/v1/endpoints/send", { json: webhook })).status).toBe(201)
      const schedule = { name: "yearly.for.Grace", kind: "plain", payload: marker, cron: "@yearly", subject }
      for (const name of [schedule.name, "removed.for.Grace"])
        expect((yield* admin("POST", "/api/v1/schedules", { json: { ...schedule, name }, headers })).status).toBe(201)
      expect((yield* admin("POST", `/api/v1/schedules/${schedule.name}/trigger`, { headers })).status).toBe(200)
      expect((yield* admin("DELETE", "/api/v1/schedules/removed.for.Grace", { headers })).status).toBe(200)
      const started = { workflow: "greet", key: marker, payload: { name: marker }, subject }
      expect((yield* admin("POST", "/api/v1/workflows", { json: started })).status).toBe(201)

      const look = { json: { subject, dryRun: true } }
      const found = (yield* admin("POST", path, look)).json
      expect(found).toMatchObject({
        subject: expect.stringMatching(/^sha256:[0-9a-f]{12}$/),
        found: { states: { scheduled: 2, pending: 5, done: 0 }, executions: 1, events: 1, batches: 1, schedules: 1 }
      })
      // The execution runs once more to undo its steps, which takes a worker.
      const first = (yield* admin("POST", path, { json: { subject, reason: `asked by ${subject}` } })).json as Erased
      expect(first).toMatchObject({ erased: { jobs: 6, events: 1, batches: 1, schedules: 1 }, done: false })
      expect(first.unfinished).toMatchObject([{ kind: "greet", execution: `greet/${marker}`, asked: true }])
      expect(
        (yield* admin("POST", `/api/v1/workflows/${encodeURIComponent(`greet/${marker}`)}/cancel`, {
          json: { now: true }
        })).status
      ).toBe(200)
      const second = (yield* admin("POST", path, { json: { subject } })).json
      expect(second).toMatchObject({ erased: { jobs: 1 }, unfinished: [], done: true })
      const again = (yield* admin("POST", path, look)).json
      expect(again).toMatchObject({ found: { states: { scheduled: 0, cancelled: 0 }, events: 0, quotes: 0 } })

      expect((yield* admin("GET", `/api/v1/jobs/${id}`)).json).toMatchObject({
        state: "cancelled",
        payload: null,
        key: null,
        meta: { subjectErasedAt: expect.any(String) }
      })
      const refused = yield* admin("POST", `/api/v1/jobs/${id}/requeue`)
      expect(refused).toMatchObject({ status: 409, text: expect.stringContaining("its data was erased on") })
      expect((yield* admin("GET", "/api/v1/schedules/yearly.for.Grace")).status).toBe(404)
      for (const list of ["jobs", "published", "batches", "workflows", "audit"]) {
        const { status, text } = yield* admin("GET", `/api/v1/${list}`)
        expect(status).toBe(200)
        if (list !== "jobs" && (store !== "memory" || list !== "audit")) expect(text, list).not.toContain("Grace")
      }
      const { entries } = (yield* admin("GET", "/api/v1/audit?act=subject")).json as {
        entries: ReadonlyArray<{ reason: string | null; target: string }>
      }
      expect(entries.at(-1)?.reason).toMatch(/^asked by sha256:/)
      expect(JSON.stringify(entries)).not.toContain(subject)
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("skips jobs that have not ended if asked to, and is for admins", () =>
    Effect.gen(function* () {
      const { admin, ask, viewer } = yield* TestServer
      const subject = "customer:skip"
      const { text } = yield* admin("POST", "/api/v1/jobs", {
        json: { kind: "plain", payload: marker, subject, delay: "1h" }
      })
      const skipped = (yield* admin("POST", path, { json: { subject, running: "skip" } })).json
      expect(skipped).toMatchObject({ erased: { jobs: 0 }, unfinished: [{ asked: false }], done: true })
      expect((yield* admin("GET", `/api/v1/jobs/${JSON.parse(text).id}`)).json).toMatchObject({ payload: marker })
      expect((yield* viewer("POST", path, { json: { subject } })).status).toBe(403)
      expect((yield* ask("POST", path, { json: { subject } })).status).toBe(401)
      const refused = (json: unknown) => admin("POST", path, { token: adminToken, json })
      expect(yield* refused({ subject: "" })).toMatchObject({ status: 400, json: { error: { field: "subject" } } })
      expect(yield* refused({ subject, running: "maybe" })).toMatchObject({ json: { error: { field: "running" } } })
      expect(yield* refused({})).toMatchObject({ status: 400 })
    }).pipe(Effect.provide(layer()))
  )
})
