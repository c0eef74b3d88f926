import { expect } from "@effect/vitest"
import { Duration, Effect, Fiber } from "effect"
import { exact } from "../../src/core/Count.js"
import { End } from "../../src/queue/AttemptEnd.js"
import type { JobFilter } from "../../src/queue/search/JobSearch.js"
import { ends, type Law, type Line } from "./Line.js"

/** Payloads of the matches, oldest first. */
const found = (line: Line, filter: JobFilter) =>
  Effect.map(line.search.list({ queue: line.name, ...filter }, { limit: 100 }), ({ jobs }) =>
    jobs.toReversed().map(({ payload }) => payload)
  )

export const searchLaws = (law: Law): void => {
  law("get fails for an unknown job", (line) =>
    Effect.gen(function* () {
      const id = yield* line.newId
      expect(yield* Effect.flip(line.search.get(id))).toMatchObject({ _tag: "JobNotFound", id })
    })
  )

  law("list filters by displayed state, which follows the clock", (line) =>
    Effect.gen(function* () {
      yield* line.end(yield* line.run({ payload: "done" }), ends.done)
      yield* line.end(yield* line.run({ payload: "dead" }), ends.dead)
      yield* line.end(yield* line.run({ payload: "retrying" }), ends.again((yield* line.now) + 3_600_000))
      yield* line.run({ payload: "running" })
      yield* line.put({ payload: "scheduled", runAt: (yield* line.now) + 60_000 })
      yield* line.put({ payload: "pending" })
      for (const state of ["scheduled", "retrying", "pending", "running", "done", "dead"] as const) {
        expect(yield* found(line, { state })).toEqual([state])
      }
      yield* line.advance("1 minute")
      expect(yield* found(line, { state: "scheduled" })).toEqual([])
      expect(yield* found(line, { state: "pending" })).toEqual(["scheduled", "pending"])
    })
  )

  law("a done job keeps its pod until it is requeued, and is found by it", (line) =>
    Effect.gen(function* () {
      const held = yield* line.run({ payload: "held" })
      const { pod } = yield* line.search.get(held.id)
      expect(pod).toBeDefined()
      expect(yield* found(line, { pod, state: "running" })).toEqual(["held"])
      yield* line.end(held, ends.done)
      expect(yield* found(line, { pod })).toEqual(["held"])
      expect(yield* found(line, { pod: "nobody" })).toEqual([])
      expect((yield* line.search.get(held.id)).pod).toBe(pod)
      yield* line.jobAdmin.requeue(held.id)
      expect((yield* line.search.get(held.id)).pod).toBeUndefined()
    })
  )

  law("list filters by kind, dead reason and case-insensitive text in the last error", (line) =>
    Effect.gen(function* () {
      yield* line.put({ payload: 1, kind: `${line.name}.other`, runAt: (yield* line.now) + 3_600_000 })
      yield* line.end(yield* line.run({ payload: 2 }), ends.dead)
      yield* line.jobAdmin.cancel(yield* line.put({ payload: 3 }))
      yield* line.put({ payload: 4 })
      expect(yield* found(line, { kind: `${line.name}.other` })).toEqual([1])
      expect(yield* found(line, { kind: "greet" })).toEqual([2, 3, 4])
      expect(yield* found(line, { reason: "rejected" })).toEqual([2])
      expect(yield* found(line, { reason: "cancelled" })).toEqual([3])
      expect(yield* found(line, { text: "NO" })).toEqual([2])
      expect(yield* found(line, { text: "100%_" })).toEqual([])
      expect(yield* found(line, { kind: "greet", state: "pending" })).toEqual([4])
    })
  )

  law("list accepts several queues, kinds, states and reasons, matching any of them", (line) =>
    Effect.gen(function* () {
      const other = `${line.name}-b`
      yield* line.end(yield* line.run({ payload: "rejected" }), ends.dead)
      yield* line.jobAdmin.cancel(yield* line.put({ payload: "cancelled", kind: "b" }))
      yield* line.put({ payload: "elsewhere", queue: other, kind: "c" })
      yield* line.put({ payload: "later", kind: "d", runAt: (yield* line.now) + 60_000 })
      expect(yield* found(line, { queue: [line.name, other], state: ["pending", "scheduled"] })).toEqual([
        "elsewhere",
        "later"
      ])
      expect(yield* found(line, { queue: [line.name, other], kind: ["b", "c"] })).toEqual(["cancelled", "elsewhere"])
      expect(yield* found(line, { reason: ["rejected", "cancelled", "poison"] })).toEqual(["rejected", "cancelled"])
      expect(yield* found(line, { state: ["dead"] })).toEqual(["rejected"])
      expect(yield* found(line, { state: ["cancelled"] })).toEqual(["cancelled"])
      // Filters from before `cancelled` was a separate state.
      expect(yield* found(line, { state: ["dead"], reason: ["cancelled"] })).toEqual(["cancelled"])
      expect(yield* found(line, { state: [] })).toEqual([])
      expect(yield* found(line, { kind: [] })).toEqual([])
      expect(yield* line.search.total({ queue: [line.name, other] }, 10)).toEqual({ count: 4, exact: true })
    })
  )

  law("search finds a job by a part of its id, its kind, its error, and by its whole keys", (line) =>
    Effect.gen(function* () {
      const dedupe = { key: `${line.name}-Order-7`, scope: "active" } as const
      const id = yield* line.put({ payload: "first", kind: "Send_Receipt", key: "chat-5", dedupe })
      const run = yield* line.claimOne
      yield* line.end(run, ends.again((yield* line.now) + 60_000, "connect ECONNREFUSED"))
      yield* line.put({ payload: "second", kind: "other" })
      const parts = [id.slice(9, 30), id.toUpperCase(), "receipt", "econnrefused", "chat-5", dedupe.key]
      for (const search of parts) expect(yield* found(line, { search })).toEqual(["first"])
      for (const search of ["chat", "Order", "nowhere"]) expect(yield* found(line, { search })).toEqual([])
    })
  )

  law("list filters by the whole dedupe key, and by the shape of the last error", (line) =>
    Effect.gen(function* () {
      const dedupe = { key: `${line.name}:1`, scope: "retained" as const }
      yield* line.put({ payload: "keyed", dedupe, runAt: (yield* line.now) + 3_600_000 })
      const failed = (error: string) => End.Dead({ reason: "rejected", counted: true, error })
      yield* line.end(
        yield* line.run({ payload: 1 }),
        failed("order 17 of 0198c0de-0000-7000-8000-00000000DEAD: 502\nat x")
      )
      yield* line.end(yield* line.run({ payload: 2 }), failed("order 4 of 0198c0de-0000-7000-8000-000000000001: 503"))
      yield* line.end(yield* line.run({ payload: 3 }), failed("order 4 of nobody: 503"))
      expect(yield* found(line, { dedupe: dedupe.key })).toEqual(["keyed"])
      expect(yield* found(line, { dedupe: `${line.name}:` })).toEqual([])
      expect(yield* found(line, { shape: "order # of #: #" })).toEqual([1, 2])
      expect(yield* found(line, { shape: "order # of nobody: #" })).toEqual([3])
      expect(yield* found(line, { shape: "", state: ["dead"] })).toEqual([])
    })
  )

  law("list filters by creation time: from the first instant inclusive, before the second", (line) =>
    Effect.gen(function* () {
      const start = yield* line.now
      for (const payload of [1, 2, 3]) {
        yield* line.put({ payload })
        yield* line.advance("1 minute")
      }
      expect(yield* found(line, { since: start + 60_000 })).toEqual([2, 3])
      expect(yield* found(line, { until: start + 60_000 })).toEqual([1])
      expect(yield* found(line, { since: start + 60_000, until: start + 120_000 })).toEqual([2])
    })
  )

  law("list filters by payload containment", (line) =>
    Effect.gen(function* () {
      const payloads = [
        { chat: 1, tags: ["a", "b"] },
        { chat: 2, tags: ["b"] },
        { chat: 1, deep: { er: null } },
        [1, 2],
        7
      ]
      yield* Effect.forEach(payloads, (payload) => line.put({ payload }))
      const [first, second, third, fourth, fifth] = payloads
      expect(yield* found(line, { payload: { chat: 1 } })).toEqual([first, third])
      expect(yield* found(line, { payload: { tags: ["b"] } })).toEqual([first, second])
      expect(yield* found(line, { payload: { deep: { er: null } } })).toEqual([third])
      expect(yield* found(line, { payload: { deep: {} } })).toEqual([third])
      expect(yield* found(line, { payload: [2] })).toEqual([fourth])
      expect(yield* found(line, { payload: 7 })).toEqual([fifth])
      expect(yield* found(line, { payload: { toString: 1 } })).toEqual([])
    })
  )

  law("list returns pages, newest first, that are not shifted by later changes", (line) =>
    Effect.gen(function* () {
      for (const payload of [1, 2, 3, 4, 5, 6, 7]) {
        yield* line.put({ payload })
        if (payload % 2 === 0) yield* line.advance("1 second")
      }
      const page = (cursor: string | undefined) => line.search.list({ queue: line.name }, { limit: 3, cursor })
      const first = yield* page(undefined)
      yield* line.put({ payload: 8 })
      yield* line.jobAdmin.remove(first.jobs[0]?.id ?? (yield* line.newId))
      const second = yield* page(first.next)
      const third = yield* page(second.next)
      expect([first, second, third].map(({ jobs }) => jobs.map(({ payload }) => payload))).toEqual([
        [7, 6, 5],
        [4, 3, 2],
        [1]
      ])
      expect(third.next).toBeUndefined()
    })
  )

  law("list returns no next page after a last one that is full", (line) =>
    Effect.gen(function* () {
      yield* line.put()
      yield* line.put()
      expect((yield* line.search.list({ queue: line.name }, { limit: 2 })).next).toBeUndefined()
      expect(yield* line.search.list({ queue: `${line.name}-empty` }, { limit: 2 })).toEqual({
        jobs: [],
        next: undefined
      })
    })
  )

  law("list searches no further than its limit", (line) =>
    Effect.gen(function* () {
      for (const payload of [1, 2, 3, 4]) {
        yield* line.put({ payload, kind: payload % 2 === 0 ? "even" : "odd" })
        yield* line.advance("1 second")
      }
      const among = (count: number) =>
        Effect.map(
          line.search.list({ queue: line.name, kind: "odd" }, { limit: 10, among: count }),
          ({ jobs, next }) => [jobs.map(({ payload }) => payload), next]
        )
      expect(yield* among(3)).toEqual([[3], undefined])
      expect(yield* among(1)).toEqual([[], undefined])
      expect(yield* among(100)).toEqual([[3, 1], undefined])
    })
  )

  law("list refuses an invalid cursor", (line) =>
    Effect.gen(function* () {
      for (const cursor of ["", "x", "0", "' or 1=1", "🙂", "\u0000"]) {
        const refusal = yield* Effect.flip(line.search.list({ queue: line.name }, { limit: 3, cursor }))
        expect(refusal).toMatchObject({ _tag: "BadCursor", cursor })
      }
    })
  )

  law("total counts what matches, up to a cap", (line) =>
    Effect.gen(function* () {
      yield* line.queue.enqueue(Array.from({ length: 8 }, (_, payload) => line.job({ payload })))
      expect(yield* line.search.total({ queue: line.name }, 100)).toEqual({ count: 8, exact: true })
      expect(yield* line.search.total({ queue: line.name, payload: 3 }, 100)).toEqual({ count: 1, exact: true })
      expect(yield* line.search.total({ queue: line.name }, 5)).toEqual({ count: 5, exact: false })
    })
  )

  law("find returns jobs by the beginning of an id, a dedupe key that is held, and a key that waits", (line) =>
    Effect.gen(function* () {
      const found = (text: string) => Effect.map(line.search.find(text), (jobs) => jobs.map(({ id }) => id))
      const key = `${line.name}-A-17`
      const [held, keyed] = [yield* line.put({ dedupe: { key, scope: "active" } }), yield* line.put({ key })]
      expect(yield* found(key)).toEqual([keyed, held])
      expect(yield* found(key.slice(1))).toEqual([])
      expect(yield* found(held)).toEqual([held])
      expect(yield* found(held.slice(0, -1).toUpperCase())).toContain(held)
      expect(yield* found(held.slice(0, 8))).toEqual([])
      expect(yield* found(`${held}0`)).toEqual([])
      expect(yield* found("\u0000")).toEqual([])
      yield* line.jobAdmin.cancel(held)
      yield* line.jobAdmin.cancel(keyed)
      expect(yield* found(key)).toEqual([])
    })
  )

  law("counts return the number of jobs per state, and how long the oldest has been due", (line) =>
    Effect.gen(function* () {
      const own = Effect.map(line.search.counts, (all) => all.find(({ queue }) => queue === line.name))
      expect(yield* own).toBeUndefined()
      yield* line.end(yield* line.run(), ends.done)
      yield* line.end(yield* line.run(), ends.dead)
      yield* line.jobAdmin.cancel(yield* line.put())
      yield* line.end(yield* line.run(), ends.again((yield* line.now) + 3_600_000))
      yield* line.put({ runAt: (yield* line.now) + 7_200_000 })
      expect(yield* own).toMatchObject({ oldestDueAge: undefined, oldestDueAt: undefined })
      yield* line.run()
      const oldestDueAt = yield* line.now
      yield* line.put()
      yield* line.advance("1 minute")
      yield* line.put()
      expect(yield* own).toEqual({
        queue: line.name,
        counts: {
          scheduled: exact(1),
          retrying: exact(1),
          pending: exact(2),
          running: exact(1),
          done: exact(1),
          dead: exact(1),
          cancelled: exact(1)
        },
        oldestDueAge: 60_000,
        oldestDueAt
      })
      yield* line.advance("1 hour")
      expect(yield* own).toMatchObject({
        oldestDueAge: 3_660_000,
        oldestDueAt,
        counts: { retrying: exact(1), pending: exact(2) }
      })
      const names = (yield* line.search.counts).map(({ queue }) => queue)
      expect(names).toEqual([...names].sort())
    })
  )

  law("await returns at once for a finished or unknown job", (line) =>
    Effect.gen(function* () {
      const done = yield* line.end(yield* line.run(), ends.done)
      const dead = yield* line.end(yield* line.run(), ends.dead)
      expect(yield* line.search.await(done.id)).toEqual(done)
      expect(yield* line.search.await(dead.id)).toEqual(dead)
      expect(yield* Effect.flip(line.search.await(yield* line.newId))).toMatchObject({ _tag: "JobNotFound" })
    })
  )

  law("await waits through retries until a job is done", (line) =>
    Effect.gen(function* () {
      const id = yield* line.put()
      const waiting = yield* Effect.fork(line.search.await(id))
      yield* line.end(yield* line.claimOne, ends.again(yield* line.now))
      const done = yield* line.end(yield* line.claimOne, ends.done)
      expect(yield* Fiber.join(waiting)).toEqual(done)
    })
  )

  law("awaitEnd returns the result as await does, whether the job ends before or meanwhile", (line) =>
    Effect.gen(function* () {
      const values = [
        undefined,
        null,
        0.1,
        "text",
        [3, [null]],
        { "long key": { é: 1, bb: 2, a: 3 }, b: [{ zz: 1, c: 2 }] }
      ]
      for (const value of values) {
        const { id, kind, lease } = yield* line.run()
        const waiting = yield* Effect.fork(line.search.awaitEnd(id))
        // Until the caller has read the job, which runs.
        yield* line.search.get(id)
        const end = End.Done({ result: value === undefined ? undefined : JSON.stringify(value) })
        yield* line.queue.finalize([{ id, lease, kind, end }])
        const whole = yield* line.search.await(id)
        expect(whole.result).toEqual(value)
        for (const ended of [yield* Fiber.join(waiting), yield* line.search.awaitEnd(id)]) {
          expect(ended).toMatchObject({ kind, state: "done" })
          expect(JSON.stringify(ended.result)).toBe(JSON.stringify(whole.result))
        }
      }
      const dying = yield* line.run()
      const waiting = yield* Effect.fork(line.search.awaitEnd(dying.id))
      yield* line.queue.finalize([{ ...dying, end: ends.dead }])
      expect(yield* Fiber.join(waiting)).toMatchObject({
        id: dying.id,
        state: "dead",
        reason: "rejected",
        lastError: "no"
      })
    })
  )

  law("awaitEnd does not take an end under a lost lease for that of the job", (line) =>
    Effect.gen(function* () {
      const lost = yield* line.run()
      yield* line.crash(lost)
      const held = yield* line.claimOne
      expect(held.id).toBe(lost.id)
      const waiting = yield* Effect.fork(line.search.awaitEnd(lost.id))
      yield* line.search.get(lost.id)
      const endOf = ({ id, kind, lease }: typeof held, result: string) => ({
        ...{ id, kind, lease },
        end: End.Done({ result: JSON.stringify(result) })
      })
      expect(yield* line.queue.finalize([endOf(lost, "of the lost run")])).toEqual([lost.id])
      yield* line.queue.finalize([endOf(held, "of the job")])
      expect(yield* Fiber.join(waiting)).toMatchObject({ state: "done", result: "of the job" })
    })
  )

  law("await ends however a job ends: dead, cancelled, removed or purged", (line) =>
    Effect.gen(function* () {
      const run = yield* line.run()
      const buried = yield* Effect.fork(line.search.await(run.id))
      yield* line.end(run, ends.dead)
      expect(yield* Fiber.join(buried)).toMatchObject({ reason: "rejected" })
      const id = yield* line.put()
      const cancelled = yield* Effect.fork(line.search.await(id))
      yield* line.jobAdmin.cancel(id)
      expect(yield* Fiber.join(cancelled)).toMatchObject({ reason: "cancelled" })
      const gone = yield* line.put()
      const removed = yield* Effect.fork(Effect.flip(line.search.await(gone)))
      yield* Effect.yieldNow()
      yield* line.jobAdmin.remove(gone)
      expect(yield* Fiber.join(removed)).toMatchObject({ _tag: "JobNotFound", id: gone })
      const done = yield* line.end(yield* line.run(), ends.done)
      yield* line.advance("1 hour")
      yield* line.queue.purge(Duration.minutes(1))
      expect(yield* Effect.flip(line.search.await(done.id))).toMatchObject({ _tag: "JobNotFound" })
    })
  )
}
