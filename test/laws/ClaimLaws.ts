import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { waiting } from "../support/States.js"
import { ends, type Law } from "./Line.js"

export const claimLaws = (law: Law): void => {
  law("claims by priority, then start time, then id", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      const [low, high] = [yield* line.newId, yield* line.newId].sort()
      yield* line.queue.enqueue([
        line.job({ payload: "late", runAt: now - 1 }),
        line.job({ payload: "second of two", runAt: now - 2, ...(high === undefined ? {} : { id: high }) }),
        line.job({ payload: "first of two", runAt: now - 2, ...(low === undefined ? {} : { id: low }) }),
        line.job({ payload: "early", runAt: now - 3 }),
        line.job({ payload: "less urgent", priority: 1, runAt: now - 9 }),
        line.job({ payload: "most urgent", priority: -7 })
      ])
      const claimed = yield* line.claim()
      expect(claimed.map(({ payload }) => payload)).toEqual([
        "most urgent",
        "early",
        "first of two",
        "second of two",
        "late",
        "less urgent"
      ])
    })
  )

  law("claims at most the requested number, and the first of the order", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue([3, 1, 2].map((priority) => line.job({ priority, payload: priority })))
      expect((yield* line.claim(2)).map(({ payload }) => payload)).toEqual([1, 2])
      expect((yield* line.claim(2)).map(({ payload }) => payload)).toEqual([3])
      expect(yield* line.claim(2)).toEqual([])
    })
  )

  law("does not claim a job before its start time", (line) =>
    Effect.gen(function* () {
      const runAt = (yield* line.now) + 60_000
      const id = yield* line.put({ runAt })
      const claim = line.queue.claim({ queue: line.name, pod: line.pod, limit: 10 })
      expect(yield* claim).toEqual([])
      yield* line.advance(59_999)
      expect(yield* claim).toEqual([])
      yield* line.advance(1)
      expect(yield* claim).toMatchObject([{ id, runAt, startedAt: runAt }])
    })
  )

  law("ignores other queues, and returns nothing from an empty one", (line) =>
    Effect.gen(function* () {
      yield* line.put({ queue: `${line.name}-other` })
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("returns a whole job, and marks it as this pod's", (line) =>
    Effect.gen(function* () {
      const createdAt = yield* line.now
      const id = yield* line.put({ key: "chat:1", meta: { trace: "t" }, version: 3, attempts: 2 })
      const run = yield* line.claimOne
      const now = yield* line.now
      expect(run).toEqual({
        id,
        lease: run.lease,
        execution: undefined,
        linked: false,
        isChild: false,
        queue: line.name,
        kind: "greet",
        version: 3,
        payload: { name: "Ada" },
        key: "chat:1",
        attempt: 1,
        attempts: 2,
        crashCount: 0,
        meta: { trace: "t" },
        createdAt,
        runAt: createdAt,
        startedAt: now
      })
      expect(yield* line.search.get(id)).toMatchObject({
        state: "running",
        attempt: 1,
        pod: line.pod,
        startedAt: now,
        heartbeatAt: now,
        updatedAt: now
      })
    })
  )

  law("writes one lease on all jobs of a claim, and never reuses it", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue([line.job(), line.job()])
      const first = yield* line.claim()
      expect(new Set(first.map(({ lease }) => lease)).size).toBe(1)
      const now = yield* line.now
      yield* line.queue.finalize(first.map(({ id, lease }) => ({ id, lease, end: ends.release(now) })))
      const second = yield* line.claim()
      expect(second.map(({ id }) => id).sort()).toEqual(first.map(({ id }) => id).sort())
      expect(second[0]?.lease).not.toBe(first[0]?.lease)
    })
  )

  law("never gives one job to two concurrent claimers, and misses none", (line) =>
    Effect.gen(function* () {
      const stored = yield* line.queue.enqueue(Array.from({ length: 300 }, () => line.job()))
      const claimed: Array<ClaimedJob> = []
      const claim = line.queue.claim({ queue: line.name, pod: line.pod, limit: 7 })
      for (let round = 0; round < 20 && claimed.length < stored.length; round += 1) {
        yield* line.advance("1 second")
        const batches = yield* Effect.all(
          Array.from({ length: 20 }, () => claim),
          { concurrency: "unbounded" }
        )
        claimed.push(...batches.flat())
      }
      expect(claimed.map(({ id }) => id).sort()).toEqual(stored.map(({ id }) => id).sort())
    })
  )

  law("is not blocked by a job that was returned with all its attempts used", (line) =>
    Effect.gen(function* () {
      yield* line.end(yield* line.run({ attempts: 1, payload: "used up" }), ends.again(yield* line.now))
      yield* line.put({ payload: "innocent" })
      const claimed = yield* line.claim()
      expect(claimed.map(({ attempt, payload }) => [payload, attempt])).toEqual([
        ["used up", 1],
        ["innocent", 1]
      ])
    })
  )

  law("claims a job that has crashed alone", (line) =>
    Effect.gen(function* () {
      const suspect = yield* line.run({ payload: "suspect" })
      expect(yield* line.crash(suspect)).toMatchObject({ state: waiting, crashCount: 1 })
      yield* line.queue.enqueue([
        line.job({ payload: "before", priority: -1 }),
        line.job({ payload: "after", priority: 1 }),
        line.job({ payload: "after", priority: 1 })
      ])
      const claims: Array<ReadonlyArray<unknown>> = []
      for (let round = 0; round < 4; round += 1) claims.push((yield* line.claim()).map(({ payload }) => payload))
      expect(claims.flat().sort()).toEqual(["after", "after", "before", "suspect"])
      expect(claims).toContainEqual(["suspect"])
      expect(claims[0]?.[0]).toBe("before")
    })
  )
}
