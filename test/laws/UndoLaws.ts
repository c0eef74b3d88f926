import { expect } from "@effect/vitest"
import { Duration, Effect, Option } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import type { StoredJob } from "../../src/core/StoredJob.js"
import type { Action, Operation } from "../../src/queue/admin/Operations.js"
import { ends, type Law, type Line } from "./Line.js"

const inAnHour = (line: Line) => Effect.map(line.now, (now) => now + 3_600_000)

/** A scheduled job that has failed once, with everything an action could lose. */
const retrying = (line: Line) =>
  Effect.gen(function* () {
    const run = yield* line.run({ payload: { n: 1 }, dedupe: { key: yield* line.newId, scope: "active" } })
    return yield* line.end(run, ends.again(yield* inAnHour(line), "first failure"))
  })

const exhausted = (line: Line) => Effect.flatMap(line.run({ attempts: 1 }), (run) => line.end(run, ends.dead))

type Single = "cancel" | "requeue" | "runNow" | "remove"

/** Runs an action that is kept, a second later. Returns the act. */
const keep = (line: Line, action: Single, { id }: StoredJob) =>
  Effect.gen(function* () {
    yield* line.advance("1 second")
    const act = yield* line.newId
    yield* line.jobAdmin.recordingUndo(act)[action](id)
    yield* line.advance("1 second")
    return act
  })

/** Time of the last change, which an undo moves. */
const untimed = ({ updatedAt: _, ...job }: StoredJob) => job

const finish = (line: Line, id: string): Effect.Effect<Operation, unknown> =>
  Effect.flatMap(line.operations.step(id), (went) =>
    Option.isSome(went) && went.value.status === "running" ? finish(line, id) : line.operations.get(id)
  )

const perform = (line: Line, action: Action, ids: ReadonlyArray<JobId>) =>
  Effect.flatMap(line.operations.begin({ action, who: "law", target: { ids } }), ({ id }) => finish(line, id))

const undone = (line: Line, id: string) =>
  Effect.flatMap(line.operations.undo(id, { who: "law" }), (begun) => finish(line, begun.id))

const stories: ReadonlyArray<
  readonly [action: Single, name: string, of: (line: Line) => Effect.Effect<StoredJob, unknown>]
> = [
  ["cancel", "a job that waits for a retry", retrying],
  ["runNow", "a job that waits for a retry", retrying],
  ["requeue", "a dead job", exhausted],
  ["remove", "a dead job", exhausted],
  ["remove", "a job that waits for a retry", retrying]
]

