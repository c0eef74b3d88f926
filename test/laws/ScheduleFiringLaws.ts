import { expect } from "@effect/vitest"
import { Effect, Option } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { TickOutcome } from "../../src/schedule/TickOutcome.js"
import { hour, type Law } from "./SchedulePlan.js"

export const firingLaws = (law: Law) => {
  law("a schedule is due from its exact time, the longest due first", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly({ name: plan.name("late"), cron: "30 * * * *" }))
      yield* plan.schedules.create(plan.hourly({ name: plan.name("early"), cron: "10 * * * *" }))
      const now = yield* plan.now
      expect(yield* plan.schedules.nextInstant).toEqual(Option.some(now + 600_000))
      expect(yield* plan.dueNames).toEqual([])
      yield* plan.advance("10 minutes")
      expect(yield* plan.dueNames).toEqual([plan.name("early")])
      yield* plan.advance("20 minutes")
      expect(yield* plan.dueNames).toEqual([plan.name("early"), plan.name("late")])
      expect(yield* plan.schedules.due(1)).toHaveLength(1)
      expect(yield* plan.schedules.nextInstant).toEqual(Option.some(now + 600_000))
    })
  )

  law("due schedules are read page by page, also those of the same instant", (plan) =>
    Effect.gen(function* () {
      const due = [...["a", "b", "c"].map((name) => [name, "10 * * * *"]), ["_", "30 * * * *"]] as const
      for (const [name = "", cron] of due) {
        yield* plan.schedules.create(plan.hourly({ name: plan.name(name), cron }))
      }
      yield* plan.advance("30 minutes")
      const read: Array<string> = []
      let [last] = yield* plan.schedules.due(1)
      while (last !== undefined) {
        read.push(last.name)
        ;[last] = yield* plan.schedules.due(1, last)
      }
      expect(read).toEqual(due.map(([name = ""]) => plan.name(name)))
    })
  )

  law("one of several readers of the same row advances it", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      const next = (yield* plan.now) + 2 * hour
      const tries = yield* Effect.all(
        Array.from({ length: 5 }, () => plan.schedules.advance(read, next)),
        { concurrency: "unbounded" }
      )
      const [winner, ...others] = tries.flatMap((moved) => (Option.isSome(moved) ? [moved.value] : []))
      expect(others).toEqual([])
      expect(winner).toMatchObject({ nextFireAt: next })
      expect(yield* plan.schedules.get(plan.name())).toEqual(winner)
    })
  )

  law("a schedule that was changed, paused, removed or recreated since it was read is not advanced", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      const moves = Effect.map(plan.schedules.advance(read, (yield* plan.now) + 2 * hour), Option.isSome)
      yield* plan.advance("1 second")
      yield* plan.schedules.edit(plan.name(), { payload: 7 })
      expect(yield* moves).toBe(false)
      const { after } = yield* plan.schedules.edit(plan.name(), { paused: true })
      expect(Option.isSome(yield* plan.schedules.advance(after, 0))).toBe(false)
      yield* plan.schedules.remove(plan.name())
      expect(yield* moves).toBe(false)
      yield* plan.schedules.create(plan.hourly())
      expect(yield* moves).toBe(false)
    })
  )

  law("the outcome of a tick is recorded", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const job = (yield* makeGenerator).job(1)
      yield* plan.schedules.note(plan.name(), [TickOutcome.Fired({ at: 7_000, job })])
      yield* plan.schedules.note(plan.name(), [TickOutcome.Skipped({ since: 8_000, at: 8_000 })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        lastFireAt: 7_000,
        lastJobId: job,
        lastSkipAt: 8_000
      })
    })
  )

  law("a broken schedule is paused with the reason, unless it was changed since it was read", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      yield* plan.schedules.edit(plan.name(), { cron: "5 * * * *" })
      expect(yield* plan.schedules.pauseBroken(read, "why")).toBe(false)
      expect(yield* plan.schedules.pauseBroken(yield* plan.schedules.get(plan.name()), "why")).toBe(true)
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ paused: true, lastError: "why" })
      yield* plan.schedules.edit(plan.name(), { paused: false })
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ paused: false, lastError: undefined })
    })
  )

  law("a transaction that fails leaves every schedule unchanged", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      const job = (yield* makeGenerator).job(1)
      const all = Effect.gen(function* () {
        yield* plan.schedules.advance(read, (yield* plan.now) + 5 * hour)
        yield* plan.schedules.note(plan.name(), [TickOutcome.Fired({ at: 1_000, job })])
        yield* plan.schedules.create(plan.hourly({ name: plan.name("other") }))
        yield* plan.schedules.edit(plan.name("other"), { payload: 1 })
        yield* plan.schedules.remove(plan.name("other"))
        return yield* Effect.fail("on purpose")
      })
      expect(yield* Effect.flip(plan.transactions.run(all))).toBe("on purpose")
      expect(yield* plan.schedules.list({ limit: 10 })).toEqual([yield* plan.schedules.get(plan.name())])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        nextFireAt: read.nextFireAt,
        lastFireAt: undefined
      })
      expect(Option.isSome(yield* plan.schedules.advance(read, (yield* plan.now) + 2 * hour))).toBe(true)
    })
  )
}
