import { expect } from "@effect/vitest"
import { Deferred, Effect, Option } from "effect"
import { digestOf } from "../../src/database/SubjectText.js"
import type { ScheduleDefinition } from "../../src/schedule/ScheduleDefinition.js"
import type { ScheduleEdit } from "../../src/schedule/StoredSchedule.js"
import { hour, type Law } from "./SchedulePlan.js"

export const operatorLaws = (law: Law) => {
  law("a schedule is returned as it was created, due at its next time", (plan) =>
    Effect.gen(function* () {
      const given = plan.hourly({
        payload: { a: [1, null, "ä"], b: { c: true } },
        timezone: "Europe/Paris",
        queue: "mail",
        attempts: 3,
        overlap: "skip",
        missed: { all: 7 }
      })
      const now = yield* plan.now
      const made = yield* plan.schedules.create(given)
      expect(yield* plan.schedules.get(given.name)).toMatchObject({
        ...given,
        origin: "operator",
        edited: [],
        nextFireAt: now + hour,
        lastFireAt: undefined,
        lastSkipAt: undefined,
        lastError: undefined,
        lastJobId: undefined,
        createdAt: now,
        updatedAt: now
      })
      expect(made).toMatchObject(given)
    })
  )

  law("a schedule of an erased subject is removed; of one that code declares, a row without payload stays", (plan) =>
    Effect.gen(function* () {
      const subject = digestOf(plan.name())
      const [own, code] = [plan.hourly({ subject }), plan.hourly({ name: plan.name("code"), subject })]
      yield* plan.schedules.create(own)
      yield* plan.schedules.declare([code])
      yield* plan.schedules.create(plan.hourly({ name: plan.name("other"), subject: digestOf("other") }))
      expect((yield* plan.schedules.get(own.name)).subject).toBe(subject)
      expect(yield* plan.schedules.erase(subject, "count")).toBe(2)
      expect(yield* plan.schedules.erase(subject, "erase")).toBe(2)
      expect(yield* plan.schedules.erase(subject, "erase")).toBe(0)
      for (const name of [own.name, code.name])
        expect(yield* Effect.flip(plan.schedules.get(name))).toMatchObject({ _tag: "ScheduleNotFound" })
      // The next start of a process does not bring it back.
      yield* plan.schedules.declare([code])
      expect(yield* Effect.flip(plan.schedules.get(code.name))).toMatchObject({ _tag: "ScheduleNotFound" })
      yield* plan.schedules.get(plan.name("other"))
    })
  )

  law("an edit keeps the subject, replaces it or resets it", (plan) =>
    Effect.gen(function* () {
      const [first, second] = [digestOf("first"), digestOf("second")]
      const { name } = yield* plan.schedules.create(plan.hourly({ subject: first }))
      const subjectAfter = (edit: ScheduleEdit) =>
        Effect.map(plan.schedules.edit(name, edit), ({ after }) => after.subject)
      expect(yield* subjectAfter({ cron: "@daily" })).toBe(first)
      expect(yield* subjectAfter({ subject: second })).toBe(second)
      expect(yield* subjectAfter({ subject: null })).toBeUndefined()
      expect((yield* plan.schedules.get(name)).subject).toBeUndefined()
    })
  )

  law("a name is unique", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const again = yield* Effect.flip(plan.schedules.create(plan.hourly({ cron: "5 * * * *" })))
      expect(again).toMatchObject({ _tag: "ScheduleExists", name: plan.name() })
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ cron: "0 * * * *" })
    })
  )

  law("an invalid schedule is refused with its field, and nothing is written", (plan) =>
    Effect.gen(function* () {
      const refusals: ReadonlyArray<readonly [field: string, wrong: Partial<ScheduleDefinition>]> = [
        ["name", { name: "two words" }],
        ["name", { name: "n\u0000" }],
        ["kind", { kind: "" }],
        ["kind", { kind: "k\u0000" }],
        ["payload", { payload: undefined }],
        ["payload", { payload: "\ud800" }],
        ["payload", { payload: { big: 1n } }],
        ["payload", { payload: "x".repeat(70_000) }],
        ["cron", { cron: "60 * * * *" }],
        ["cron", { cron: "0 0 30 2 *" }],
        ["timezone", { timezone: "Mars/Olympus" }],
        ["queue", { queue: "a b" }],
        ["attempts", { attempts: 0 }],
        ["missed.all", { missed: { all: 1_001 } }]
      ]
      for (const [field, wrong] of refusals) {
        const refused = yield* Effect.flip(plan.schedules.create(plan.hourly(wrong)))
        expect(refused).toMatchObject({ _tag: "InvalidSchedule", field })
      }
      expect(yield* plan.schedules.list({ limit: 10 })).toEqual([])
    })
  )

  law("schedules are listed by name, page by page", (plan) =>
    Effect.gen(function* () {
      for (const letter of ["c", "a", "b"]) yield* plan.schedules.create(plan.hourly({ name: plan.name(letter) }))
      const page = (after?: string) =>
        Effect.map(plan.schedules.list({ limit: 2, after }), (found) => found.map((schedule) => schedule.name))
      expect(yield* page()).toEqual([plan.name("a"), plan.name("b")])
      expect(yield* page(plan.name("b"))).toEqual([plan.name("c")])
    })
  )

  law("an edit changes only the fields it names", (plan) =>
    Effect.gen(function* () {
      const made = yield* plan.schedules.create(plan.hourly({ queue: "mail", attempts: 3 }))
      yield* plan.advance("10 minutes")
      const { after, before } = yield* plan.schedules.edit(plan.name(), {
        payload: { name: "Grace" },
        queue: null,
        missed: { all: 3 }
      })
      expect(before).toMatchObject({ payload: { name: "Ada" }, queue: "mail" })
      expect(after).toMatchObject({
        payload: { name: "Grace" },
        queue: undefined,
        attempts: 3,
        missed: { all: 3 },
        nextFireAt: made.nextFireAt
      })
      expect(yield* plan.schedules.get(plan.name())).toEqual(after)
      const same = yield* plan.schedules.edit(plan.name(), { payload: { name: "Grace" }, missed: { all: 3 } })
      expect(same.after.revision).toBe(after.revision)
    })
  )

  law("an invalid edit is refused whole", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const refused = yield* Effect.flip(plan.schedules.edit(plan.name(), { kind: "other", cron: "nonsense" }))
      expect(refused).toMatchObject({ _tag: "InvalidSchedule", field: "cron" })
      const unwritable = yield* Effect.flip(plan.schedules.edit(plan.name(), { payload: { big: 1n } }))
      expect(unwritable).toMatchObject({ _tag: "InvalidSchedule", field: "payload" })
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ kind: "greet", cron: "0 * * * *" })
      const nobody = yield* Effect.flip(plan.schedules.edit(plan.name("nobody"), { kind: "other" }))
      expect(nobody).toMatchObject({ _tag: "ScheduleNotFound" })
    })
  )

  law("a new expression or time zone counts from now", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const now = yield* plan.now
      const { after } = yield* plan.schedules.edit(plan.name(), { cron: "*/10 * * * *" })
      expect(after.nextFireAt).toBe(now + 600_000)
      const moved = yield* plan.schedules.edit(plan.name(), { cron: "0 * * * *", timezone: "Asia/Kolkata" })
      expect(moved.after.nextFireAt).toBe(now + 1_800_000)
    })
  )

  law("a paused schedule is not due, and does not catch up when resumed", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      yield* plan.schedules.edit(plan.name(), { paused: true })
      yield* plan.advance("5 hours")
      expect(yield* plan.dueNames).toEqual([])
      expect(yield* plan.schedules.nextInstant).toEqual(Option.none())
      const { after } = yield* plan.schedules.edit(plan.name(), { paused: false })
      expect(after.nextFireAt).toBe((yield* plan.now) + hour)
      expect(yield* plan.dueNames).toEqual([])
    })
  )

  law("a removed schedule is gone, and its name is free", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      expect(yield* plan.schedules.remove(plan.name())).toMatchObject(plan.hourly())
      yield* plan.advance("2 hours")
      expect(yield* plan.dueNames).toEqual([])
      for (const act of [plan.schedules.get, plan.schedules.remove, plan.schedules.hold]) {
        expect(yield* Effect.flip(act(plan.name()))).toMatchObject({ _tag: "ScheduleNotFound", name: plan.name() })
      }
      yield* plan.schedules.create(plan.hourly({ cron: "5 * * * *" }))
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ cron: "5 * * * *" })
    })
  )

  law("listeners are notified of changes", (plan) =>
    Effect.scoped(
      Effect.gen(function* () {
        let told = () => {}
        yield* plan.schedules.onChange(() => told())
        const heardAfter = (act: Effect.Effect<unknown, unknown>) =>
          Effect.gen(function* () {
            const heard = yield* Deferred.make<void>()
            told = () => Deferred.unsafeDone(heard, Effect.void)
            yield* act
            yield* Deferred.await(heard)
          })
        yield* heardAfter(plan.schedules.create(plan.hourly()))
        yield* heardAfter(plan.schedules.edit(plan.name(), { paused: true }))
        yield* heardAfter(plan.schedules.remove(plan.name()))
        yield* heardAfter(plan.schedules.declare([plan.hourly({ name: plan.name("code") })]))
      })
    )
  )
}
