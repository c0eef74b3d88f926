import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Transactions } from "../../src/queue/Transactions.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import * as RateLimitsMemory from "../../src/rate-limits/RateLimitsMemory.js"
import * as SchedulesMemory from "../../src/schedule/SchedulesMemory.js"
import * as Seal from "../../src/seal/Seal.js"
import { layerOver, TestServer } from "../http/TestServer.js"
import { testCodec } from "../support/TestCodec.js"

const memory = Layer.merge(SchedulesMemory.layer, RateLimitsMemory.layer).pipe(
  Layer.provideMerge(Layer.map(QueueMemory.layer, Seal.over(testCodec("k2", "k1")))),
  Layer.provideMerge(Transactions.layerMemory),
  Layer.provideMerge(Wakeups.layer)
)

const payload = { name: "Ada", password: "hunter2" }
const sealed = { $sealed: { key: "k2", bytes: expect.any(Number) } }

describe("sealed values in the API", () => {
  it.scopedLive("are open for admins, and sealed for viewers and agents", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const made = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload }] } })
      const [{ id }] = JSON.parse(made.text).jobs
      for (const place of [`/api/v1/jobs/${id}`, "/api/v1/jobs", `/api/v1/jobs/find/${id}`]) {
        // The same list for both, in this order and in the other.
        for (const _ of [1, 2]) {
          const seen = yield* viewer("GET", place)
          expect(seen.status).toBe(200)
          expect(seen.text).not.toContain("hunter2")
          expect(seen.text).toContain('"payload":{"$sealed":{"key":"k2","bytes":')
          expect((yield* admin("GET", place)).text).toContain("hunter2")
        }
      }
      const agent = yield* admin("GET", `/api/v1/jobs/${id}`, { headers: { "x-agent": "helper" } })
      expect(agent.json).toMatchObject({ payload: sealed })
    }).pipe(Effect.provide(layerOver(memory)))
  )

  it.scopedLive("are not in the audit log, also when an admin edits or deletes them", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const made = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload }] } })
      const [{ id }] = JSON.parse(made.text).jobs
      const edited = yield* admin("PATCH", `/api/v1/jobs/${id}`, {
        json: { payload: { name: "Ada", password: "hunter3" } }
      })
      expect(edited.json).toMatchObject({ payload: { password: "hunter3" } })
      expect(yield* admin("DELETE", `/api/v1/jobs/${id}`)).toMatchObject({ status: 200 })
      const audit = yield* admin("GET", "/api/v1/audit")
      expect(audit.text).toContain("job.edit")
      expect(audit.text).toContain("$sealed")
      expect(audit.text).not.toContain("hunter")
    }).pipe(Effect.provide(layerOver(memory)))
  )
})
