import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Fiber, Logger, Random, Schedule, TestClock } from "effect"
import { type Loop, type PassOutcome, repeated, repeatLoop, type Step } from "../../src/core/Loop.js"
import * as LoopSchedule from "../../src/core/LoopSchedule.js"
import { makeLatch } from "../../src/core/LoopSchedule.js"

/** Records the second in which each pass of a loop begins. */
const watched = (
  loop: Omit<Parameters<typeof repeated>[0], "name" | "run">,
  pass: (nth: number) => Effect.Effect<unknown, unknown> = () => Effect.void
) =>
  Effect.gen(function* () {
    const seconds: Array<number> = []
    const run = Effect.flatMap(Clock.currentTimeMillis, (now) => pass(seconds.push(now / 1000)))
    const fiber = yield* Effect.fork(repeated({ name: "watched", ...loop, run }))
    yield* TestClock.adjust(0)
    return { seconds, fiber }
  })

/** Captures log lines of level error. */
const errorLines = () => {
  const lines: Array<string> = []
  const logger = Logger.make(({ logLevel, message }) => {
    if (logLevel.label === "ERROR") lines.push(String(Array.isArray(message) ? message[0] : message))
  })
  return { lines, layer: Logger.replace(Logger.defaultLogger, logger) }
}

const spaced = Schedule.spaced("10 seconds")

