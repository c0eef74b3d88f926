import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { PodId } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { defaultBounds, encode, JobLogs } from "../../src/queue/logs/JobLogs.js"
import { Queue } from "../../src/queue/Queue.js"
import { layer, TestServer } from "./TestServer.js"

const pod = Schema.decodeSync(PodId)("0198c0de-0000-7000-8000-000000000001")

const line = encode({
  at: Date.UTC(2026, 0, 31, 9),
  level: "warn",
  message: "declined for hunter2",
  step: "charge",
  error: "Error: password=hunter2\n    at x",
  fields: { order: 7, password: "hunter2" }
})

/** A running job that has logged a line. */
const logged = Effect.gen(function* () {
  const { admin } = yield* TestServer
  const payload = { name: "Ada", password: "hunter2" }
  const { text } = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload }] } })
  const { queue: name } = JSON.parse((yield* admin("GET", `/api/v1/jobs/${JSON.parse(text).jobs[0].id}`)).text)
  const queue = yield* Queue
  const [job] = yield* queue.claim({ queue: name, pod, limit: 1 })
  if (job === undefined) return yield* Effect.dieMessage("no job")
  const { attempt, id, lease } = job
  const logs = yield* JobLogs
  const log = { id, lease, attempt, count: 3, lines: [line], bounds: defaultBounds }
  yield* logs.write([log])
  return { id, lease, log }
})

describe("GET /api/v1/jobs/{id}/logs", () => {
  it.scopedLive("returns what a running job has logged, and hides masked fields from viewers", () =>
    Effect.gen(function* () {
      const { admin, viewer } = yield* TestServer
      const { id, lease } = yield* logged
      const path = `/api/v1/jobs/${id}/logs`
      expect(yield* admin("GET", path)).toMatchObject({
        status: 200,
        json: {
          attempts: [
            {
              attempt: 1,
              dropped: 2,
              lines: [
                {
                  at: "2026-01-31T09:00:00.000Z",
                  level: "warn",
                  message: "declined for hunter2",
                  step: "charge",
                  error: "Error: password=hunter2\n    at x",
                  fields: { order: 7, password: "hunter2" }
                }
              ]
            }
          ]
        }
      })
      const seen = yield* viewer("GET", path)
      expect(seen.text).not.toContain("hunter2")
      expect(seen).toMatchObject({
        json: {
          attempts: [{ lines: [{ message: "declined for [masked]", fields: { order: 7, password: "[masked]" } }] }]
        }
      })
      yield* Effect.flatMap(Queue, (queue) => queue.finalize([{ id, lease, end: End.Done({ result: undefined }) }]))
      expect((yield* admin("GET", path)).text).toContain("declined")
    }).pipe(Effect.provide(layer({ mask: ["password"] })))
  )

  it.scopedLive("is empty for a job that has logged nothing, and 404 for one that does not exist", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      const { text } = yield* admin("POST", "/api/v1/jobs", { json: { jobs: [{ kind: "greet", payload: {} }] } })
      const [{ id }] = JSON.parse(text).jobs
      expect(yield* admin("GET", `/api/v1/jobs/${id}/logs`)).toMatchObject({ status: 200, json: { attempts: [] } })
      expect(yield* admin("GET", "/api/v1/jobs/0198c0de-0000-7000-8000-000000000001/logs")).toMatchObject({
        status: 404
      })
      expect(yield* admin("GET", "/api/v1/jobs/x/logs")).toMatchObject({ status: 404 })
    }).pipe(Effect.provide(layer({})))
  )
})
