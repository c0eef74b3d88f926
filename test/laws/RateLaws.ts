import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { ends, type Law, type Line } from "./Line.js"
import { claimNow, set } from "./PauseLaws.js"

const put = (line: Line, count: number, more: object = {}) =>
  line.queue.enqueue(Array.from({ length: count }, (_, payload) => line.job({ payload, ...more })))

export const rateLaws = (law: Law): void => {
  law("claims take the tokens of the bucket, which refills evenly", (line) =>
    Effect.gen(function* () {
      yield* set(line, { rate: { jobs: 5, per: Duration.seconds(10) } })
      yield* put(line, 30)
      expect(yield* claimNow(line, 3)).toHaveLength(3)
      expect(yield* claimNow(line, 30)).toHaveLength(2)
      expect(yield* claimNow(line, 30)).toHaveLength(0)
      const empty = yield* line.now
      expect((yield* line.queue.nextDue([line.name])).get(line.name)).toBe(empty + 2_000)
      yield* line.advance("1999 millis")
      expect(yield* claimNow(line, 30)).toHaveLength(0)
      yield* line.advance("1 millis")
      expect(yield* claimNow(line, 30)).toHaveLength(1)
      yield* line.advance("5 seconds")
      expect(yield* claimNow(line, 30)).toHaveLength(2)
      yield* line.advance("1 hour")
      expect(yield* claimNow(line, 30)).toHaveLength(5)
    })
  )

  law("a claim that finds no job spends no token", (line) =>
    Effect.gen(function* () {
      yield* set(line, { rate: { jobs: 2, per: Duration.hours(1) } })
      expect(yield* claimNow(line)).toHaveLength(0)
      yield* put(line, 1)
      expect(yield* claimNow(line)).toHaveLength(1)
      yield* put(line, 5)
      expect(yield* claimNow(line)).toHaveLength(1)
      expect(yield* claimNow(line)).toHaveLength(0)
    })
  )

  law("a limit that is removed no longer applies, and a changed one starts with a full bucket", (line) =>
    Effect.gen(function* () {
      yield* set(line, { rate: { jobs: 1, per: Duration.hours(1) } })
      yield* put(line, 20)
      expect(yield* claimNow(line)).toHaveLength(1)
      yield* line.queues.change(line.name, { maxWorkers: 7 })
      expect(yield* claimNow(line)).toHaveLength(0)
      yield* line.queues.change(line.name, { rate: { jobs: 3, per: Duration.hours(1) } })
      expect(yield* claimNow(line)).toHaveLength(3)
      yield* line.queues.change(line.name, { rate: null })
      expect(yield* claimNow(line)).toHaveLength(10)
    })
  )

  law("concurrent claimers never take more than the bucket holds", (line) =>
    Effect.gen(function* () {
      yield* set(line, { rate: { jobs: 10, per: Duration.hours(1) } })
      yield* put(line, 100)
      const claims = yield* Effect.all(
        Array.from({ length: 50 }, () => claimNow(line, 3)),
        { concurrency: "unbounded" }
      )
      expect(claims.flat()).toHaveLength(10)
    })
  )

  law("a rate and a limit per key apply together", (line) =>
    Effect.gen(function* () {
      yield* set(line, {
        rate: { jobs: 3, per: Duration.seconds(3) },
        perKey: { concurrency: 1, order: "none" }
      })
      yield* line.queue.enqueue(["a", "a", "b", "b", "c", "d"].map((key) => line.job({ key, payload: key })))
      const first = yield* claimNow(line)
      expect(first.map(({ key }) => key)).toEqual(["a", "b", "c"])
      yield* line.queue.finalize(first.map((run) => ({ ...run, end: ends.done })))
      expect(yield* claimNow(line)).toEqual([])
      expect((yield* line.claim()).map(({ key }) => key)).toEqual(["d"])
      expect((yield* line.claim()).map(({ key }) => key)).toEqual(["a"])
    })
  )
}