describe("a loop", () => {
  it.effect("pauses for its interval after each pass, however long the pass took", () =>
    Effect.gen(function* () {
      const { seconds } = yield* watched({ schedule: spaced, runAtStart: true }, () => Effect.sleep("2 seconds"))
      yield* TestClock.adjust("40 seconds")
      expect(seconds).toEqual([0, 12, 24, 36])
    })
  )

  it.effect("waits for one interval first if it does not run at the start", () =>
    Effect.gen(function* () {
      const { seconds } = yield* watched({ schedule: spaced, runAtStart: false })
      yield* TestClock.adjust("25 seconds")
      expect(seconds).toEqual([10, 20])
    })
  )

  it.effect("is woken early by its latch, and pauses for the whole interval afterwards", () =>
    Effect.gen(function* () {
      const latch = makeLatch()
      const schedule = LoopSchedule.wakeable(spaced, latch.openedWithin)
      const { seconds } = yield* watched({ schedule, runAtStart: true })
      yield* TestClock.adjust("3 seconds")
      latch.open()
      yield* TestClock.adjust("10 seconds")
      expect(seconds).toEqual([0, 3, 13])
    })
  )

  it.effect("runs again at once if its latch was opened during the pass", () =>
    Effect.gen(function* () {
      const latch = makeLatch()
      const schedule = LoopSchedule.wakeable(spaced, latch.openedWithin)
      const { seconds } = yield* watched({ schedule, runAtStart: true }, (nth) =>
        Effect.zipRight(
          Effect.sync(() => (nth === 1 ? latch.open() : undefined)),
          Effect.sleep("1 second")
        )
      )
      yield* TestClock.adjust("5 seconds")
      expect(seconds).toEqual([0, 1])
    })
  )

  it.effect("backs off while passes fail, and starts over after one that succeeded", () =>
    Effect.gen(function* () {
      const schedule = LoopSchedule.backingOff(spaced, Schedule.exponential("1 second"))
      const failing = new Set([1, 2, 3, 5, 6])
      const { seconds } = yield* watched({ schedule, runAtStart: true }, (nth) =>
        failing.has(nth) ? Effect.fail("on purpose") : Effect.void
      )
      yield* TestClock.adjust("30 seconds")
      // Delays: 1, 2, 4 after failures, 10 after the success, 1, 2 after failures.
      expect(seconds).toEqual([0, 1, 3, 7, 17, 18, 20, 30])
    }).pipe(Effect.provide(errorLines().layer))
  )

  it.effect("spreads its retries when the backoff is jittered", () =>
    Effect.gen(function* () {
      const schedule = LoopSchedule.backingOff(spaced, Schedule.jittered(Schedule.spaced("10 seconds")))
      const { seconds } = yield* watched({ schedule, runAtStart: true }, () => Effect.fail("on purpose"))
      yield* TestClock.adjust("5 minutes")
      const delays = seconds.slice(1).map((second, index) => second - (seconds[index] ?? 0))
      expect(new Set(delays).size).toBeGreaterThan(delays.length / 2)
      expect(delays.filter((delay) => delay < 8 || delay > 12)).toEqual([])
    }).pipe(Effect.withRandom(Random.make("jitter")), Effect.provide(errorLines().layer))
  )

  it.effect("is idle until its event, and pauses from there", () =>
    Effect.gen(function* () {
      const latch = makeLatch()
      const { seconds } = yield* watched({ schedule: LoopSchedule.after(latch.opened, spaced), runAtStart: false })
      yield* TestClock.adjust("1 hour")
      latch.open()
      yield* TestClock.adjust("1 hour")
      expect(seconds).toEqual([3610])
    })
  )

  it.effect("runs at the time its last pass requested", () =>
    Effect.gen(function* () {
      let delay = 5_000
      const schedule = LoopSchedule.until((now) => now + delay, Effect.sleep)
      const { seconds } = yield* watched({ schedule, runAtStart: true }, (nth) =>
        Effect.sync(() => (delay = nth * 1_000))
      )
      yield* TestClock.adjust("7 seconds")
      expect(seconds).toEqual([0, 1, 3, 6])
    })
  )

  it.effect("runs at every event, and does not spin on an event that is always ready while passes fail", () =>
    Effect.gen(function* () {
      const { seconds } = yield* watched({ schedule: LoopSchedule.onEvent(Effect.void), runAtStart: true }, (nth) =>
        nth < 4 ? Effect.void : Effect.die("on purpose")
      )
      yield* TestClock.adjust("3 seconds")
      expect(seconds).toEqual([0, 0, 0, 0, 1, 2, 3])
    }).pipe(Effect.provide(errorLines().layer))
  )

  it.effect("yields to other fibers even if its event is always ready", () =>
    Effect.gen(function* () {
      const ready = Effect.async<void>((resume) => resume(Effect.void))
      const run = Effect.sync(() => {})
      const loop = repeated({ name: "eager", schedule: LoopSchedule.onEvent(ready), runAtStart: false, run })
      const fiber = yield* Effect.fork(loop)
      yield* Effect.yieldNow()
      yield* Fiber.interrupt(fiber)
    })
  )

  it.effect("survives errors, defects and timeouts; logs each step at most once a minute and counts every pass", () => {
    const { layer, lines } = errorLines()
    return Effect.gen(function* () {
      const outcomes: Array<PassOutcome> = []
      let ran = 0
      const step = (name: string, run: Step["run"]): Step => ({ name, timeout: "2 seconds", run })
      const loop: Loop = {
        name: "janitor",
        about: "",
        schedule: spaced,
        runAtStart: true,
        steps: [
          step("error", Effect.fail("on purpose")),
          step("defect", Effect.die(new Error("on purpose"))),
          step("interrupt", Effect.interrupt),
          step("hang", Effect.never),
          step(
            "fine",
            Effect.sync(() => ({ count: ++ran && 0 }))
          )
        ]
      }
      yield* Effect.fork(repeatLoop(loop, (outcome) => void outcomes.push(outcome)))
      // Passes at 0, 12, 24, 36, 48 and 60: the last is a minute after the first and is logged again.
      yield* TestClock.adjust("59 seconds")
      const failures = ["error", "defect", "interrupt", "hang"].map((name) => `janitor ${name} failed`)
      expect(lines).toEqual(failures)
      yield* TestClock.adjust("4 seconds")
      expect(lines).toEqual([...failures, ...failures])
      expect(outcomes).toEqual(Array(6).fill("error"))
      expect(ran).toBe(6)
    }).pipe(Effect.provide(layer))
  })

  it.effect("logs a failure at once if the step had succeeded in between", () => {
    const { layer, lines } = errorLines()
    return Effect.gen(function* () {
      yield* watched({ schedule: spaced, runAtStart: true }, (nth) => (nth === 2 ? Effect.void : Effect.fail("no")))
      yield* TestClock.adjust("30 seconds")
      expect(lines).toHaveLength(2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("stops during its pause and during its pass when it is interrupted", () =>
    Effect.gen(function* () {
      const latch = makeLatch()
      const schedule = LoopSchedule.wakeable(spaced, latch.openedWithin)
      const paused = yield* watched({ schedule, runAtStart: true })
      const busy = yield* watched({ schedule: spaced, runAtStart: true }, () => Effect.never)
      yield* Fiber.interruptAll([paused.fiber, busy.fiber])
      latch.open()
      yield* TestClock.adjust("1 minute")
      expect([paused.seconds, busy.seconds]).toEqual([[0], [0]])
    })
  )
})