export const undoLaws = (law: Law): void => {
  for (const [action, name, of] of stories) {
    law(`undo restores ${name} exactly after ${action}`, (line) =>
      Effect.gen(function* () {
        const before = yield* of(line)
        const act = yield* keep(line, action, before)
        expect(yield* line.jobAdmin.undoable([act, yield* line.newId])).toEqual(new Set([act]))
        const restored = yield* line.jobAdmin.undo(before.id, act)
        expect(untimed(restored)).toEqual(untimed(before))
        expect(untimed(yield* line.search.get(before.id))).toEqual(untimed(before))
        expect(yield* line.jobAdmin.undoable([act])).toEqual(new Set())
        expect(yield* Effect.flip(line.jobAdmin.undo(before.id, act))).toMatchObject({ why: "forgotten" })
      })
    )
  }

  law("undo changes nothing if the job has changed since", (line) =>
    Effect.gen(function* () {
      const before = yield* exhausted(line)
      const act = yield* keep(line, "requeue", before)
      const run = yield* line.claimOne
      expect(yield* line.jobAdmin.undoable([act])).toEqual(new Set())
      expect(yield* Effect.flip(line.jobAdmin.undo(before.id, act))).toMatchObject({ why: "changed" })
      const done = yield* line.end(run, ends.done)
      expect(yield* line.jobAdmin.undoable([act])).toEqual(new Set())
      expect(yield* Effect.flip(line.jobAdmin.undo(before.id, act))).toMatchObject({ why: "changed" })
      expect(yield* line.search.get(before.id)).toEqual(done)
    })
  )

  law("undo of a delete is refused while another job holds the dedupe key", (line) =>
    Effect.gen(function* () {
      const before = yield* retrying(line)
      const act = yield* keep(line, "remove", before)
      const holder = yield* line.put(before.dedupe === undefined ? {} : { dedupe: before.dedupe })
      expect(yield* Effect.flip(line.jobAdmin.undo(before.id, act))).toMatchObject({ _tag: "DedupeKeyHeld", holder })
    })
  )

  law("undo of a cancel is refused while another job has taken the dedupe key whose window has ended", (line) =>
    Effect.gen(function* () {
      const dedupe = { key: yield* line.newId, scope: "retained", window: Duration.minutes(1) } as const
      const before = yield* line.search.get(yield* line.put({ dedupe, runAt: yield* inAnHour(line) }))
      const act = yield* keep(line, "cancel", before)
      yield* line.advance("1 minute")
      const holder = yield* line.put({ dedupe })
      expect(yield* Effect.flip(line.jobAdmin.undo(before.id, act))).toMatchObject({ _tag: "DedupeKeyHeld", holder })
      expect((yield* line.search.get(before.id)).state).toBe("cancelled")
      yield* line.jobAdmin.remove(holder)
      expect(untimed(yield* line.jobAdmin.undo(before.id, act))).toEqual(untimed(before))
      expect(yield* line.queue.enqueue([line.job({ dedupe })])).toMatchObject([
        { outcome: "deduplicated", id: before.id }
      ])
    })
  )

  law("nothing is kept of a running job, of an action that was not kept, or after its time", (line) =>
    Effect.gen(function* () {
      const { id } = yield* line.run()
      const running = yield* line.search.get(id)
      const act = yield* keep(line, "cancel", running)
      expect(yield* Effect.flip(line.jobAdmin.undo(id, act))).toMatchObject({ why: "forgotten" })
      const dead = yield* exhausted(line)
      yield* line.jobAdmin.requeue(dead.id)
      expect(yield* Effect.flip(line.jobAdmin.undo(dead.id, act))).toMatchObject({ why: "forgotten" })
      const kept = yield* keep(line, "cancel", yield* line.search.get(dead.id))
      yield* line.advance("2 hours")
      expect(yield* line.jobAdmin.pruneUndo(Duration.hours(1))).toBeGreaterThan(0)
      expect(yield* Effect.flip(line.jobAdmin.undo(dead.id, kept))).toMatchObject({ why: "forgotten" })
    })
  )

  for (const action of ["cancel", "delete"] as const) {
    law(`undo of an operation restores every job after ${action}, and skips those that changed`, (line) =>
      Effect.gen(function* () {
        const runAt = yield* inAnHour(line)
        const ids = yield* Effect.forEach([1, 2, 3], (n) => line.put({ payload: n, runAt }))
        const before = yield* line.all()
        yield* line.advance("1 second")
        const operation = yield* perform(line, action, ids)
        expect(operation).toMatchObject({ done: 3, undoable: true })
        yield* line.advance("1 second")
        const again = yield* undone(line, operation.id)
        expect(again).toMatchObject({ action: "undo", undoes: operation.id, done: 3, skipped: {}, undoable: false })
        expect((yield* line.all()).map(untimed)).toEqual(before.map(untimed))
        expect(yield* Effect.flip(undone(line, operation.id))).toMatchObject({ why: "undone" })
      })
    )
  }

  law("undo of an operation skips jobs that changed since, and waits for its end", (line) =>
    Effect.gen(function* () {
      const ids = [(yield* exhausted(line)).id, (yield* exhausted(line)).id]
      yield* line.advance("1 second")
      const { id } = yield* line.operations.begin({ action: "requeue", who: "law", target: { ids } })
      expect(yield* Effect.flip(line.operations.undo(id, { who: "law" }))).toMatchObject({ why: "running" })
      yield* finish(line, id)
      yield* line.claim(1)
      expect(yield* undone(line, id)).toMatchObject({ done: 1, skipped: { changed: 1 } })
      expect((yield* line.all()).map(({ state }) => state).sort()).toEqual(["dead", "running"])
    })
  )
}
