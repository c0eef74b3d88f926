import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { backends, onSharedServers, TestServer } from "./TestServer.js"
import { postNumbers, stored, worker, workOf } from "./WorkCalls.js"

const id = "0198c0de-0000-7000-8000-000000000001"

onSharedServers(backends, "numbers of remote workers", (it) => {
  it.effect("fails only the job whose result has a number that cannot be stored", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("numbers-of-results")
      const results = [{ ids: [1, "number 9007199254740993"] }, { at: "number -0.0" }, "number 1e400", "fine"]
      const ends = yield* Effect.forEach(results, (result) =>
        Effect.gen(function* () {
          yield* enqueue(1)
          const { id, lease } = yield* claimOne()
          return { id, lease, outcome: "done", result }
        })
      )
      const answer = yield* postNumbers("finish", { worker, jobs: ends })
      expect(answer.json).toMatchObject({ jobs: ["dead", "done", "dead", "done"].map((status) => ({ status })) })
      const error = "its result.ids[1] is 9007199254740993, which a 64-bit float cannot hold"
      expect(yield* stored(ends[0]?.id ?? "")).toMatchObject({
        reason: "rejected",
        lastError: expect.stringContaining(error)
      })
      expect(yield* stored(ends[1]?.id ?? "")).toMatchObject({ result: { at: 0 } })
    })
  )

  it.effect("keeps the jobs of a heartbeat in which a progress has a number that cannot be stored", () =>
    Effect.gen(function* () {
      const { claimOne, enqueue } = workOf("numbers-of-progress")
      const { admin } = yield* TestServer
      const [bad, good] = [yield* enqueue(1), yield* enqueue(2)]
      const [first, second] = [yield* claimOne(), yield* claimOne()]
      yield* admin("POST", `/api/v1/jobs/${good}/cancel`)
      const beats = [
        { id: first.id, lease: first.lease, progress: { id: "number 9007199254740993" } },
        { id: second.id, lease: second.lease, progress: "number -0" }
      ]
      const message = expect.stringContaining("progress.id is 9007199254740993, which a 64-bit float cannot hold")
      expect((yield* postNumbers("heartbeat", { worker, jobs: beats })).json).toMatchObject({
        jobs: [
          { id: bad, error: { tag: "InvalidJob", message } },
          { id: good, error: null }
        ],
        stop: [{ id: good, reason: "cancelled" }]
      })
      expect(yield* stored(good)).toMatchObject({ progress: 0 })
    })
  )

  it.effect("refuses other numbers that a 64-bit float cannot hold", () =>
    Effect.gen(function* () {
      const end = { id, lease: id, outcome: "snooze", afterSeconds: "number 1.00000000000000001" }
      expect(yield* postNumbers("finish", { worker, jobs: [end] })).toMatchObject({
        status: 400,
        json: { error: { field: "jobs[0].afterSeconds" } }
      })
    })
  )
})
