import { Clock, Duration, Effect, type Scope } from "effect"
import type { LeaderLoop } from "../../core/Loop.js"
import { makeLatch, until } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { Events, subscriptionTopic } from "./Events.js"

/** The pause while a subscriber waits for transactions that began before it. */
const open = Duration.toMillis("1 second")

/** The pause without one, while hints arrive and while they do not: a new subscriber sends one. */
const idle = { hinted: Duration.toMillis("1 day"), polling: Duration.toMillis("30 seconds") }

/** The pause after windows were closed, in times that it took: with very many open events, a look at all of them is slow. */
const rest = 4

/** Delivers earlier events to new subscribers that start in the past, and closes the windows of subscribers that have them. */
export const make: Effect.Effect<LeaderLoop, never, Events | Hints | Scope.Scope> = Effect.gen(function* () {
  const events = yield* Events
  const hints = yield* Hints
  const latch = makeLatch()
  yield* hints.subscribe(subscriptionTopic, latch.open)
  let pause = open
  const fill = Effect.gen(function* () {
    pause = open
    const { isOpen, jobs } = yield* events.fill
    if (!isOpen) pause = (yield* hints.connected) ? idle.hinted : idle.polling
    return { jobs }
  })
  const close = Effect.gen(function* () {
    const longest = pause
    pause = open
    const begun = yield* Clock.currentTimeMillis
    const { jobs, nextAt = Number.POSITIVE_INFINITY } = yield* events.closeWindows
    const now = yield* Clock.currentTimeMillis
    pause = Math.min(longest, Math.max(rest * (now - begun), nextAt - now))
    return { jobs }
  })
  return () => ({
    name: "events",
    about: "delivering earlier events to new subscribers, and events that are joined in one job",
    schedule: until((now) => now + pause, latch.openedWithin),
    runAtStart: true,
    steps: [
      { name: "fill", timeout: "10 minutes", run: fill },
      { name: "close", timeout: "10 minutes", run: close, quiet: true }
    ]
  })
})
