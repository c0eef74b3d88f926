import { expect, it } from "@effect/vitest"
import { type Clock, Duration, Effect, Exit, Fiber, TestClock } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Hints } from "../../src/database/Hints.js"
import * as JobWaits from "../../src/queue/search/JobWaits.js"

const rarely = 3_600_000

/** Timers ring early, as those of Node do by up to a millisecond. */
const withEarlyTimers = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Effect.clock, (clock) => {
    const early: Clock.Clock = Object.create(clock)
    early.sleep = (duration) => clock.sleep(Duration.times(duration, 0.9))
    return Effect.withClock(effect, early)
  })

it.scoped("an awaited job is read twice, before and after its announcement, even if timers ring early", () =>
  Effect.gen(function* () {
    const id = (yield* makeGenerator).job(0)
    const hints = yield* Hints
    // Here at once, then everywhere.
    let announcements = 0
    yield* hints.subscribe("awaited", () => {
      announcements += 1
    })
    const reads: Array<number> = []
    const { wait } = yield* withEarlyTimers(
      JobWaits.make<void, string, never>({
        name: "test",
        announcedOn: ["awaited"],
        changedOn: ["ended"],
        perQuery: 1,
        read: (waiters) =>
          Effect.sync(() => {
            reads.push(announcements)
            if (announcements === 2) for (const { answer } of waiters.get(id) ?? []) answer(Exit.succeed("ended"))
          })
      })
    )
    const waiter = yield* Effect.fork(wait(id, undefined))
    for (let step = 0; step < 100; step += 1) yield* TestClock.adjust("100 micros")
    expect(yield* Fiber.join(waiter)).toBe("ended")
    expect(reads).toEqual([1, 2])
  }).pipe(
    Effect.provide(Hints.layerLocal),
    Effect.provideService(JobWaits.EndPolling, { first: rarely, most: rarely, maxWithoutNotifications: rarely })
  )
)
