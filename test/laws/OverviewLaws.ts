import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { End } from "../../src/queue/AttemptEnd.js"
import { ends, type Law, type Line } from "./Line.js"

const fail = (line: Line, error: string, more: Parameters<Line["run"]>[0] = {}) =>
  Effect.flatMap(line.run(more), (run) => line.end(run, End.Dead({ reason: "exhausted", counted: true, error })))

export const overviewLaws = (law: Law): void => {
  law("dead jobs are grouped by kind, reason and error shape, the largest group first", (line) =>
    Effect.gen(function* () {
      const first = yield* fail(line, "timeout after 1500 ms\nat a.js:1")
      yield* line.advance("1 minute")
      yield* fail(line, "timeout after 20 ms")
      const last = yield* fail(line, "timeout after 7 ms\n    at a (/app/a.ts:1:1)")
      yield* fail(line, "timeout after 7 ms", { kind: "other" })
      yield* line.advance("1 second")
      // Cancelled jobs did not fail, so they are in no group.
      yield* line.jobAdmin.cancel(yield* line.put())
      yield* line.end(yield* line.run(), ends.done)
      const { groups, looked, sampled } = yield* line.overview.deadGroups(line.name)
      expect({ looked, sampled }).toEqual({ looked: 4, sampled: false })
      expect(groups).toMatchObject([
        {
          kind: "greet",
          reason: "exhausted",
          shape: "timeout after # ms",
          count: 3,
          firstAt: first.finishedAt,
          lastAt: last.finishedAt,
          recent: [...Array.from({ length: 29 }, () => 0), 3],
          sample: { id: last.id, error: "timeout after 7 ms" }
        },
        { count: 1, kind: "other", reason: "exhausted", shape: "timeout after # ms" }
      ])
      const all = yield* line.overview.deadGroups()
      expect(all.looked).toBeGreaterThanOrEqual(4)
      const found = yield* line.search.total({ queue: line.name, kind: "greet", shape: "timeout after # ms" }, 10)
      expect(found).toEqual({ count: 3, exact: true })
    })
  )

  law("dead jobs are grouped by the time of their death, whenever they were stored", (line) =>
    Effect.gen(function* () {
      const old = yield* line.run()
      yield* fail(line, "no answer")
      yield* line.advance("1 second")
      yield* line.end(old, End.Dead({ reason: "exhausted", counted: true, error: "no answer" }))
      const { groups } = yield* line.overview.deadGroups(line.name)
      expect(groups).toMatchObject([{ count: 2, sample: { id: old.id } }])
    })
  )

  law("recently stored, started or ended jobs are reported as changed", (line) =>
    Effect.gen(function* () {
      yield* line.put()
      yield* line.advance("1 hour")
      const since = yield* line.now
      const own = Effect.map(line.overview.changed(since, 1000), ({ jobs, sampled }) => {
        expect(sampled).toBe(false)
        return jobs.filter(({ queue }) => queue === line.name)
      })
      expect(yield* own).toEqual([])
      yield* line.put({ priority: 7, runAt: since + 3_600_000 })
      expect(yield* own).toMatchObject([{ kind: "greet", state: "scheduled", priority: 7, attempt: 0, attempts: 5 }])
      const run = yield* line.claimOne
      expect((yield* own).map(({ state }) => state)).toEqual(["running", "scheduled"])
      const dead = yield* line.end(run, ends.dead)
      expect((yield* own)[0]).toEqual({
        id: run.id,
        queue: line.name,
        kind: "greet",
        state: "dead",
        attempt: 1,
        attempts: 5,
        priority: 0,
        runAt: dead.runAt,
        updatedAt: dead.updatedAt,
        reason: "rejected",
        error: "no"
      })
      yield* line.advance("1 hour")
      expect((yield* line.overview.changed(yield* line.now, 1000)).jobs).toEqual([])
    })
  )

  law("the list of changes is limited, and reports that it was cut", (line) =>
    Effect.gen(function* () {
      yield* line.advance("1 hour")
      const since = yield* line.now
      yield* line.queue.enqueue(Array.from({ length: 20 }, () => line.job()))
      const { jobs, sampled } = yield* line.overview.changed(since, 10)
      expect({ count: jobs.length, sampled }).toEqual({ count: 10, sampled: true })
    })
  )

  law("listed include only existing jobs", (line) =>
    Effect.gen(function* () {
      const id = yield* line.put()
      const listed = yield* line.overview.listed([id, yield* line.newId, id])
      expect(listed).toMatchObject([{ id, state: "pending", error: undefined }])
      expect(yield* line.overview.listed([])).toEqual([])
    })
  )
}
