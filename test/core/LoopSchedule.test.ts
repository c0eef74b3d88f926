import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, TestClock } from "effect"
import { repeatLoop, single } from "../../src/core/Loop.js"
import { makeLatch, polling } from "../../src/core/LoopSchedule.js"
import { polled, type Topic } from "../../src/core/Versions.js"

/** A loop that polls every five seconds. Returns the seconds of its passes, and a function that reads a version as heartbeats do. */
const start = (dueAtSecond = Number.POSITIVE_INFINITY) =>
  Effect.gen(function* () {
    let due = dueAtSecond * 1000
    const passes: Array<number> = []
    const listeners = new Set<() => void>()
    let version: string | undefined
    const versions = {
      of: (_: Topic, __: Duration.Duration) => version,
      onRead: (listener: () => void) => {
        listeners.add(listener)
        return () => void listeners.delete(listener)
      }
    }
    const clock = yield* Effect.clock
    const latch = makeLatch()
    const changes = polled(versions, ["settings"], Duration.seconds(5))
    const loop = single({
      name: "polls",
      schedule: polling(Duration.seconds(5), { latch, polled: changes, due: () => due }),
      runAtStart: true,
      run: Effect.sync(() => {
        const seen = changes.begin()
        const now = clock.unsafeCurrentTimeMillis()
        passes.push(now / 1000)
        if (due <= now) due = Number.POSITIVE_INFINITY
        changes.passed(seen)
      })
    })
    yield* Effect.forkScoped(repeatLoop(loop))
    yield* TestClock.adjust(0)
    const read = (next: string | undefined) => {
      version = next
      for (const listener of listeners) listener()
    }
    return { latch, listeners, passes, read }
  })

describe("a loop that polls", () => {
  it.scoped("passes at its interval while no heartbeat reads a version", () =>
    Effect.gen(function* () {
      const { passes } = yield* start()
      yield* TestClock.adjust("12 seconds")
      expect(passes).toEqual([0, 5, 10])
    })
  )

  it.scoped(
    "does not pass while heartbeats read the version of its last pass, and at once when they read another one",
    () =>
      Effect.gen(function* () {
        const { listeners, passes, read } = yield* start()
        read("a")
        yield* TestClock.adjust("60 seconds")
        expect(passes).toEqual([0, 5])
        read("b")
        yield* TestClock.adjust("2 seconds")
        expect(passes).toEqual([0, 5, 60])
        // Not more often than its interval, whatever changes.
        read("c")
        yield* TestClock.adjust("1 second")
        expect(passes).toEqual([0, 5, 60])
        yield* TestClock.adjust("30 seconds")
        expect(passes).toEqual([0, 5, 60, 65])
        expect(listeners.size).toBe(1)
      })
  )

  it.scoped("passes at its interval again when heartbeats stop, or read that there is something to do", () =>
    Effect.gen(function* () {
      const { passes, read } = yield* start()
      read("a")
      yield* TestClock.adjust("20 seconds")
      read(undefined)
      yield* TestClock.adjust("11 seconds")
      expect(passes).toEqual([0, 5, 20, 25, 30])
    })
  )

  it.scoped("passes when the latch opens and at the instant that is due, whatever heartbeats read", () =>
    Effect.gen(function* () {
      const { latch, passes, read } = yield* start(33)
      read("a")
      yield* TestClock.adjust("20 seconds")
      latch.open()
      yield* TestClock.adjust("60 seconds")
      expect(passes).toEqual([0, 5, 20, 33])
    })
  )
})
