import { expect } from "@effect/vitest"
import { Effect } from "effect"
import type { KeyOrder } from "../../src/queue/settings/QueueSettings.js"
import { ends, type Law, type Line } from "./Line.js"
import { claimNow, set } from "./PauseLaws.js"

const keyed = (line: Line, concurrency: number, order: KeyOrder = "none") =>
  set(line, { perKey: { concurrency, order } })

/** Stores jobs named by key and number: `a1`, `a2`, `b1`. */
const put = (line: Line, ...names: ReadonlyArray<string>) =>
  line.queue.enqueue(names.map((name) => line.job({ key: name.slice(0, 1), payload: name })))

const names = (jobs: ReadonlyArray<{ readonly payload: unknown }>) => jobs.map(({ payload }) => payload)

const finish = (line: Line, jobs: ReadonlyArray<{ readonly id: never | string }>) =>
  line.queue.finalize(jobs.map((run) => ({ ...(run as never as object), end: ends.done }) as never))

export const keyLaws = (law: Law): void => {
  law("a key runs at most its limit at a time, and an end makes room at once", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 2)
      yield* put(line, "a1", "a2", "a3", "a4", "b1")
      const first = yield* claimNow(line)
      expect(names(first)).toEqual(["a1", "b1", "a2"])
      expect(yield* claimNow(line)).toEqual([])
      expect(yield* line.claim()).toEqual([])
      yield* finish(line, first.slice(0, 1))
      expect(names(yield* claimNow(line))).toEqual(["a3"])
      expect(yield* claimNow(line)).toEqual([])
      yield* finish(line, first.slice(1))
      expect(names(yield* claimNow(line))).toEqual(["a4"])
    })
  )

  law("a limit of many jobs per key counts all that run", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 100)
      yield* put(line, ...Array.from({ length: 160 }, (_, index) => `a${index}`))
      const first = yield* claimNow(line, 90)
      expect(yield* claimNow(line, 20)).toHaveLength(10)
      yield* finish(line, first.slice(0, 1))
      expect(yield* claimNow(line, 50)).toHaveLength(1)
    })
  )

  law("a key belongs to one queue", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1)
      yield* put(line, "a1")
      expect(yield* claimNow(line)).toHaveLength(1)
      const other = `${line.name}-other`
      yield* line.put({ queue: other, key: "a" })
      yield* line.advance("1 second")
      expect(yield* line.queue.claim({ queue: other, pod: line.pod, limit: 1 })).toHaveLength(1)
    })
  )

  law("keys take turns, so that a long backlog of one does not delay others", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 3)
      yield* put(line, ...Array.from({ length: 400 }, (_, n) => `a${n}`), "b1", "c1", "b2")
      expect(names(yield* line.claim(3))).toEqual(["a0", "b1", "c1"])
      expect(names(yield* line.claim(2))).toEqual(["a1", "b2"])
      expect(names(yield* line.claim(2))).toEqual(["a2"])
    })
  )

  law("the next claim starts after the key that was served last", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1)
      yield* put(line, "a1", "b1", "c1", "d1", "a2", "b2", "c2", "d2")
      const served: Array<unknown> = []
      for (let turn = 0; turn < 8; turn += 1) {
        const [run] = yield* line.claim(1)
        if (run === undefined) return yield* Effect.dieMessage("eight were stored")
        served.push(run.payload)
        yield* finish(line, [run])
      }
      expect(served).toEqual(["a1", "b1", "c1", "d1", "a2", "b2", "c2", "d2"])
    })
  )

  law("jobs without a key are not limited, and take turns with the keys", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1)
      yield* put(line, "a1", "a2", "b1")
      yield* line.queue.enqueue([1, 2, 3].map((payload) => line.job({ payload })))
      expect(names(yield* line.claim(2))).toEqual(["a1", 1])
      expect(names(yield* line.claim())).toEqual(["b1", 2, 3])
      expect(yield* line.claim()).toEqual([])
    })
  )

  law("a job without a key is found behind a long backlog of a busy key", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1)
      yield* put(line, ...Array.from({ length: 900 }, (_, n) => `a${n}`))
      yield* line.put({ payload: "none" })
      const found: Array<unknown> = []
      for (let turn = 0; turn < 10; turn += 1) found.push(...names(yield* line.claim()))
      expect(found.sort()).toEqual(["a0", "none"])
    })
  )

  law("higher-priority jobs of a key run first, and higher-priority keys before others", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1)
      yield* line.queue.enqueue([
        line.job({ key: "a", payload: "a usual" }),
        line.job({ key: "a", payload: "a urgent", priority: -1 }),
        line.job({ key: "b", payload: "b usual" }),
        line.job({ key: "c", payload: "c urgent", priority: -1 })
      ])
      expect(names(yield* line.claim())).toEqual(["a urgent", "c urgent", "b usual"])
    })
  )

  law("serial: jobs run one at a time in the order they were stored, past one that waits for its retry", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1, "serial")
      yield* put(line, "a1", "a2", "a3")
      const first = yield* line.claimOne
      expect(first.payload).toBe("a1")
      yield* line.end(first, ends.again((yield* line.now) + 30_000))
      const second = yield* line.claimOne
      expect(second.payload).toBe("a2")
      yield* line.advance("1 minute")
      expect(yield* line.claim()).toEqual([])
      yield* finish(line, [second])
      // Its retry is due, and it was stored before the third.
      const again = yield* line.claimOne
      expect(again.payload).toBe("a1")
      yield* finish(line, [again])
      expect((yield* line.claimOne).payload).toBe("a3")
    })
  )

  law("strict: a started job holds its key through retries, snoozes and crashes until it is finished", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1, "strict")
      yield* put(line, "a1", "a2", "b1")
      const [a1, b1] = yield* line.claim()
      if (!a1 || !b1) return yield* Effect.dieMessage("two keys have jobs")
      yield* finish(line, [b1])
      yield* line.end(a1, ends.again((yield* line.now) + 60_000))
      expect(yield* line.claim()).toEqual([])
      yield* line.advance("1 minute")
      const retried = yield* line.claimOne
      expect(retried.payload).toBe("a1")
      yield* line.end(retried, ends.release((yield* line.now) + 60_000))
      expect(yield* line.claim()).toEqual([])
      yield* line.advance("1 minute")
      yield* line.crash(yield* line.claimOne)
      const rescued = yield* line.claimOne
      expect(rescued).toMatchObject({ payload: "a1", crashCount: 1 })
      expect(yield* line.claim()).toEqual([])
      yield* line.end(rescued, ends.dead)
      expect((yield* line.claimOne).payload).toBe("a2")
    })
  )

  law("strict: a job that was cancelled or deleted while it waited releases its key", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1, "strict")
      yield* put(line, "a1", "a2", "a3")
      const first = yield* line.claimOne
      yield* line.end(first, ends.again((yield* line.now) + 3_600_000))
      yield* line.jobAdmin.cancel(first.id)
      const second = yield* line.claimOne
      expect(second.payload).toBe("a2")
      yield* line.end(second, ends.again((yield* line.now) + 3_600_000))
      yield* line.jobAdmin.remove(second.id)
      expect((yield* line.claimOne).payload).toBe("a3")
    })
  )

  law("strict: a scheduled job does not hold its key before it starts, and a requeued one starts anew", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1, "strict")
      yield* line.put({ key: "a", payload: "later", runAt: (yield* line.now) + 60_000 })
      yield* put(line, "a1", "a2")
      const first = yield* line.claimOne
      yield* line.end(first, ends.dead)
      yield* line.advance("1 second")
      yield* line.jobAdmin.requeue(first.id)
      expect((yield* line.claimOne).payload).toBe("a2")
    })
  )

  law("a limit that is set while jobs run counts them", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* put(line, "a1", "a2", "b1")
      const before = yield* line.claim(2)
      expect(names(before)).toEqual(["a1", "a2"])
      yield* put(line, "a3")
      yield* line.queues.change(line.name, { perKey: { concurrency: 1, order: "none" } })
      expect(names(yield* line.claim())).toEqual(["b1"])
      yield* finish(line, before.slice(0, 1))
      expect(yield* line.claim()).toEqual([])
      yield* finish(line, before.slice(1))
      expect(names(yield* line.claim())).toEqual(["a3"])
      yield* put(line, "a4")
      yield* line.queues.change(line.name, { perKey: null })
      expect(names(yield* line.claim())).toEqual(["a4"])
    })
  )

  law("a job that has crashed is claimed alone, by key too", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1)
      yield* put(line, "b1")
      yield* line.crash(yield* line.claimOne)
      yield* put(line, "a1", "c1")
      const claims: Array<ReadonlyArray<unknown>> = []
      for (let round = 0; round < 4; round += 1) claims.push(names(yield* line.claim()))
      expect(claims.flat().sort()).toEqual(["a1", "b1", "c1"])
      expect(claims).toContainEqual(["b1"])
    })
  )

  law("concurrent claimers never exceed the limit of a key", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 2)
      yield* put(line, ..."aabbccddeeffgg".repeat(5).split(""))
      const claims = yield* Effect.all(
        Array.from({ length: 30 }, () => claimNow(line, 4)),
        { concurrency: "unbounded" }
      )
      const counts = new Map<string | undefined, number>()
      for (const { key } of claims.flat()) counts.set(key, (counts.get(key) ?? 0) + 1)
      expect(Math.max(...counts.values())).toBeLessThanOrEqual(2)
    })
  )

  for (const order of ["serial", "strict"] as const) {
    law(`${order}: jobs of a key start in the order in which they were stored, although the clocks differ`, (line) =>
      Effect.gen(function* () {
        yield* keyed(line, 1, order)
        yield* put(line, "a1")
        yield* line.setBack("300 millis")
        yield* put(line, "a2", "b1", "a3")
        yield* put(line, "a4")
        expect(names(yield* claimNow(line))).toEqual(["b1"])
        for (const name of ["a1", "a2", "a3", "a4"]) {
          const claimed = yield* line.claim()
          expect(names(claimed)).toEqual([name])
          yield* finish(line, claimed)
        }
      })
    )

    law(`${order}: jobs of a key that are stored at one time start in that order, whatever their ids`, (line) =>
      Effect.gen(function* () {
        yield* keyed(line, 1, order)
        const [first, second] = [yield* line.newId, yield* line.newId]
        yield* line.put({ key: "a", id: second, payload: "a1" })
        yield* line.put({ key: "a", id: first, payload: "a2" })
        for (const name of ["a1", "a2"]) {
          const claimed = yield* line.claim()
          expect(names(claimed)).toEqual([name])
          yield* finish(line, claimed)
        }
      })
    )
  }

  law("a job of a key that is scheduled does not hold those that are due", (line) =>
    Effect.gen(function* () {
      yield* keyed(line, 1, "strict")
      yield* line.put({ key: "a", payload: "later", runAt: (yield* line.now) + 3_000 })
      yield* put(line, "a1")
      const claimed = yield* claimNow(line)
      expect(names(claimed)).toEqual(["a1"])
      yield* finish(line, claimed)
      yield* line.advance("3 seconds")
      expect(names(yield* claimNow(line))).toEqual(["later"])
    })
  )
}
