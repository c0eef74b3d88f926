import { Duration, Effect, type Scope } from "effect"
import type { LeaderLoop } from "../../core/Loop.js"
import { makeLatch, until } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { Events, subscriptionTopic } from "./Events.js"

/** The pause while a subscriber waits for transactions that began before it. */
const open = Duration.toMillis("1 second")

/** The pause without one: a new subscriber sends a hint, which may be lost. */
const idle = Duration.toMillis("1 hour")

/** Delivers earlier events to new subscribers that start in the past. */
export const make: Effect.Effect<LeaderLoop, never, Events | Hints | Scope.Scope> = Effect.gen(function* () {
  const events = yield* Events
  const hints = yield* Hints
  const latch = makeLatch()
  yield* hints.subscribe(subscriptionTopic, latch.open)
  let pause = idle
  const fill = Effect.map(events.fill, ({ isOpen, jobs }) => {
    pause = isOpen ? open : idle
    return { jobs }
  })
  return () => ({
    name: "events",
    about: "delivering earlier events to new subscribers",
    schedule: until((now) => now + pause, latch.openedWithin),
    runAtStart: true,
    steps: [{ name: "fill", timeout: "10 minutes", run: fill }]
  })
})
