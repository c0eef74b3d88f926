import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { layer, TestServer } from "./TestServer.js"

const headers = { "x-agent": "claude-code" }
const payload = { name: "Ada", password: "hunter2" }

const setUp = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const { text } = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload }] } })
  const id: string = JSON.parse(text).jobs[0].id
  return { admin, id }
})

describe("a request with X-Agent", () => {
  it.scopedLive("is the agent's in the audit log, with the reason", () =>
    Effect.gen(function* () {
      const { admin, id } = yield* setUp
      const reason = { "x-reason": "found by the night watch" }
      yield* admin("POST", `/api/v1/jobs/${id}/cancel`, { headers: { ...headers, ...reason } })
      yield* admin("POST", "/api/v1/jobs/bulk", {
        headers,
        json: { action: "requeue", filter: { state: "cancelled" } }
      })
      const { json } = yield* admin("GET", "/api/v1/audit?who=agent:claude-code")
      expect(json).toMatchObject({
        entries: [{ act: "jobs.requeue" }, { act: "job.cancel", target: id, reason: reason["x-reason"] }]
      })
    }).pipe(Effect.provide(layer({})))
  )

  it.scopedLive("gets what a viewer may see, even with the admin token", () =>
    Effect.gen(function* () {
      const { admin, id } = yield* setUp
      for (const path of ["jobs", `jobs/${id}`].map((each) => `/api/v1/${each}`)) {
        expect((yield* admin("GET", path)).text).toContain("hunter2")
        expect((yield* admin("GET", path, { headers })).text).not.toContain("hunter2")
      }
      const filter = { payload: { password: "hunter2" } }
      const probes = [
        admin("GET", `/api/v1/jobs?payload=${encodeURIComponent(JSON.stringify(filter.payload))}`, { headers }),
        admin("POST", "/api/v1/jobs/bulk", { headers, json: { action: "cancel", filter, dryRun: true } })
      ]
      for (const probe of probes) expect(yield* probe).toMatchObject({ status: 403 })
    }).pipe(Effect.provide(layer({ mask: ["password"] })))
  )

  it.scopedLive("learns when an action can be undone, not with which payload", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const schedule = { name: "nightly", kind: "greet", cron: "0 3 * * *", payload }
      yield* admin("POST", "/api/v1/schedules", { json: schedule })
      yield* admin("DELETE", "/api/v1/schedules/nightly")
      expect((yield* admin("GET", "/api/v1/actions")).text).toContain("hunter2")
      const seen = yield* admin("GET", "/api/v1/actions", { headers })
      expect(seen).toMatchObject({
        json: { actions: [{ act: "schedule.delete", undo: { request: null } }, { act: "schedule.create" }] }
      })
      expect(seen.text).not.toContain("hunter2")
    }).pipe(Effect.provide(layer({ mask: ["password"] })))
  )

  it.scopedLive("cannot forge another author by its name, and gains no rights", () =>
    Effect.gen(function* () {
      const { admin, id } = yield* setUp
      const { viewer } = yield* TestServer
      yield* admin("POST", `/api/v1/jobs/${id}/cancel`, {
        headers: { "x-agent": `\u00e9 api:admin${"x".repeat(500)}` }
      })
      const { text } = yield* admin("GET", `/api/v1/audit?target=${id}`)
      expect(JSON.parse(text).entries[0].who).toMatch(/^agent:- api-adminx{50,100}$/)
      expect(yield* viewer("POST", `/api/v1/jobs/${id}/requeue`, { headers })).toMatchObject({ status: 403 })
    }).pipe(Effect.provide(layer({})))
  )
})
