import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import type { AttemptLog, LoggedLine } from "../../src/queue/logs/JobLogs.js"
import { encode, keptAttempts } from "../../src/queue/logs/JobLogs.js"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import { ends, type Law, type Line } from "./Line.js"

const line = (message: string, more: Partial<LoggedLine> = {}): LoggedLine => ({
  at: 1_700_000_000_000,
  level: "info",
  message,
  step: undefined,
  error: undefined,
  fields: undefined,
  ...more
})

const bounds = { lines: 5, bytes: 32 * 1024 }

/** The log of a run that has logged these messages. */
const log = (
  { attempt, id, lease }: ClaimedJob,
  messages: ReadonlyArray<string>,
  more: Partial<AttemptLog> = {}
): AttemptLog => ({
  id,
  lease,
  attempt,
  count: messages.length,
  lines: messages.map((message) => encode(line(message))),
  bounds,
  ...more
})

/** The stored messages by attempt, and how many lines are not stored. */
const shown = ({ logs }: Line, { id }: Pick<ClaimedJob, "id">) =>
  Effect.map(logs.read(id), (all) =>
    all.map(({ attempt, dropped, lines }) => [attempt, dropped, lines.map(({ message }) => message).join("")])
  )

/** Logs of attempts. */
export const logLaws = (law: Law): void => {
  law("what a running attempt has logged is read as it was written, and replaced by its next write", (line_) =>
    Effect.gen(function* () {
      const job = yield* line_.run()
      expect(yield* shown(line_, job)).toEqual([])
      const strange = line('a\u0000b "quoted" \ud83d\n{x,y}\\ \u2028', {
        level: "warn",
        step: "charge",
        error: "Error: no\n    at x",
        fields: { order: 7, deep: { ä: [null, true] } }
      })
      yield* line_.logs.write([log(job, [], { count: 1, lines: [encode(strange)] })])
      expect(yield* line_.logs.read(job.id)).toEqual([{ attempt: 1, dropped: 0, lines: [strange] }])
      yield* line_.logs.write([log(job, ["a", "b", "c"])])
      expect(yield* shown(line_, job)).toEqual([[1, 0, "abc"]])
    })
  )

  law("a write that a later one has overtaken changes nothing", (line) =>
    Effect.gen(function* () {
      const job = yield* line.run()
      yield* line.logs.write([log(job, ["a", "b"])])
      yield* line.logs.write([log(job, ["a"])])
      expect(yield* shown(line, job)).toEqual([[1, 0, "ab"]])
      yield* line.logs.write([log(job, ["a", "b"])])
      expect(yield* shown(line, job)).toEqual([[1, 0, "ab"]])
    })
  )

  law("lines of jobs that are written together stay apart", (line) =>
    Effect.gen(function* () {
      yield* line.put()
      yield* line.put()
      const [one, other] = yield* line.claim()
      if (one === undefined || other === undefined) return yield* Effect.dieMessage("two were stored")
      yield* line.logs.write([log(other, ["x"]), log(one, ["a", "b"])])
      expect([yield* shown(line, one), yield* shown(line, other)]).toEqual([[[1, 0, "ab"]], [[1, 0, "x"]]])
    })
  )

  law("the end of an attempt stores its log, whatever the end is", (line) =>
    Effect.gen(function* () {
      for (const end of [ends.done, ends.dead, ends.again(1), ends.release(1)]) {
        const job = yield* line.run()
        const { id, lease } = job
        expect(yield* line.queue.finalize([{ id, lease, end, log: log(job, ["a", "b"]) }])).toEqual([])
        expect(yield* shown(line, job)).toEqual([[1, 0, "ab"]])
        if ((yield* line.search.get(id)).state !== "running") yield* line.jobAdmin.cancel(id).pipe(Effect.ignore)
      }
    })
  )

  law("a run without its lease stores nothing", (line) =>
    Effect.gen(function* () {
      const job = yield* line.run()
      const { id, lease } = job
      yield* line.logs.write([log(job, ["a"])])
      yield* line.end(job, ends.done)
      yield* line.advance("1 second")
      yield* line.logs.write([log(job, ["a", "late"])])
      expect(yield* line.queue.finalize([{ id, lease, end: ends.done, log: log(job, ["a", "late"]) }])).toEqual([id])
      expect(yield* shown(line, job)).toEqual([[1, 0, "a"]])
    })
  )

  law("each attempt has its log", (line) =>
    Effect.gen(function* () {
      const first = yield* line.run()
      yield* line.logs.write([log(first, ["a"])])
      yield* line.end(first, ends.again(yield* line.now))
      const second = yield* line.claimOne
      yield* line.logs.write([log(second, ["b"])])
      expect(yield* shown(line, first)).toEqual([
        [1, 0, "a"],
        [2, 0, "b"]
      ])
    })
  )

  law("a crashed attempt keeps what was stored, and the next run continues it within the bounds", (line) =>
    Effect.gen(function* () {
      const crashed = yield* line.run()
      yield* line.logs.write([log(crashed, ["a", "b", "c"])])
      yield* line.crash(crashed)
      expect(yield* shown(line, crashed)).toEqual([[1, 0, "abc"]])
      const next = yield* line.claimOne
      expect(next.attempt).toBe(1)
      yield* line.logs.write([log(next, ["d"])])
      expect(yield* shown(line, next)).toEqual([[1, 0, "abcd"]])
      yield* line.logs.write([log(next, ["d", "e", "f"])])
      expect(yield* shown(line, next)).toEqual([[1, 1, "bcdef"]])
      yield* line.logs.write([log(next, ["g", "h", "i", "j", "k"], { count: 8 })])
      expect(yield* shown(line, next)).toEqual([[1, 6, "ghijk"]])
      yield* line.crash(next)
      const third = yield* line.claimOne
      yield* line.logs.write([log(third, ["l"])])
      expect(yield* shown(line, third)).toEqual([[1, 7, "hijkl"]])
    })
  )

  law("lines of earlier runs are kept only as far as their bytes fit", (line) =>
    Effect.gen(function* () {
      const crashed = yield* line.run()
      const [a = "", b = ""] = log(crashed, ["a", "ä"]).lines
      const room = (lines: ReadonlyArray<string>) => ({
        lines: 100,
        bytes: lines.reduce((sum, each) => sum + Buffer.byteLength(each) + 1, 0)
      })
      yield* line.logs.write([log(crashed, ["a", "ä"])])
      yield* line.crash(crashed)
      const next = yield* line.claimOne
      const own = log(next, ["c"]).lines
      yield* line.logs.write([
        log(next, ["c"], { bounds: { ...room([...own, b]), bytes: room([...own, b, a]).bytes - 1 } })
      ])
      expect(yield* shown(line, next)).toEqual([[1, 1, "äc"]])
      yield* line.crash(next)
      const third = yield* line.claimOne
      yield* line.logs.write([log(third, ["d"], { bounds: room(own) })])
      expect(yield* shown(line, third)).toEqual([[1, 3, "d"]])
    })
  )

  law("logs of attempts that are long past are deleted", (line) =>
    Effect.gen(function* () {
      let job = yield* line.run({ attempts: keptAttempts + 2 })
      for (let attempt = 1; attempt <= keptAttempts + 1; attempt += 1) {
        expect(job.attempt).toBe(attempt)
        const end = ends.again(yield* line.now)
        yield* line.queue.finalize([{ id: job.id, lease: job.lease, end, log: log(job, ["a"]) }])
        job = yield* line.claimOne
      }
      const kept = yield* line.logs.read(job.id)
      expect(kept.map(({ attempt }) => attempt)).toEqual(Array.from({ length: keptAttempts }, (_, place) => place + 2))
    })
  )

  law("logs are deleted with their job, by retention and by an operator", (line) =>
    Effect.gen(function* () {
      const ended = (end: (typeof ends)["done" | "dead"]) =>
        Effect.gen(function* () {
          const job = yield* line.run()
          yield* line.queue.finalize([{ id: job.id, lease: job.lease, end, log: log(job, ["a"]) }])
          return job
        })
      const purged = yield* ended(ends.done)
      const removed = yield* ended(ends.dead)
      const kept = yield* ended(ends.dead)
      yield* line.advance("2 hours")
      yield* line.queue.purge(Duration.hours(1))
      yield* line.jobAdmin.remove(removed.id)
      expect([yield* shown(line, purged), yield* shown(line, removed), yield* shown(line, kept)]).toEqual([
        [],
        [],
        [[1, 0, "a"]]
      ])
    })
  )

  law("logs are there again after the delete of their job is undone", (line) =>
    Effect.gen(function* () {
      const job = yield* line.run()
      yield* line.queue.finalize([{ id: job.id, lease: job.lease, end: ends.dead, log: log(job, ["a"]) }])
      const act = yield* line.newId
      yield* line.jobAdmin.recordingUndo(act).remove(job.id)
      yield* line.jobAdmin.undo(job.id, act)
      expect(yield* shown(line, job)).toEqual([[1, 0, "a"]])
    })
  )
}
