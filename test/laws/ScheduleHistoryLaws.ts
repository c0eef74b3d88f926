import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { maxOutcomes, TickOutcome } from "../../src/schedule/TickOutcome.js"
import type { Law } from "./SchedulePlan.js"

const { CaughtUp, Fired, Missed, Skipped, Triggered } = TickOutcome

export const historyLaws = (law: Law) => {
  law("outcomes of ticks are listed newest first, and the row shows the last of each", (plan) =>
    Effect.gen(function* () {
      const { history, note } = plan.schedules
      yield* plan.schedules.create(plan.hourly())
      expect(yield* history(plan.name())).toEqual([])
      const ids = yield* makeGenerator
      const [first, second, third] = [ids.job(1), ids.job(2), ids.job(3)]
      const recorded = [
        Missed({ since: 1_000, at: 3_000 }),
        CaughtUp({ at: 4_000, job: first }),
        Skipped({ since: 5_000, at: 6_000 }),
        Fired({ at: 7_000, job: second })
      ]
      yield* note(plan.name(), recorded)
      yield* note(plan.name(), [])
      yield* note(plan.name(), [Triggered({ at: 8_500, job: third, by: "api:admin" })])
      expect(yield* history(plan.name())).toEqual([
        Triggered({ at: 8_500, job: third, by: "api:admin" }),
        ...recorded.toReversed()
      ])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        lastFireAt: 8_500,
        lastJobId: third,
        lastSkipAt: 6_000
      })
    })
  )

  law("ticks without a job keep the last job", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const job = (yield* makeGenerator).job(1)
      yield* plan.schedules.note(plan.name(), [Fired({ at: 1_000, job })])
      yield* plan.schedules.note(plan.name(), [Missed({ since: 2_000, at: 3_000 })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ lastFireAt: 1_000, lastSkipAt: undefined })
      yield* plan.schedules.note(plan.name(), [Skipped({ since: 4_000, at: 5_000 })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ lastFireAt: 1_000, lastSkipAt: 5_000 })
    })
  )

  law("the history is bounded, however entries arrive", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const fired = Array.from({ length: maxOutcomes + 15 }, (_, index) => Missed({ since: index, at: index }))
      const newest = fired.toReversed().slice(0, maxOutcomes)
      yield* plan.schedules.note(plan.name(), fired)
      expect(yield* plan.schedules.history(plan.name())).toEqual(newest)
      yield* plan.schedules.note(plan.name(), [Missed({ since: 900, at: 900 })])
      const kept = [Missed({ since: 900, at: 900 }), ...newest].slice(0, maxOutcomes)
      expect(yield* plan.schedules.history(plan.name())).toEqual(kept)
    })
  )

  law("concurrent writers lose no entries", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const writers = Array.from({ length: 8 }, (_, at) =>
        plan.schedules.note(plan.name(), [Missed({ since: at, at })])
      )
      yield* Effect.all(writers, { concurrency: "unbounded" })
      const remembered = yield* plan.schedules.history(plan.name())
      expect(remembered.map(({ at }) => at).toSorted()).toEqual([0, 1, 2, 3, 4, 5, 6, 7])
    })
  )

  law("an edit and a new declaration keep the history; a recreated schedule starts without one", (plan) =>
    Effect.gen(function* () {
      const missed = [Missed({ since: 1, at: 1 })]
      yield* plan.schedules.declare([plan.hourly()])
      yield* plan.schedules.note(plan.name(), missed)
      yield* plan.schedules.edit(plan.name(), { payload: 7 })
      yield* plan.schedules.declare([plan.hourly({ cron: "5 * * * *" })])
      expect(yield* plan.schedules.history(plan.name())).toEqual(missed)
      yield* plan.schedules.remove(plan.name())
      expect(yield* Effect.flip(plan.schedules.history(plan.name()))).toMatchObject({ _tag: "ScheduleNotFound" })
      yield* plan.schedules.create(plan.hourly())
      expect(yield* plan.schedules.history(plan.name())).toEqual([])
      for (const name of [plan.name("nobody"), "n\u0000", "two words"]) {
        expect(yield* Effect.flip(plan.schedules.history(name))).toMatchObject({ _tag: "ScheduleNotFound", name })
      }
    })
  )

  law("entries of a failed transaction are not kept", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      yield* plan.schedules.note(plan.name(), [Missed({ since: 1, at: 1 })])
      const failing = Effect.zipRight(
        plan.schedules.note(plan.name(), [Missed({ since: 2, at: 2 })]),
        Effect.fail("on purpose")
      )
      expect(yield* Effect.flip(plan.transactions.run(failing))).toBe("on purpose")
      expect(yield* plan.schedules.history(plan.name())).toEqual([Missed({ since: 1, at: 1 })])
    })
  )
}
