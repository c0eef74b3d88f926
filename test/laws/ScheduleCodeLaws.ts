import { expect } from "@effect/vitest"
import { Effect } from "effect"
import { hour, type Law } from "./SchedulePlan.js"

export const codeLaws = (law: Law) => {
  law("a declaration by code is created once, and repeating it writes nothing", (plan) =>
    Effect.gen(function* () {
      const both = [plan.hourly({ name: plan.name("a") }), plan.hourly({ name: plan.name("b") })]
      expect(yield* plan.schedules.declare(both)).toEqual([plan.name("a"), plan.name("b")])
      const first = yield* plan.schedules.get(plan.name("a"))
      expect(first).toMatchObject({ origin: "code", edited: [], nextFireAt: (yield* plan.now) + hour })
      yield* plan.advance("90 minutes")
      expect(yield* plan.schedules.declare(both)).toEqual([])
      expect(yield* plan.schedules.get(plan.name("a"))).toEqual(first)
    })
  )

  law("a changed declaration is applied", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.declare([plan.hourly()])
      const unwritable = plan.hourly({ payload: { big: 1n } })
      expect(yield* Effect.flip(plan.schedules.declare([unwritable]))).toMatchObject({ field: "payload" })
      yield* plan.advance("10 minutes")
      const changed = plan.hourly({ cron: "30 * * * *", payload: { name: "Grace" }, overlap: "skip" })
      expect(yield* plan.schedules.declare([changed])).toEqual([plan.name()])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        ...changed,
        nextFireAt: (yield* plan.now) + 20 * 60_000
      })
      expect(yield* plan.schedules.declare([{ ...changed, payload: { name: "Ada" } }])).toEqual([plan.name()])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ payload: { name: "Ada" } })
    })
  )

  law("code does not overwrite an operator's changes, and updates the rest", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.declare([plan.hourly()])
      yield* plan.schedules.edit(plan.name(), { cron: "15 * * * *", paused: true })
      yield* plan.schedules.declare([plan.hourly({ cron: "45 * * * *", payload: { name: "Grace" } })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        cron: "15 * * * *",
        paused: true,
        payload: { name: "Grace" },
        edited: ["cron", "paused"]
      })
    })
  )

  law("a schedule created by an operator stays the operator's", (plan) =>
    Effect.gen(function* () {
      const made = yield* plan.schedules.create(plan.hourly())
      expect(yield* plan.schedules.declare([plan.hourly({ cron: "45 * * * *" })])).toEqual([])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ cron: made.cron, origin: "operator" })
    })
  )

  law("code does not bring back what an operator removed, but an operator may", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.declare([plan.hourly()])
      yield* plan.schedules.remove(plan.name())
      expect(yield* plan.schedules.declare([plan.hourly({ cron: "45 * * * *" })])).toEqual([])
      expect(yield* plan.schedules.list({ limit: 10 })).toEqual([])
      yield* plan.schedules.create(plan.hourly({ cron: "50 * * * *" }))
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ cron: "50 * * * *", origin: "operator" })
      yield* plan.schedules.remove(plan.name())
      expect(yield* plan.schedules.declare([plan.hourly()])).toEqual([])
    })
  )

  law("declarations with one invalid schedule write none", (plan) =>
    Effect.gen(function* () {
      const wrong = [plan.hourly({ name: plan.name("a") }), plan.hourly({ name: plan.name("b"), cron: "61 * * * *" })]
      const refused = yield* Effect.flip(plan.schedules.declare(wrong))
      expect(refused).toMatchObject({ _tag: "InvalidSchedule", name: plan.name("b"), field: "cron" })
      expect(yield* plan.schedules.list({ limit: 10 })).toEqual([])
    })
  )

  law("a fixed declaration resumes a schedule that was paused for being broken", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.declare([plan.hourly()])
      yield* plan.schedules.pauseBroken(yield* plan.schedules.get(plan.name()), "no such day")
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ paused: true, lastError: "no such day" })
      yield* plan.schedules.declare([plan.hourly({ cron: "20 * * * *" })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        paused: false,
        lastError: undefined,
        nextFireAt: (yield* plan.now) + 20 * 60_000
      })
    })
  )
}
