import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { ends, type Law, type Line } from "./Line.js"

const usual = Duration.hours(168)

/** Stores, runs and ends a job; returns its id. */
const over = (line: Line, end: (typeof ends)["done" | "dead"]) =>
  Effect.gen(function* () {
    const run = yield* line.run()
    yield* line.end(run, end)
    return run.id
  })

const stands = (line: Line, id: Parameters<Line["search"]["get"]>[0]) => Effect.isSuccess(line.search.get(id))

export const retentionLaws = (law: Law): void => {
  law("done jobs are purged after the default time unless their queue sets one, and dead ones stay", (line) =>
    Effect.gen(function* () {
      const done = yield* over(line, ends.done)
      const dead = yield* over(line, ends.dead)
      yield* line.advance("167 hours")
      yield* line.queue.purge(usual)
      expect(yield* stands(line, done)).toBe(true)
      yield* line.advance("2 hours")
      yield* line.queue.purge(usual)
      expect([yield* stands(line, done), yield* stands(line, dead)]).toEqual([false, true])
    })
  )

  law("a queue's own retention applies to its done and dead jobs, shorter or longer", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* line.queues.change(line.name, { retainDone: Duration.hours(1), retainDead: Duration.hours(200) })
      const done = yield* over(line, ends.done)
      const dead = yield* over(line, ends.dead)
      yield* line.advance("61 minutes")
      yield* line.queue.purge(usual)
      expect([yield* stands(line, done), yield* stands(line, dead)]).toEqual([false, true])
      yield* line.queues.change(line.name, { retainDone: Duration.hours(1_000) })
      const kept = yield* over(line, ends.done)
      yield* line.advance("201 hours")
      expect((yield* line.queue.purge(usual)).dead).toBeGreaterThanOrEqual(1)
      expect([yield* stands(line, kept), yield* stands(line, dead)]).toEqual([true, false])
    })
  )

  law("a job that reaches its age between two purges is deleted by the second", (line) =>
    Effect.gen(function* () {
      const first = yield* over(line, ends.done)
      yield* line.advance("1 hour")
      const second = yield* over(line, ends.done)
      yield* line.advance("167 hours")
      yield* line.advance("1 second")
      yield* line.queue.purge(usual)
      expect([yield* stands(line, first), yield* stands(line, second)]).toEqual([false, true])
      yield* line.advance("1 hour")
      yield* line.queue.purge(usual)
      expect(yield* stands(line, second)).toBe(false)
    })
  )

  law("a job that an undo restores after its age is deleted within a day", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* line.queues.change(line.name, { retainDone: Duration.minutes(10) })
      const id = yield* over(line, ends.done)
      const act = yield* line.newId
      yield* line.jobAdmin.recordingUndo(act).remove(id)
      yield* line.advance("20 minutes")
      yield* line.queue.purge(usual)
      yield* line.jobAdmin.undo(id, act)
      expect(yield* stands(line, id)).toBe(true)
      yield* line.advance("1 day")
      yield* line.queue.purge(usual)
      expect(yield* stands(line, id)).toBe(false)
    })
  )

  law("purges nothing when the fence refuses, and everything when it agrees", (line) =>
    Effect.gen(function* () {
      const old = yield* line.end(yield* line.run(), ends.done)
      yield* line.advance("30 days")
      expect(yield* Effect.flip(line.queue.purge(Duration.hours(1), Effect.fail("no")))).toBe("no")
      expect(yield* line.search.get(old.id)).toMatchObject({ state: "done" })
      yield* line.queue.purge(Duration.hours(1), Effect.void)
      expect(yield* Effect.flip(line.search.get(old.id))).toMatchObject({ _tag: "JobNotFound" })
    })
  )
}
