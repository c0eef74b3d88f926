import { expect } from "@effect/vitest"
import { Clock, Duration, Effect, Either, Option, Random } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { makeGenerator, type PodId, type Term } from "../../src/core/Ids.js"
import { JobsMemory } from "../../src/queue/JobsMemory.js"
import * as Expression from "../../src/schedule/Expression.js"
import { Schedules } from "../../src/schedule/Schedules.js"
import * as SteppableClock from "../support/SteppableClock.js"
import { define, pass, worlds } from "./SchedulerStories.js"

interface Pod {
  readonly id: PodId
  /** The term in which the pod believes it leads, rightly or not. */
  believes: Option.Option<Term>
  downUntil: number
}

const lease = Duration.seconds(15)
/** A time span, both ends at midnight UTC. */
export interface Span {
  readonly from: number
  readonly to: number
}

/** A schedule and the number of its fires in the span, counted by hand. */
export interface Entry {
  readonly name: string
  readonly cron: string
  readonly timezone: string
  readonly count: number
}

const chance = (odds: number) => Effect.map(Random.next, (drawn) => drawn < odds)

/** One pod's step: it campaigns, learns the result or not, and fires if it believes it leads. */
const act = (pod: Pod) =>
  Effect.gen(function* () {
    const leadership = yield* Leadership
    const now = yield* Clock.currentTimeMillis
    if (pod.downUntil > now) return
    if (yield* chance(0.01)) pod.downUntil = now + (yield* Random.nextIntBetween(1_000, 3 * 86_400_000))
    const term = yield* leadership.campaign(pod.id, lease)
    if (yield* chance(0.9)) pod.believes = term
    if (Option.isSome(pod.believes)) yield* Effect.exit(pass(pod.believes.value))
  })

/** Steps from one due time to the next, a little late each time. */
const live = (pods: ReadonlyArray<Pod>, { to }: Span) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    for (let steps = 0; ; steps += 1) {
      const now = yield* Clock.currentTimeMillis
      const next = Option.getOrElse(yield* schedules.nextInstant, () => to)
      if (now >= to && next > to) return steps
      const late = yield* Random.nextIntBetween(0, 4_000)
      const someoneUp = Math.min(...pods.map(({ downUntil }) => downUntil))
      yield* SteppableClock.advance(Math.max(next - now, someoneUp - now, 1_000) + late)
      yield* Effect.forEach(pods, act, { concurrency: "unbounded" })
    }
  })

/**
 * Checks that three pods that come and go, with uncertain leadership, fire every tick once. Returns the number of their
 * steps.
 */
export const firesOnce = (span: Span, timetable: ReadonlyArray<Entry>) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    yield* SteppableClock.advance(span.from - (yield* Clock.currentTimeMillis))
    yield* Effect.forEach(timetable, ({ cron, name, timezone }) =>
      schedules.create(define({ name, cron, timezone, missed: { all: 1_000 } }))
    )
    const ids = yield* makeGenerator
    const pods = Array.from({ length: 3 }, () => ({ id: ids.pod(1), believes: Option.none<Term>(), downUntil: 0 }))
    const steps = yield* live(pods, span)
    const stored = new Map<string, Array<string>>(timetable.map(({ name }) => [name, []]))
    for (const { dedupe, meta } of yield* Effect.flatMap(JobsMemory, ({ all }) => all)) {
      const { schedule, tick } = Object(meta)
      expect(dedupe?.key).toBe(`schedule:${schedule}:${tick}`)
      stored.get(schedule)?.push(tick)
    }
    for (const { count, cron, name, timezone } of timetable) {
      const expression = Either.getOrThrow(Expression.parse(cron, timezone))
      const ticks = expression.preview(span.from, count).map((instant) => new Date(instant).toISOString())
      const fired = (stored.get(name) ?? []).filter((tick) => Date.parse(tick) <= span.to).sort()
      expect([name, ...fired]).toEqual([name, ...ticks])
    }
    return steps
  }).pipe(Effect.withRandom(Random.make("a year")), Effect.provide(worlds.memory))
