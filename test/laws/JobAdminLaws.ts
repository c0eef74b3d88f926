import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import type { State, StoredJob } from "../../src/core/StoredJob.js"
import { waiting } from "../support/States.js"
import { ends, type Law, type Line } from "./Line.js"

/** Creates a job in each state. */
const makers: Readonly<Record<State, (line: Line) => Effect.Effect<string, unknown>>> = {
  scheduled: (line) => Effect.flatMap(line.now, (now) => line.put({ runAt: now + 3_600_000 })),
  retrying: (line) =>
    Effect.gen(function* () {
      const job = yield* line.end(yield* line.run(), ends.again((yield* line.now) + 3_600_000))
      return job.id
    }),
  pending: (line) => line.put(),
  running: (line) => Effect.map(line.run(), ({ id }) => id),
  done: (line) => Effect.flatMap(line.run(), (run) => Effect.map(line.end(run, ends.done), ({ id }) => id)),
  dead: (line) => Effect.flatMap(line.run(), (run) => Effect.map(line.end(run, ends.dead), ({ id }) => id)),
  cancelled: (line) => Effect.tap(line.put(), (id) => line.jobAdmin.cancel(id))
}

type Act = "cancel" | "requeue" | "runNow" | "edit" | "remove"

const refused: ReadonlyArray<readonly [Act, ReadonlyArray<State>]> = [
  ["cancel", ["done"]],
  ["requeue", ["scheduled", "retrying", "pending", "running"]],
  ["runNow", ["running", "done", "dead", "cancelled"]],
  ["edit", ["running", "done", "dead", "cancelled"]],
  ["remove", ["running"]]
]

const perform = (line: Line, act: Act, id: JobId): Effect.Effect<StoredJob, unknown> =>
  act === "edit" ? line.jobAdmin.edit(id, { priority: 3 }) : line.jobAdmin[act](id)

const inState = (line: Line, state: State) =>
  Effect.gen(function* () {
    const id = yield* makers[state](line)
    const jobs = yield* line.all()
    const job = jobs.find((each) => each.id === id)
    return job === undefined || job.state !== state ? yield* Effect.dieMessage(`not ${state}`) : job
  })

