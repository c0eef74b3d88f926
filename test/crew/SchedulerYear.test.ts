import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Either, Option, Random } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import type { Term } from "../../src/core/Term.js"
import * as Scheduler from "../../src/crew/duties/Scheduler.js"
import { JobsMemory } from "../../src/queue/JobsMemory.js"
import * as Expression from "../../src/schedule/Expression.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SteppableClock from "../support/SteppableClock.js"
import { define, worlds } from "./SchedulerStories.js"

interface Pod {
  readonly id: PodId
  /** The term in which it believes to lead, rightly or not. */
  believes: Option.Option<Term>
  downUntil: number
}

const lease = Duration.seconds(15)
const year = { from: Date.UTC(2030, 0, 1), to: Date.UTC(2031, 0, 1) }

/** What each fires in 2030, counted by hand. */
const timetable = [
  // 365 days, of which one has 23 hours and one 25.
  { name: "paris-nightly", cron: "30 2 * * *", timezone: "Europe/Paris", count: 365 },
  { name: "new-york-nightly", cron: "30 1 * * *", timezone: "America/New_York", count: 365 },
  // Every third hour of UTC, and that of Lord Howe is half an hour beside it.
  { name: "every-three-hours", cron: "0 */3 * * *", timezone: "UTC", count: 8 * 365 },
  { name: "lord-howe-nightly", cron: "15 2 * * *", timezone: "Australia/Lord_Howe", count: 365 },
  { name: "santiago-midnight", cron: "@daily", timezone: "America/Santiago", count: 365 },
  // The year begins on a Tuesday: 52 weeks and that day.
  { name: "weekdays", cron: "0 9 * * MON-FRI", timezone: "Asia/Kolkata", count: 52 * 5 + 1 },
  { name: "month-end", cron: "0 12 L * *", timezone: "UTC", count: 12 },
  { name: "leap-day", cron: "0 0 29 2 *", timezone: "UTC", count: 0 }
]

const chance = (odds: number) => Effect.map(Random.next, (drawn) => drawn < odds)

/** One pod's moment: it campaigns, learns of the result or not, and fires if it believes to lead. */
const act = (pod: Pod) =>
  Effect.gen(function* () {
    const leadership = yield* Leadership
    const now = yield* Clock.currentTimeMillis
    if (pod.downUntil > now) return
    if (yield* chance(0.01)) pod.downUntil = now + (yield* Random.nextIntBetween(1_000, 3 * 86_400_000))
    const term = yield* leadership.campaign(pod.id, lease)
    if (yield* chance(0.9)) pod.believes = term
    if (Option.isSome(pod.believes)) yield* Effect.exit(Scheduler.pass(pod.believes.value))
  })

/** From one due instant to the next, a little late each time. */
const live = (pods: ReadonlyArray<Pod>) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    for (let steps = 0; ; steps += 1) {
      const now = yield* Clock.currentTimeMillis
      const next = Option.getOrElse(yield* schedules.nextInstant, () => year.to)
      if (now >= year.to && next > year.to) return steps
      const late = yield* Random.nextIntBetween(0, 4_000)
      const someoneUp = Math.min(...pods.map(({ downUntil }) => downUntil))
      yield* SteppableClock.advance(Math.max(next - now, someoneUp - now, 1_000) + late)
      yield* Effect.forEach(pods, act, { concurrency: "unbounded" })
    }
  })

describe("a year of three pods that come and go, and do not always know who leads", () => {
  it.live("has one job per schedule and tick", () =>
    Effect.gen(function* () {
      const schedules = yield* Schedules
      yield* Effect.forEach(timetable, ({ cron, name, timezone }) =>
        schedules.create(define({ name, cron, timezone, missed: { all: 1_000 } }))
      )
      const ids = yield* makeGenerator
      const pods = Array.from({ length: 3 }, () => ({ id: ids.pod(1), believes: Option.none<Term>(), downUntil: 0 }))
      const steps = yield* live(pods)
      expect(steps).toBeGreaterThan(3_000)
      const stored = new Map<string, Array<string>>(timetable.map(({ name }) => [name, []]))
      for (const { dedupe, meta } of yield* Effect.flatMap(JobsMemory, ({ all }) => all)) {
        const { schedule, tick } = Object(meta)
        expect(dedupe?.key).toBe(`schedule:${schedule}:${tick}`)
        stored.get(schedule)?.push(tick)
      }
      for (const { count, cron, name, timezone } of timetable) {
        const expression = Either.getOrThrow(Expression.parse(cron, timezone))
        const ticks = expression.preview(year.from, count).map((instant) => new Date(instant).toISOString())
        const fired = (stored.get(name) ?? []).filter((tick) => Date.parse(tick) <= year.to).sort()
        expect([name, ...fired]).toEqual([name, ...ticks])
      }
    }).pipe(Effect.withRandom(Random.make("a year")), Effect.provide(worlds.memory))
  )
})
