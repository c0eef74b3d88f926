import { expect } from "@effect/vitest"
import { Duration, Effect } from "effect"
import { End } from "../../src/queue/AttemptEnd.js"
import type { QueueSettingsPatch } from "../../src/queue/settings/QueueSettings.js"
import { waiting } from "../support/States.js"
import { ends, type Law, type Line } from "./Line.js"

/** Declares the law's queue, with these settings. */
export const set = (line: Line, patch: QueueSettingsPatch) =>
  Effect.zipRight(line.queues.declare([line.name]), line.queues.change(line.name, patch))

/** Claims without advancing the clock. */
export const claimNow = (line: Line, limit = 10) => line.queue.claim({ queue: line.name, pod: line.pod, limit })

const payloads = (jobs: ReadonlyArray<{ readonly payload: unknown }>) => jobs.map(({ payload }) => payload)

/** The end of a throttled run. */
export const throttled = (after: Duration.DurationInput | undefined, runAt: number, scope: "queue" | "key" = "queue") =>
  End.Again({
    runAt,
    counted: false,
    error: undefined,
    remember: "throttled",
    cools: { scope, after: after === undefined ? undefined : Duration.toMillis(after) }
  })

/** Ends a run as throttled, as a pod does. */
const throttle = (
  line: Line,
  run: { readonly id: string; readonly runAt: number },
  after?: Duration.DurationInput,
  scope: "queue" | "key" = "queue"
) => line.end(run as never, throttled(after, run.runAt, scope))

/** Until when the law's queue cools down. */
export const untilOf = (line: Line) => Effect.map(line.queues.get(line.name), ({ throttledUntil }) => throttledUntil)