export const jobAdminLaws = (law: Law): void => {
  for (const [act, states] of refused) {
    for (const state of states) {
      law(`${act} is refused for a job that is ${state}, and changes nothing`, (line) =>
        Effect.gen(function* () {
          const job = yield* inState(line, state)
          yield* line.advance("1 second")
          const refusal = yield* Effect.flip(perform(line, act, job.id))
          expect(refusal).toMatchObject({ _tag: "JobNotInState", id: job.id, state })
          expect(yield* line.search.get(job.id)).toEqual(job)
        })
      )
    }
    law(`${act} is refused for an unknown job`, (line) =>
      Effect.gen(function* () {
        const id = yield* line.newId
        expect(yield* Effect.flip(perform(line, act, id))).toMatchObject({ _tag: "JobNotFound", id })
      })
    )
  }

  for (const state of ["scheduled", "retrying", "pending"] as const) {
    law(`cancel ends a job that is ${state} at once`, (line) =>
      Effect.gen(function* () {
        const job = yield* inState(line, state)
        yield* line.advance("1 second")
        const now = yield* line.now
        const cancelled = yield* line.jobAdmin.cancel(job.id)
        expect(cancelled).toMatchObject({ state: "cancelled", reason: "cancelled", finishedAt: now, updatedAt: now })
        expect(cancelled.history).toEqual(job.history)
        expect(yield* line.search.get(job.id)).toEqual(cancelled)
        yield* line.advance("2 hours")
        expect(yield* line.claim()).toEqual([])
      })
    )

    law(`runNow makes a job that is ${state} due`, (line) =>
      Effect.gen(function* () {
        const job = yield* inState(line, state)
        const due = yield* line.jobAdmin.runNow(job.id)
        expect(due).toMatchObject({ state: waiting, attempt: job.attempt, lastError: job.lastError })
        expect(due.runAt).toBeLessThanOrEqual(yield* line.now)
        expect(yield* line.claimOne).toMatchObject({ id: job.id })
      })
    )

    law(`edit changes payload, priority and start time of a job that is ${state}`, (line) =>
      Effect.gen(function* () {
        const job = yield* inState(line, state)
        yield* line.advance("1 second")
        const runAt = (yield* line.now) + 5_000
        const edited = yield* line.jobAdmin.edit(job.id, { payload: [1], priority: -2, runAt })
        expect(edited).toMatchObject({ payload: [1], priority: -2, runAt, updatedAt: yield* line.now })
        expect(yield* line.search.get(job.id)).toEqual(edited)
        yield* line.advance("5 seconds")
        expect(yield* line.claimOne).toMatchObject({ id: job.id, payload: [1] })
      })
    )
  }

  law("edit keeps the fields it does not name", (line) =>
    Effect.gen(function* () {
      const job = yield* inState(line, "scheduled")
      const { updatedAt: _, ...unchanged } = job
      const { priority } = yield* line.jobAdmin.edit(job.id, { priority: 4 })
      const edited = yield* line.jobAdmin.edit(job.id, { payload: null })
      expect(edited).toMatchObject({ ...unchanged, priority, payload: null })
      expect(priority).toBe(4)
      expect((yield* line.jobAdmin.edit(job.id, {})).payload).toBe(null)
    })
  )

  law("edit refuses what enqueue would refuse, and changes nothing", (line) =>
    Effect.gen(function* () {
      const job = yield* inState(line, "pending")
      const edits = { payload: { payload: "\u0000" }, priority: { priority: 40_000 }, runAt: { runAt: -1 } }
      for (const [field, edit] of Object.entries(edits)) {
        expect(yield* Effect.flip(line.jobAdmin.edit(job.id, edit))).toMatchObject({ _tag: "InvalidJob", field })
      }
      expect(yield* line.search.get(job.id)).toEqual(job)
    })
  )

  law("cancel flags a running job once, and leaves it to its pod", (line) =>
    Effect.gen(function* () {
      const job = yield* inState(line, "running")
      const now = yield* line.now
      expect(yield* line.jobAdmin.cancel(job.id)).toMatchObject({ state: "running", cancelRequestedAt: now })
      yield* line.advance("1 second")
      expect(yield* line.jobAdmin.cancel(job.id)).toMatchObject({ state: "running", cancelRequestedAt: now })
    })
  )

  law("cancel does not change a dead job", (line) =>
    Effect.gen(function* () {
      const job = yield* inState(line, "dead")
      yield* line.advance("1 second")
      expect(yield* line.jobAdmin.cancel(job.id)).toEqual(job)
      expect(yield* line.search.get(job.id)).toEqual(job)
    })
  )

  for (const state of ["scheduled", "retrying", "pending", "done", "dead"] as const) {
    law(`remove deletes a job that is ${state}, and returns it`, (line) =>
      Effect.gen(function* () {
        const job = yield* inState(line, state)
        expect(yield* line.jobAdmin.remove(job.id)).toEqual(job)
        expect(yield* Effect.flip(line.search.get(job.id))).toMatchObject({ _tag: "JobNotFound", id: job.id })
        yield* line.advance("2 hours")
        expect(yield* line.claim()).toEqual([])
      })
    )
  }

  law("requeue resets a dead job, due now, and keeps its history", (line) =>
    Effect.gen(function* () {
      yield* line.crash(yield* line.run())
      const dead = yield* line.end(yield* line.claimOne, ends.dead)
      yield* line.advance("1 hour")
      const now = yield* line.now
      const job = yield* line.jobAdmin.requeue(dead.id)
      expect(job).toMatchObject({ state: "pending", runAt: now, attempt: 0, crashCount: 0 })
      expect(job).toMatchObject({ finishedAt: undefined, reason: undefined, lastError: undefined, updatedAt: now })
      expect(job.history).toEqual(dead.history)
      expect(yield* line.search.get(dead.id)).toEqual(job)
      expect(yield* line.claimOne).toMatchObject({ id: dead.id, attempt: 1, crashCount: 0 })
    })
  )

  law("requeue runs a done job once more", (line) =>
    Effect.gen(function* () {
      const done = yield* inState(line, "done")
      expect(yield* line.jobAdmin.requeue(done.id)).toMatchObject({ state: waiting, result: undefined })
      expect(yield* line.claimOne).toMatchObject({ id: done.id })
    })
  )

  law("requeue of a cancelled job clears the cancel request", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      yield* line.jobAdmin.cancel(run.id)
      yield* line.end(run, ends.again(yield* line.now))
      expect(yield* line.jobAdmin.requeue(run.id)).toMatchObject({ state: waiting, cancelRequestedAt: undefined })
      const again = yield* line.claimOne
      expect(yield* line.end(again, ends.again(yield* line.now))).toMatchObject({ state: waiting })
    })
  )

  for (const scope of ["active", "retained"] as const) {
    law(`requeue is refused while another job holds the key, with scope ${scope}`, (line) =>
      Effect.gen(function* () {
        const key = `${line.name}:k`
        const first = yield* line.end(yield* line.run({ dedupe: { key, scope: "active" } }), ends.dead)
        const holder = yield* line.put({ dedupe: { key, scope } })
        const refusal = yield* Effect.flip(line.jobAdmin.requeue(first.id))
        expect(refusal).toMatchObject({ _tag: "DedupeKeyHeld", id: first.id, holder })
        expect(yield* line.search.get(first.id)).toEqual(first)
        yield* line.end(yield* line.claimOne, ends.done)
        if (scope === "retained") {
          expect(yield* Effect.flip(line.jobAdmin.requeue(first.id))).toMatchObject({ _tag: "DedupeKeyHeld", holder })
          yield* line.jobAdmin.remove(holder)
        }
        expect(yield* line.jobAdmin.requeue(first.id)).toMatchObject({ state: waiting })
      })
    )
  }

  law("requeue of the job that holds a retained key itself is not a conflict", (line) =>
    Effect.gen(function* () {
      const dedupe = { key: `${line.name}:k`, scope: "retained" } as const
      const done = yield* line.end(yield* line.run({ dedupe }), ends.done)
      expect(yield* line.jobAdmin.requeue(done.id)).toMatchObject({ state: waiting, dedupe })
    })
  )
}
