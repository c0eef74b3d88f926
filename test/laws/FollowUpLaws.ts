import { expect } from "@effect/vitest"
import { Effect, Either } from "effect"
import { computed, type DeadReason, type FollowUp } from "../../src/core/StoredJob.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { DeadPayload } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"

const afterQueue = (line: Line) => `${line.name}-after`

const onDead = (line: Line): FollowUp => ({
  kind: "mourn",
  version: 2,
  queue: afterQueue(line),
  payload: { of: "Ada" },
  attempts: 3
})

const followUps = (line: Line) => line.all(afterQueue(line))

export const followUpLaws = (law: Law): void => {
  law("is stored for a job that its worker declared dead, due now and without a follow-up itself", (line) =>
    Effect.gen(function* () {
      const reasons: ReadonlyArray<DeadReason> = ["exhausted", "rejected", "undecodable", "unknown_kind"]
      for (const reason of reasons) {
        const run = yield* line.run({ onDead: onDead(line) })
        yield* line.end(run, End.Dead({ reason, counted: true, error: "no" }))
      }
      const stored = yield* followUps(line)
      expect(stored).toHaveLength(reasons.length)
      expect(stored[0]).toMatchObject({ ...onDead(line), state: "pending", attempt: 0, onDead: undefined })
      expect(stored[0]).toMatchObject({ runAt: yield* line.now, createdAt: yield* line.now })
    })
  )

  law("has the error of the job in its meta, without the stack trace", (line) =>
    Effect.gen(function* () {
      const errors = ["two\nlines\n    at a (/app/a.ts:1:1)\n    at b", "no\nCaused by: Error: b\n    at b", "plain"]
      for (const error of errors) {
        const run = yield* line.run({ onDead: onDead(line) })
        yield* line.end(run, End.Dead({ reason: "rejected", counted: true, error }))
      }
      const stored = yield* followUps(line)
      const errorsOfFollowUps = stored.map(({ meta }) => (meta as { readonly error: string }).error)
      expect(errorsOfFollowUps.toSorted()).toEqual(["no", "plain", "two\nlines"])
    })
  )

  law("can be claimed and die without a further follow-up", (line) =>
    Effect.gen(function* () {
      yield* line.end(yield* line.run({ onDead: onDead(line) }), ends.dead)
      yield* line.advance("1 second")
      const [run] = yield* line.queue.claim({ queue: afterQueue(line), pod: line.pod, limit: 10 })
      expect(run).toMatchObject({ kind: "mourn", version: 2, payload: { of: "Ada" }, attempts: 3, attempt: 1 })
      if (run !== undefined) yield* line.end(run, ends.dead)
      expect(yield* followUps(line)).toMatchObject([{ state: "dead" }])
    })
  )

  law("is stored when the reaper declares a job poison", (line) =>
    Effect.gen(function* () {
      yield* line.put({ onDead: onDead(line) })
      for (let crash = 1; crash <= 5; crash += 1) {
        expect(yield* followUps(line)).toEqual([])
        yield* line.crash(yield* line.claimOne)
      }
      expect(yield* followUps(line)).toHaveLength(1)
    })
  )

  law("is stored for each death: a job that was requeued and died again has two", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run({ onDead: onDead(line) })
      yield* line.end(run, ends.dead)
      yield* line.end(run, ends.dead)
      expect(yield* followUps(line)).toHaveLength(1)
      yield* line.jobAdmin.requeue(run.id)
      yield* line.end(yield* line.claimOne, ends.dead)
      const stored = yield* followUps(line)
      expect(new Set(stored.map(({ id }) => id)).size).toBe(2)
    })
  )

  law("is not stored for a job that is done or retried", (line) =>
    Effect.gen(function* () {
      yield* line.end(yield* line.run({ onDead: onDead(line) }), ends.again(yield* line.now))
      yield* line.crash(yield* line.claimOne)
      yield* line.end(yield* line.claimOne, ends.done)
      expect(yield* followUps(line)).toEqual([])
    })
  )

  law("is not stored for a cancelled job, however it was cancelled", (line) =>
    Effect.gen(function* () {
      const job = { onDead: onDead(line) }
      yield* line.jobAdmin.cancel(yield* line.put(job))
      yield* line.end(yield* line.run(job), ends.cancelled)
      const flagged = yield* line.run(job)
      yield* line.jobAdmin.cancel(flagged.id)
      yield* line.end(flagged, ends.again(yield* line.now))
      const orphan = yield* line.run(job)
      yield* line.jobAdmin.cancel(orphan.id)
      const failing = yield* line.run(job)
      yield* line.jobAdmin.cancel(failing.id)
      yield* line.end(failing, End.Dead({ reason: "exhausted", counted: true, error: "no" }))
      yield* line.crash(orphan)
      expect((yield* line.all()).map(({ reason }) => reason)).toEqual(Array(5).fill("cancelled"))
      expect(yield* followUps(line)).toEqual([])
    })
  )

  law("is not stored for a zombie's finalize", (line) =>
    Effect.gen(function* () {
      const zombie = yield* line.run({ onDead: onDead(line) })
      yield* line.crash(zombie)
      yield* line.claimOne
      yield* line.end(zombie, ends.dead)
      expect(yield* followUps(line)).toEqual([])
    })
  )

  const compute = (line: Line) => (dead: DeadPayload) =>
    Either.right({ ...onDead(line), payload: { of: dead.payload, version: dead.version } })
  const make = (line: Line) => line.queue.makeFollowUps([line.name], compute(line))

  law("is the one that its pod computed at the death, if the kind computes it", (line) =>
    Effect.gen(function* () {
      const dead = (followUp: FollowUp) => End.Dead({ reason: "rejected", counted: true, error: "no", followUp })
      const run = yield* line.run({ kind: line.name, onDead: computed })
      const job = yield* line.end(run, dead({ ...onDead(line), payload: { of: "code" } }))
      expect(yield* followUps(line)).toMatchObject([{ payload: { of: "code" }, meta: { follows: job.id } }])
      yield* line.end(yield* line.run({ onDead: onDead(line) }), dead({ ...onDead(line), payload: { of: "code" } }))
      expect((yield* followUps(line)).map(({ payload }) => payload)).toContainEqual({ of: "Ada" })
      expect(yield* make(line)).toEqual({ made: 0, failed: [] })
    })
  )

  law("is made once by the next pod with the code, if the job died without it", (line) =>
    Effect.gen(function* () {
      const { id } = yield* line.end(
        yield* line.run({ kind: line.name, onDead: computed, payload: { n: 1 } }),
        ends.dead
      )
      expect(yield* line.search.get(id)).toMatchObject({ state: "dead", onDead: undefined })
      expect(yield* followUps(line)).toEqual([])
      expect(yield* line.queue.makeFollowUps(["another"], compute(line))).toEqual({ made: 0, failed: [] })
      // The death has its follow-up even if the job is requeued or deleted first.
      yield* line.jobAdmin.requeue(id)
      yield* line.jobAdmin.remove(id)
      yield* line.advance("1 minute")
      const made = yield* Effect.all([make(line), make(line)], { concurrency: "unbounded" })
      expect(made.map((each) => each.made).toSorted()).toEqual([0, 1])
      expect(yield* make(line)).toEqual({ made: 0, failed: [] })
      const now = yield* line.now
      expect(yield* followUps(line)).toMatchObject([
        { payload: { of: { n: 1 }, version: 1 }, runAt: now, meta: { follows: id, reason: "rejected" } }
      ])
    })
  )

  law("is made for poison, and not for a cancelled job", (line) =>
    Effect.gen(function* () {
      yield* line.put({ kind: line.name, onDead: computed })
      for (let crash = 1; crash <= 5; crash += 1) yield* line.crash(yield* line.claimOne)
      const cancelled = yield* line.run({ kind: line.name, onDead: computed })
      yield* line.jobAdmin.cancel(cancelled.id)
      yield* line.end(cancelled, ends.dead)
      yield* line.end(yield* line.run({ kind: line.name, onDead: computed }), ends.done)
      expect(yield* make(line)).toEqual({ made: 1, failed: [] })
      expect(yield* followUps(line)).toMatchObject([{ meta: { reason: "poison" } }])
    })
  )

  law("is due again an hour after the code failed to compute it", (line) =>
    Effect.gen(function* () {
      const { id } = yield* line.end(yield* line.run({ kind: line.name, onDead: computed }), ends.dead)
      const failing = line.queue.makeFollowUps([line.name], () => Either.left("no luck"))
      expect(yield* failing).toEqual({ made: 0, failed: [{ job: id, reason: "no luck" }] })
      yield* line.advance("59 minutes")
      expect(yield* make(line)).toEqual({ made: 0, failed: [] })
      yield* line.advance("1 minute")
      expect(yield* make(line)).toEqual({ made: 1, failed: [] })
    })
  )
}