export const pauseLaws = (law: Law): void => {
  law("nothing is claimed while a queue is paused, and everything after it is resumed", (line) =>
    Effect.gen(function* () {
      yield* line.put({ payload: 1 })
      yield* set(line, { paused: true })
      expect(yield* claimNow(line)).toEqual([])
      yield* line.put({ payload: 2, key: "k" })
      expect(yield* line.claim()).toEqual([])
      expect((yield* line.queue.nextDue([line.name])).has(line.name)).toBe(false)
      yield* line.queues.change(line.name, { paused: false })
      expect(payloads(yield* claimNow(line)).sort()).toEqual([1, 2])
    })
  )

  law("running jobs may end while their queue is paused", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const run = yield* line.run()
      yield* line.queues.change(line.name, { paused: true })
      expect(yield* line.end(run, ends.done)).toMatchObject({ state: "done" })
    })
  )

  law("an undeclared queue can be claimed from", (line) =>
    Effect.gen(function* () {
      yield* line.put()
      expect(yield* line.claim()).toHaveLength(1)
    })
  )

  law("a throttled job returns its attempt and cools its queue down for a minute, once for all siblings", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* line.queue.enqueue([1, 2, 3].map((payload) => line.job({ payload })))
      const [first, second, third] = yield* line.claim()
      if (!first || !second || !third) return yield* Effect.dieMessage("three were stored")
      const now = yield* line.now
      expect(yield* throttle(line, first)).toMatchObject({ state: waiting, attempt: 0, runAt: first.runAt })
      expect(yield* untilOf(line)).toBe(now + 60_000)
      yield* line.advance("30 seconds")
      yield* throttle(line, second)
      expect(yield* line.queues.get(line.name)).toMatchObject({ throttledUntil: now + 60_000, throttleAttempts: 1 })
      // A longer delay of an upstream applies.
      yield* throttle(line, third, "40 seconds")
      expect(yield* line.queues.get(line.name)).toMatchObject({ throttledUntil: now + 70_000, throttleAttempts: 1 })
      expect(yield* claimNow(line)).toEqual([])
      expect((yield* line.queue.nextDue([line.name])).get(line.name)).toBe(now + 70_000)
      yield* line.advance("39999 millis")
      expect(yield* claimNow(line)).toEqual([])
      yield* line.advance("1 millis")
      expect(payloads(yield* claimNow(line))).toEqual([1, 2, 3])
      expect(yield* untilOf(line)).toBeUndefined()
    })
  )

  law("a queue with its own curve doubles its cool-down each time, up to the maximum", (line) =>
    Effect.gen(function* () {
      const backoff = { enabled: true, base: Duration.seconds(10), max: Duration.seconds(50) }
      yield* set(line, { backoff })
      yield* line.put()
      for (const seconds of [10, 20, 40, 50, 50]) {
        const run = yield* line.claimOne
        yield* throttle(line, run)
        expect(yield* untilOf(line)).toBe((yield* line.now) + seconds * 1_000)
        yield* line.advance(Duration.seconds(seconds))
      }
    })
  )

  law("a queue cools down for exactly the upstream's delay, whatever its curve", (line) =>
    Effect.gen(function* () {
      yield* line.put()
      yield* line.queues.declare([line.name])
      for (const enabled of [false, true]) {
        yield* set(line, { backoff: { enabled, base: Duration.seconds(10), max: Duration.seconds(50) } })
        for (const seconds of [1, 5, 300]) {
          yield* throttle(line, yield* line.claimOne, Duration.seconds(seconds))
          expect(yield* untilOf(line)).toBe((yield* line.now) + seconds * 1_000)
          yield* line.advance(Duration.seconds(seconds))
        }
      }
      // The curve continues at its step: explicit delays are not steps of it.
      yield* throttle(line, yield* line.claimOne)
      expect(yield* line.queues.get(line.name)).toMatchObject({
        throttledUntil: (yield* line.now) + 10_000,
        throttleAttempts: 1
      })
    })
  )

  law("the longest delay of concurrently throttled siblings applies", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      yield* line.queue.enqueue([1, 2, 3].map((payload) => line.job({ payload })))
      const runs = yield* line.claim()
      const now = yield* line.now
      const delays = ["1 second", "3 seconds", undefined] as const
      yield* line.queue.finalize(runs.map((run, index) => ({ ...run, end: throttled(delays[index], run.runAt) })))
      expect(yield* untilOf(line)).toBe(now + 3_000)
    })
  )

  law("the cool-down count resets after a success and two minutes without a cool-down, and not before", (line) =>
    Effect.gen(function* () {
      yield* set(line, { backoff: { enabled: true, base: Duration.seconds(10), max: Duration.hours(1) } })
      const attempts = Effect.map(line.queues.get(line.name), ({ throttleAttempts }) => throttleAttempts)
      yield* line.put()
      yield* throttle(line, yield* line.claimOne)
      yield* line.advance("1 hour")
      expect(yield* attempts).toBe(1)
      const done = yield* line.claimOne
      yield* line.queue.finalize([{ ...done, end: ends.done }])
      yield* line.advance("118 seconds")
      expect(yield* attempts).toBe(1)
      yield* throttle(line, yield* line.run())
      expect(yield* attempts).toBe(2)
      yield* line.advance("1 hour")
      yield* line.queue.finalize([{ ...(yield* line.claimOne), end: ends.done }])
      yield* line.advance("120 seconds")
      expect(yield* attempts).toBe(0)
      yield* throttle(line, yield* line.run())
      expect(yield* untilOf(line)).toBe((yield* line.now) + 10_000)
    })
  )

  law("an operator ends a cool-down at once", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const run = yield* line.run()
      yield* throttle(line, run, "1 hour")
      expect(yield* claimNow(line)).toEqual([])
      const { after } = yield* line.queues.change(line.name, { throttledUntil: null })
      expect(after).toMatchObject({ throttledUntil: undefined, throttleAttempts: 0 })
      expect(yield* claimNow(line)).toMatchObject([{ id: run.id, attempt: 1 }])
    })
  )

  law("a run that this pod has lost cools nothing down", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const run = yield* line.run()
      yield* line.end(run, ends.done)
      yield* throttle(line, run)
      expect(yield* untilOf(line)).toBeUndefined()
    })
  )

  law("a key that cools down delays only its own jobs", (line) =>
    Effect.gen(function* () {
      yield* line.queues.declare([line.name])
      const run = yield* line.run({ key: "a", payload: "a1" })
      yield* line.queue.enqueue([
        line.job({ key: "a", payload: "a2" }),
        line.job({ key: "b", payload: "b" }),
        line.job({ payload: "none" })
      ])
      const now = yield* line.now
      expect(yield* throttle(line, run, "10 seconds", "key")).toMatchObject({ state: waiting, attempt: 0 })
      expect(yield* untilOf(line)).toBeUndefined()
      expect(payloads(yield* claimNow(line)).sort()).toEqual(["b", "none"])
      yield* line.advance("9 seconds")
      expect(yield* claimNow(line)).toEqual([])
      yield* line.advance("1 second")
      expect(payloads(yield* claimNow(line))).toEqual(["a1", "a2"])
      expect(yield* line.now).toBe(now + 10_000)
    })
  )
}
