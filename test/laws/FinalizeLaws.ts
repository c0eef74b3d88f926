import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { limits } from "../../src/core/StoredJob.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { waiting } from "../support/States.js"
import { ends, type Law } from "./Line.js"

/** Columns that are cleared when a run ends in anything but success. */
const free = { pod: undefined, heartbeatAt: undefined }

export const finalizeLaws = (law: Law): void => {
  law("done: stores its result, and clears the error of an earlier attempt", (line) =>
    Effect.gen(function* () {
      yield* line.end(yield* line.run(), ends.again(yield* line.now))
      const run = yield* line.claimOne
      yield* line.advance("5 seconds")
      const job = yield* line.end(run, End.Done({ result: '{"sent":[1,null]}' }))
      const now = yield* line.now
      expect(job).toMatchObject({
        heartbeatAt: undefined,
        state: "done",
        attempt: 2,
        result: { sent: [1, null] }
      })
      expect(job).toMatchObject({ lastError: undefined, finishedAt: now, updatedAt: now, reason: undefined })
      expect(job.history).toHaveLength(1)
    })
  )

  law("dead: its history entry may use another word than its reason", (line) =>
    Effect.gen(function* () {
      const usual = yield* line.end(yield* line.run(), ends.cancelled)
      expect(usual).toMatchObject({ reason: "cancelled", history: [{ outcome: "cancelled" }] })
      const job = yield* line.end(
        yield* line.run(),
        End.Dead({ reason: "cancelled", counted: true, error: undefined, remember: "abandoned" })
      )
      expect(job).toMatchObject({ state: "cancelled", reason: "cancelled", history: [{ outcome: "abandoned" }] })
    })
  )

  for (const [name, result] of [
    ["without a result", undefined],
    ["with a result", "{}"]
  ] as const) {
    law(`done ${name}: the history says that a cancel was requested too late`, (line) =>
      Effect.gen(function* () {
        const run = yield* line.run()
        yield* line.jobAdmin.cancel(run.id)
        yield* line.advance("5 seconds")
        const job = yield* line.end(run, End.Done({ result }))
        expect(job).toMatchObject({ state: "done", reason: undefined, lastError: undefined })
        expect(job.history).toEqual([
          {
            attempt: 1,
            pod: line.pod,
            startedAt: run.startedAt,
            endedAt: yield* line.now,
            outcome: "done",
            message: "a cancel was requested too late: the handler succeeded"
          }
        ])
      })
    )
  }

  law("done: a later cancel changes nothing", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      const job = yield* line.end(run, ends.done)
      expect(yield* Effect.flip(line.jobAdmin.cancel(run.id))).toMatchObject({ _tag: "JobNotInState", state: "done" })
      expect(yield* line.search.get(run.id)).toEqual(job)
    })
  )

  law("done: works without a result, which is not the result null", (line) =>
    Effect.gen(function* () {
      expect((yield* line.end(yield* line.run(), End.Done({ result: "null" }))).result).toBeNull()
      const job = yield* line.end(yield* line.run(), ends.done)
      expect(job).toMatchObject({ state: "done", result: undefined, history: [] })
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("again: pending at the given time, with the error and a history entry", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      yield* line.advance("3 seconds")
      const now = yield* line.now
      const runAt = now + 30_000
      const job = yield* line.end(run, End.Again({ runAt, counted: true, error: "no route", remember: "failed" }))
      expect(job).toMatchObject({ ...free, state: "retrying", runAt, attempt: 1 })
      expect(job).toMatchObject({ lastError: "no route", finishedAt: undefined, updatedAt: now })
      expect(job.history).toEqual([
        {
          attempt: 1,
          pod: line.pod,
          startedAt: run.startedAt,
          endedAt: now,
          outcome: "failed",
          message: "no route"
        }
      ])
      expect(yield* line.claim()).toEqual([])
      yield* line.advance("30 seconds")
      expect(yield* line.claimOne).toMatchObject({ id: run.id, attempt: 2 })
    })
  )

  law("again, not counted: the attempt is returned", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      const job = yield* line.end(run, ends.release(yield* line.now))
      expect(job).toMatchObject({ state: "pending", attempt: 0, lastError: undefined, history: [] })
      expect(yield* line.claimOne).toMatchObject({ id: run.id, attempt: 1 })
    })
  )

  law("again, without an error: keeps the last error", (line) =>
    Effect.gen(function* () {
      yield* line.end(yield* line.run(), ends.again(yield* line.now, "first"))
      const job = yield* line.end(yield* line.claimOne, ends.release(yield* line.now))
      expect(job).toMatchObject({ state: "retrying", lastError: "first", attempt: 1 })
    })
  )

  law("dead: stores its reason and error, and does not run again", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      const job = yield* line.end(run, End.Dead({ reason: "exhausted", counted: true, error: "fifth time" }))
      const now = yield* line.now
      expect(job).toMatchObject({ ...free, state: "dead", reason: "exhausted", attempt: 1 })
      expect(job).toMatchObject({ lastError: "fifth time", finishedAt: now, updatedAt: now })
      expect(job.history).toMatchObject([{ attempt: 1, pod: line.pod, outcome: "exhausted", message: "fifth time" }])
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("dead, not counted: the attempt is returned", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      const job = yield* line.end(run, End.Dead({ reason: "undecodable", counted: false, error: "not a receipt" }))
      expect(job).toMatchObject({ state: "dead", reason: "undecodable", attempt: 0 })
    })
  )

  law("truncates a long error", (line) =>
    Effect.gen(function* () {
      const text = `beginning${"x".repeat(5_000)}`
      const again = yield* line.end(yield* line.run(), ends.again(yield* line.now, text))
      expect(again.lastError).toBe(text.slice(0, limits.errorCharacters))
      expect(again.history[0]?.message?.length).toBeLessThanOrEqual(limits.errorCharacters)
      const dead = yield* line.end(yield* line.claimOne, End.Dead({ reason: "rejected", counted: true, error: text }))
      expect(dead.lastError).toBe(text.slice(0, limits.errorCharacters))
    })
  )

  law("ends a run whatever characters its error contains", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue([line.job(), line.job(), line.job()])
      const runs = yield* line.claim()
      const now = yield* line.now
      const errors = ["a\u0000b", "a\ud83d", `${"x".repeat(limits.errorCharacters - 1)}😀`]
      yield* line.queue.finalize(
        runs.map(({ id, lease }, index) => ({ id, lease, end: ends.again(now, errors[index] ?? "") }))
      )
      const jobs = yield* line.all()
      expect(jobs.map(({ state }) => state)).toEqual(["retrying", "retrying", "retrying"])
      expect(jobs.toReversed().map(({ lastError }) => lastError?.[0])).toEqual(["a", "a", "x"])
    })
  )

  law("keeps the latest entries of a long history", (line) =>
    Effect.gen(function* () {
      yield* line.put({ attempts: 100 })
      const rounds = limits.historyEntries + 3
      for (let round = 1; round <= rounds; round += 1) {
        yield* line.end(yield* line.claimOne, ends.again(yield* line.now, `failure ${round}`))
      }
      const [job] = yield* line.all()
      expect(job?.history).toHaveLength(limits.historyEntries)
      expect(job?.history[0]).toMatchObject({ attempt: 4, message: "failure 4" })
      expect(job?.history.at(-1)).toMatchObject({ attempt: rounds, message: `failure ${rounds}` })
    })
  )

  law("ends many runs with different outcomes at once, and returns those that had moved on", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue([1, 2, 3, 4, 5].map((payload) => line.job({ payload })))
      const [done, told, again, dead, lost] = yield* line.claim()
      if (!done || !told || !again || !dead || !lost) return yield* Effect.dieMessage("five were stored")
      yield* line.end(lost, ends.done)
      yield* line.advance("1 second")
      const now = yield* line.now
      const movedOn = yield* line.queue.finalize([
        { id: done.id, lease: done.lease, end: ends.done },
        { id: lost.id, lease: lost.lease, end: ends.dead },
        { id: told.id, lease: told.lease, end: End.Done({ result: '"told"' }) },
        { id: again.id, lease: again.lease, end: ends.again(now) },
        { id: dead.id, lease: dead.lease, end: ends.dead }
      ])
      expect(movedOn).toEqual([lost.id])
      const jobs = yield* line.all()
      expect(jobs.toReversed().map(({ payload, result, state }) => [payload, state, result])).toEqual([
        [1, "done", undefined],
        [2, "done", "told"],
        [3, "retrying", undefined],
        [4, "dead", undefined],
        [5, "done", undefined]
      ])
    })
  )

  const zombieEnds = [ends.done, End.Done({ result: "1" }), ends.again(0), ends.release(0), ends.dead, ends.cancelled]

  law("a zombie's finalize changes nothing after its job was recovered and claimed again by the same process", (line) =>
    Effect.gen(function* () {
      const zombie = yield* line.run()
      yield* line.crash(zombie)
      const newer = yield* line.claimOne
      const before = yield* line.search.get(newer.id)
      for (const end of zombieEnds) {
        yield* line.advance("1 second")
        expect(yield* line.queue.finalize([{ id: zombie.id, lease: zombie.lease, end }])).toEqual([zombie.id])
        expect(yield* line.search.get(newer.id)).toEqual(before)
      }
      expect(yield* line.end(newer, ends.done)).toMatchObject({ state: "done" })
    })
  )

  law("of two ends of a job in one batch, only the one with the valid lease is written and counted", (line) =>
    Effect.gen(function* () {
      for (const end of [...zombieEnds, ends.done]) {
        for (const order of ["zombie first", "zombie last"]) {
          const zombie = yield* line.run()
          yield* line.crash(zombie)
          const newer = yield* line.claimOne
          const heard: Array<string> = []
          const batch = [
            { ...zombie, end, written: () => void heard.push("zombie") },
            { ...newer, end: ends.done, written: (became: string) => void heard.push(became) }
          ]
          if (order === "zombie last") batch.reverse()
          expect(yield* line.queue.finalize(batch)).toEqual([zombie.id])
          expect(heard).toEqual(["done"])
          yield* line.advance("1 second")
          heard.length = 0
          expect(yield* line.queue.finalize(batch)).toEqual([zombie.id])
          expect(heard).toEqual(["done"])
          expect(yield* line.search.get(newer.id)).toMatchObject({ state: "done" })
        }
      }
    })
  )

  law("a zombie's finalize changes nothing after a release and a new claim by the same process", (line) =>
    Effect.gen(function* () {
      const zombie = yield* line.run()
      yield* line.end(zombie, ends.release(yield* line.now))
      const pending = yield* line.search.get(zombie.id)
      expect(yield* line.queue.finalize([{ id: zombie.id, lease: zombie.lease, end: ends.done }])).toEqual([zombie.id])
      expect(yield* line.search.get(zombie.id)).toEqual(pending)
      const newer = yield* line.claimOne
      expect(newer.attempt).toBe(zombie.attempt)
      const before = yield* line.search.get(newer.id)
      for (const end of zombieEnds) {
        yield* line.advance("1 second")
        expect(yield* line.queue.finalize([{ id: zombie.id, lease: zombie.lease, end }])).toEqual([zombie.id])
        expect(yield* line.search.get(newer.id)).toEqual(before)
      }
    })
  )

  law("a run ends once", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      const dead = yield* line.end(run, ends.dead)
      yield* line.advance("1 second")
      for (const end of zombieEnds) {
        expect(yield* line.queue.finalize([{ id: run.id, lease: run.lease, end }])).toEqual([run.id])
        expect(yield* line.search.get(run.id)).toEqual(dead)
      }
    })
  )

  law("a job with a cancel request whose last attempt fails is cancelled, whatever its other dead reason", (line) =>
    Effect.gen(function* () {
      for (const reason of ["exhausted", "rejected", "undecodable"] as const) {
        const run = yield* line.run()
        yield* line.jobAdmin.cancel(run.id)
        const heard: Array<unknown> = []
        const end = End.Dead({ reason, counted: true, error: "no" })
        const written = (became: string, _: number, why?: string) => heard.push([became, why])
        expect(yield* line.queue.finalize([{ ...run, end, written }])).toEqual([])
        const job = yield* line.search.get(run.id)
        expect(job).toMatchObject({ ...free, state: "cancelled", reason: "cancelled", lastError: "no", attempt: 1 })
        expect(job.history).toMatchObject([{ outcome: "cancelled", message: "no" }])
        expect(heard).toEqual([["dead", "cancelled"]])
      }
    })
  )

  const day = 86_400_000
  const unknown = (now: number) =>
    End.Again({ runAt: now + 30_000, counted: false, error: "unknown", remember: undefined, unknownTimeout: day })

  law("a job of an unknown kind is due again soon, then at longer intervals up to the one requested", (line) =>
    Effect.gen(function* () {
      yield* line.put({})
      const returned: Array<{ readonly at: number; readonly delay: number }> = []
      for (let count = 0; count < 9; count += 1) {
        const { runAt, updatedAt } = yield* line.end(yield* line.claimOne, unknown(yield* line.now))
        returned.push({ at: updatedAt, delay: runAt - updatedAt })
        yield* line.advance(Duration.millis(runAt - (yield* line.now)))
      }
      const since = returned[0]?.at ?? 0
      expect(returned.map(({ delay }) => delay)).toEqual(
        returned.map(({ at }) => Math.min(30_000, Math.max(500, at - since)))
      )
      expect(returned[0]?.delay).toBe(500)
      expect(returned.at(-1)?.delay).toBe(30_000)
    })
  )

  law("a job of an unknown kind is dead a day after its first claim, however long ago it was stored", (line) =>
    Effect.gen(function* () {
      yield* line.put({ runAt: (yield* line.now) + 2 * day })
      yield* line.advance("48 hours")
      const job = yield* line.end(yield* line.claimOne, unknown(yield* line.now))
      expect(job).toMatchObject({ state: waiting, attempt: 0, lastError: "unknown", history: [] })
      yield* line.advance("23 hours")
      expect(yield* line.end(yield* line.claimOne, unknown(yield* line.now))).toMatchObject({ state: waiting })
      yield* line.advance("1 hour")
      const heard: Array<unknown> = []
      const run = yield* line.claimOne
      const written = (became: string, _: number, why?: string) => heard.push([became, why])
      yield* line.queue.finalize([{ ...run, end: unknown(yield* line.now), written }])
      const dead = yield* line.search.get(run.id)
      expect(dead).toMatchObject({
        state: "dead",
        reason: "unknown_kind",
        attempt: 0,
        finishedAt: yield* line.now
      })
      expect(dead.history).toMatchObject([{ outcome: "unknown_kind", message: "unknown" }])
      expect(heard).toEqual([["dead", "unknown_kind"]])
    })
  )

  for (const how of ["requeued", "known to a pod"] as const) {
    law(`a job that is ${how} gets another day for its kind to become known`, (line) =>
      Effect.gen(function* () {
        yield* line.end(yield* line.run(), unknown(yield* line.now))
        yield* line.advance("30 hours")
        if (how === "requeued") {
          const dead = yield* line.end(yield* line.claimOne, unknown(yield* line.now))
          expect(dead).toMatchObject({ state: "dead", reason: "unknown_kind" })
          yield* line.jobAdmin.requeue(dead.id)
        } else yield* line.end(yield* line.claimOne, ends.again(yield* line.now))
        yield* line.end(yield* line.claimOne, unknown(yield* line.now))
        yield* line.advance("23 hours")
        expect(yield* line.end(yield* line.claimOne, unknown(yield* line.now))).toMatchObject({ state: waiting })
      })
    )
  }

  for (const [what, end] of [
    ["done", ends.done],
    ["done with a result", End.Done({ result: "1" })],
    ["dead", ends.dead]
  ] as const) {
    law(`${what}: the same list of ends can be sent again when its answer was lost, by a new effect too`, (line) =>
      Effect.gen(function* () {
        const run = yield* line.run()
        const list = [{ ...run, end }]
        expect(yield* Effect.suspend(() => line.queue.finalize(list))).toEqual([])
        yield* line.advance("2 seconds")
        expect(yield* Effect.suspend(() => line.queue.finalize(list))).toEqual([])
        expect(yield* line.queue.finalize([{ ...run, end }])).toEqual([run.id])
      })
    )
  }

  law("a job with a cancel request does not return to pending, and may still be done", (line) =>
    Effect.gen(function* () {
      for (const end of [ends.again(yield* line.now), ends.release(yield* line.now)]) {
        const run = yield* line.run()
        yield* line.jobAdmin.cancel(run.id)
        expect(yield* line.end(run, end)).toMatchObject({ ...free, state: "cancelled", reason: "cancelled" })
        expect(yield* line.claim()).toEqual([])
      }
      const run = yield* line.run()
      yield* line.jobAdmin.cancel(run.id)
      expect(yield* line.end(run, ends.done)).toMatchObject({ state: "done" })
    })
  )
}
