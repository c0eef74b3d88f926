import { Clock, Duration, Effect, type Scope } from "effect"
import type { LeaderLoop } from "../../core/Loop.js"
import { makeLatch, until } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { Batches, batchTopic } from "./Batches.js"

/** The pause is a twentieth of the newest open batch's age within these bounds: short batches are closed quickly. */
const shortest = Duration.toMillis("250 millis")
const longest = Duration.toMillis("30 seconds")

/** The pause without an open batch while hints arrive: a new batch sends one. */
const idle = Duration.toMillis("1 day")

/**
 * Closes batches whose jobs have all ended. It reads the jobs instead of counting their ends, because a job can end in
 * many ways: by its handler, an operator, the reaper or a delete. Without an open batch it waits for a hint.
 */
export const make: Effect.Effect<LeaderLoop, never, Batches | Hints | Scope.Scope> = Effect.gen(function* () {
  const batches = yield* Batches
  const hints = yield* Hints
  const latch = makeLatch()
  yield* hints.subscribe(batchTopic, latch.open)
  let pause = longest

  const close = Effect.gen(function* () {
    pause = longest
    const { closed, newestOpen } = yield* batches.close
    const now = yield* Clock.currentTimeMillis
    if (newestOpen !== undefined) pause = Math.min(longest, Math.max(shortest, (now - newestOpen) / 20))
    else if (yield* hints.connected) pause = idle
    return { closed }
  })

  return () => ({
    name: "batches",
    about: "closing batches whose jobs have ended",
    schedule: until((now) => now + pause, latch.openedWithin),
    runAtStart: true,
    steps: [{ name: "close", timeout: "30 seconds", run: close }]
  })
})
