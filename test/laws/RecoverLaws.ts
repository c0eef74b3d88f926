import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { PodId } from "../../src/core/Ids.js"
import { setBy } from "../support/SetClock.js"
import { waiting } from "../support/States.js"
import { ends, type Law, type Line } from "./Line.js"

/** Recovers jobs that other laws left running, so that this law's counts are exact. */
const alone = (line: Line) => Effect.zipRight(line.advance("1 second"), line.queue.recoverStuck(Duration.zero))

/** Watches running jobs for this long, then recovers silent ones. */
const watchFor = (line: Line, time: Duration.DurationInput) =>
  line.queue
    .recoverStuck(stuckFor)
    .pipe(Effect.zipRight(line.advance(time)), Effect.zipRight(line.queue.recoverStuck(stuckFor)))

const stuckFor = Duration.minutes(30)

export const recoverLaws = (law: Law): void => {
  law("a heartbeat keeps a job from being recovered", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      yield* watchFor(line, "25 minutes")
      expect(yield* line.queue.heartbeat([run])).toEqual({ lost: [], cancelRequested: [] })
      expect(yield* line.search.get(run.id)).toMatchObject({ heartbeatAt: yield* line.now })
      yield* line.advance("25 minutes")
      yield* line.queue.recoverStuck(stuckFor)
      expect(yield* line.search.get(run.id)).toMatchObject({ state: "running", crashCount: 0 })
    })
  )

  law("a heartbeat returns lost jobs and cancel requests", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue([1, 2, 3, 4].map((payload) => line.job({ payload })))
      const [kept, asked, over, released] = yield* line.claim()
      if (!kept || !asked || !over || !released) return yield* Effect.dieMessage("four were stored")
      yield* line.jobAdmin.cancel(asked.id)
      yield* line.end(over, ends.done)
      yield* line.end(released, ends.release(yield* line.now))
      const newer = yield* line.claimOne
      const unknown = { id: yield* line.newId, lease: kept.lease }
      const pulse = yield* line.queue.heartbeat([kept, asked, over, released, unknown])
      expect(new Set(pulse.lost.map(({ id }) => id))).toEqual(new Set([over.id, released.id, unknown.id]))
      expect(pulse.cancelRequested.map(({ id }) => id)).toEqual([asked.id])
      yield* line.advance("1 minute")
      const before = yield* line.search.get(newer.id)
      yield* line.queue.heartbeat([released])
      expect(yield* line.search.get(newer.id)).toEqual(before)
      expect(yield* line.queue.heartbeat([])).toEqual({ lost: [], cancelRequested: [] })
    })
  )

  law("a heartbeat distinguishes a lost run from a newer run of the same job on the same pod", (line) =>
    Effect.gen(function* () {
      const older = yield* line.run()
      yield* line.end(older, ends.release(yield* line.now))
      const newer = yield* line.claimOne
      expect(newer.id).toBe(older.id)
      const pulse = yield* line.queue.heartbeat([older, newer])
      expect(pulse.lost.map(({ lease }) => lease)).toEqual([older.lease])
    })
  )

  law("recovers jobs that are silent for too long: due at once, attempt returned, crash counted", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const run = yield* line.run()
      expect(yield* watchFor(line, "31 minutes")).toEqual({ rescued: 1, poisoned: 0, cancelled: 0 })
      const now = yield* line.now
      const job = yield* line.search.get(run.id)
      expect(job).toMatchObject({ state: "retrying", attempt: 0, crashCount: 1, updatedAt: now })
      expect(job).toMatchObject({ pod: undefined, heartbeatAt: undefined, finishedAt: undefined })
      expect(job.runAt).toBeLessThanOrEqual(now)
      expect(job.history).toMatchObject([{ attempt: 1, pod: line.pod, startedAt: run.startedAt, endedAt: now }])
      expect(yield* line.claimOne).toMatchObject({ id: run.id, attempt: 1, crashCount: 1 })
    })
  )

  law("recovers nothing before it has watched for the whole limit, however old the last heartbeat is", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const run = yield* line.run()
      yield* line.advance("1 day")
      yield* line.queue.recoverStuck(stuckFor)
      yield* line.advance("29 minutes")
      yield* line.queue.recoverStuck(stuckFor)
      expect(yield* line.search.get(run.id)).toMatchObject({ state: "running", crashCount: 0 })
      yield* line.advance("1 minute")
      expect(yield* line.queue.recoverStuck(stuckFor)).toMatchObject({ rescued: 1 })
    })
  )

  for (const [how, millis] of [
    ["back", -300_000],
    ["forward", 300_000]
  ] as const) {
    law(`a process whose clock was set ${how} by minutes keeps live jobs and recovers lost ones`, (line) =>
      Effect.gen(function* () {
        yield* alone(line)
        const limit = Duration.minutes(1)
        const elsewhere = yield* setBy(millis)
        const [living, lost] = [yield* line.run(), yield* line.run()]
        for (let seconds = 0; seconds < 60; seconds += 15) {
          yield* line.queue.heartbeat([living])
          expect(yield* elsewhere(line.queue.recoverStuck(limit))).toMatchObject({ rescued: 0, poisoned: 0 })
          yield* line.advance("15 seconds")
        }
        yield* line.queue.heartbeat([living])
        expect(yield* elsewhere(line.queue.recoverStuck(limit))).toMatchObject({ rescued: 1 })
        expect(yield* line.search.get(living.id)).toMatchObject({ state: "running", crashCount: 0 })
        expect(yield* line.search.get(lost.id)).toMatchObject({ state: waiting, crashCount: 1 })
      })
    )
  }

  law("recovers a job without heartbeats beside a live one under the same lease", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      yield* line.put()
      yield* line.put()
      const [living, forgotten] = yield* line.claim()
      if (living === undefined || forgotten === undefined) return yield* Effect.dieMessage("two were stored")
      for (const minutes of [0, 15, 30]) {
        yield* line.queue.heartbeat([living])
        yield* line.queue.recoverStuck(stuckFor)
        if (minutes < 30) yield* line.advance("15 minutes")
      }
      expect(yield* line.search.get(living.id)).toMatchObject({ state: "running", crashCount: 0 })
      expect(yield* line.search.get(forgotten.id)).toMatchObject({ state: waiting, crashCount: 1 })
    })
  )

  law("ignores running jobs with a heartbeat, and jobs that do not run", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const done = yield* line.end(yield* line.run(), ends.done)
      const dead = yield* line.end(yield* line.run(), ends.dead)
      yield* line.advance("1 hour")
      const pending = yield* line.put({ priority: 1 })
      const fresh = yield* Effect.flatMap(line.put(), (id) => Effect.map(line.claim(1), () => id))
      const before = yield* line.all()
      expect(yield* watchFor(line, "20 minutes")).toEqual({ rescued: 0, poisoned: 0, cancelled: 0 })
      expect(yield* line.all()).toEqual(before)
      expect(before.map(({ id, state }) => [id, state])).toEqual([
        [fresh, "running"],
        [pending, "pending"],
        [dead.id, "dead"],
        [done.id, "done"]
      ])
    })
  )

  law("recovers all jobs of pods that have ended, however recent their heartbeats, and no others", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const kept = yield* line.run()
      const pod = PodId.make(yield* line.newId)
      const orphans = [yield* line.put(), yield* line.put()]
      const runs = yield* line.queue.claim({ queue: line.name, pod, limit: 10 })
      expect(runs.map(({ id }) => id).sort()).toEqual([...orphans].sort())
      yield* line.queue.heartbeat(runs)
      expect(yield* line.queue.recoverOrphaned([])).toEqual({ rescued: 0, poisoned: 0, cancelled: 0, left: [] })
      expect(yield* line.queue.recoverOrphaned([pod])).toEqual({ rescued: 2, poisoned: 0, cancelled: 0, left: [] })
      for (const id of orphans) {
        expect(yield* line.search.get(id)).toMatchObject({
          state: waiting,
          attempt: 0,
          crashCount: 1,
          lastError: `process ${pod} ended while this job ran (crash 1 of 5)`
        })
      }
      expect(yield* line.search.get(kept.id)).toMatchObject({ state: "running", crashCount: 0 })
      // A process that was declared dead and lives cannot finish them.
      expect(yield* line.queue.finalize(runs.map(({ id, lease }) => ({ id, lease, end: ends.done })))).toHaveLength(2)
      expect((yield* line.queue.heartbeat(runs)).lost).toHaveLength(2)
      expect(yield* line.queue.recoverOrphaned([pod])).toMatchObject({ rescued: 0, poisoned: 0, cancelled: 0 })
      // A job that has crashed is claimed alone.
      const again = [yield* line.claimOne, yield* line.claimOne]
      expect(again.map(({ id }) => id).sort()).toEqual([...orphans].sort())
    })
  )

  law("a pod that has sent a heartbeat since it was removed keeps its jobs", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const run = yield* line.run()
      const facts = {
        id: line.pod,
        label: undefined,
        version: "1",
        queues: [line.name],
        kinds: [],
        releases: {},
        host: { name: "here", pid: 1, node: "v20" },
        startedAt: yield* line.now
      }
      yield* line.pods.beat(facts, { slots: [], draining: false }, Duration.seconds(15))
      expect(yield* line.queue.recoverOrphaned([line.pod])).toEqual({
        rescued: 0,
        poisoned: 0,
        cancelled: 0,
        left: []
      })
      expect(yield* line.search.get(run.id)).toMatchObject({ state: "running", crashCount: 0 })
      yield* line.pods.leave(line.pod)
      expect(yield* line.queue.recoverOrphaned([line.pod])).toMatchObject({ rescued: 1 })
    })
  )

  law("declares a job poison at its fifth crash", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const id = yield* line.put()
      for (let crash = 1; crash <= 4; crash += 1) {
        expect(yield* line.crash(yield* line.claimOne)).toMatchObject({
          state: waiting,
          crashCount: crash,
          lastError: `process ${line.pod} ended while this job ran (crash ${crash} of 5)`
        })
      }
      yield* line.claimOne
      expect(yield* watchFor(line, "31 minutes")).toEqual({ rescued: 0, poisoned: 1, cancelled: 0 })
      const job = yield* line.search.get(id)
      expect(job).toMatchObject({ state: "dead", reason: "poison", crashCount: 5, attempt: 0, pod: undefined })
      expect(job.lastError).toBe(`process ${line.pod} ended while this job ran (crash 5 of 5)`)
      expect(job.finishedAt).toBe(yield* line.now)
      expect(job.history).toHaveLength(5)
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("a cancelled job whose owner died does not run again", (line) =>
    Effect.gen(function* () {
      yield* alone(line)
      const run = yield* line.run()
      yield* line.jobAdmin.cancel(run.id)
      expect(yield* watchFor(line, "31 minutes")).toEqual({ rescued: 0, poisoned: 0, cancelled: 1 })
      const job = yield* line.search.get(run.id)
      expect(job).toMatchObject({ state: "cancelled", reason: "cancelled", attempt: 0, finishedAt: yield* line.now })
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("purges jobs done long ago, and keeps recent, dead and unfinished ones", (line) =>
    Effect.gen(function* () {
      yield* line.queue.purge(Duration.zero)
      yield* line.end(yield* line.run(), ends.done)
      yield* line.end(yield* line.run(), ends.done)
      const dead = yield* line.end(yield* line.run(), ends.dead)
      const late = yield* line.run()
      yield* line.advance("8 days")
      yield* line.end(late, ends.done)
      const pending = yield* line.put()
      yield* line.advance("1 second")
      expect((yield* line.queue.purge(Duration.days(7))).done).toBe(2)
      expect((yield* line.all()).map(({ id }) => id).sort()).toEqual([dead.id, late.id, pending].sort())
      expect((yield* line.queue.purge(Duration.days(7))).done).toBe(0)
    })
  )

  law("progress is stored with the job, and fenced by the lease", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      expect(yield* line.queue.progress(run, '{"percent":40}')).toBe(true)
      expect(yield* line.search.get(run.id)).toMatchObject({ progress: { percent: 40 }, state: "running" })
      expect(yield* line.queue.progress(run, "null")).toBe(true)
      expect(yield* line.search.get(run.id)).toMatchObject({ progress: null })
      expect(yield* line.queue.progress(run, '{"percent":40}')).toBe(true)
      yield* line.crash(run)
      expect(yield* line.queue.progress(run, '{"percent":50}')).toBe(false)
      yield* line.claimOne
      expect(yield* line.queue.progress(run, '{"percent":60}')).toBe(false)
      expect(yield* line.search.get(run.id)).toMatchObject({ progress: { percent: 40 } })
    })
  )

  law("returns when the earliest pending job of each queue is due", (line) =>
    Effect.gen(function* () {
      const now = yield* line.now
      const [other, empty] = [`${line.name}-other`, `${line.name}-empty`]
      yield* line.put({ runAt: now + 9_000 })
      yield* line.put({ runAt: now + 5_000, priority: 9 })
      yield* line.put({ queue: other, runAt: now - 4_000 })
      yield* line.put({ queue: `${line.name}-unasked` })
      expect(yield* line.queue.nextDue([line.name, other, empty])).toEqual(
        new Map([
          [line.name, now + 5_000],
          [other, now - 4_000]
        ])
      )
      yield* line.advance("5 seconds")
      const [run] = yield* line.claim()
      expect(yield* line.queue.nextDue([line.name])).toEqual(new Map([[line.name, now + 9_000]]))
      if (run !== undefined) yield* line.end(run, ends.again(now + 7_000))
      expect(yield* line.queue.nextDue([line.name])).toEqual(new Map([[line.name, now + 7_000]]))
      expect(yield* line.queue.nextDue([])).toEqual(new Map())
    })
  )

  law("names every queue with pending jobs once", (line) =>
    Effect.gen(function* () {
      const named = Effect.map(line.queue.pendingQueues, (all) => all.filter((name) => name.startsWith(line.name)))
      const [later, busy] = [`${line.name}-later`, `${line.name}-busy`]
      yield* line.put()
      yield* line.put({ priority: -5 })
      yield* line.put({ queue: later, runAt: (yield* line.now) + 60_000 })
      yield* line.put({ queue: busy })
      expect(yield* named).toEqual([line.name, busy, later])
      yield* line.queue.claim({ queue: busy, pod: line.pod, limit: 10 })
      expect(yield* named).toEqual([line.name, later])
    })
  )
}
