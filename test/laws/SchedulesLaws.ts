import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Deferred, Effect, type Layer, Option } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Transactions } from "../../src/queue/Transactions.js"
import type { ScheduleDefinition } from "../../src/schedule/ScheduleDefinition.js"
import { Outcome, Schedules } from "../../src/schedule/Schedules.js"
import type { Advance } from "./Line.js"

type Ports = Schedules | Transactions

const hour = 3_600_000

/** What a law has to work with: no schedules, a full hour, and words for what is done to them. */
interface Plan {
  readonly schedules: typeof Schedules.Service
  readonly transactions: typeof Transactions.Service
  readonly advance: Advance
  readonly now: Effect.Effect<number>
  /** A name that no other law uses. */
  readonly name: (more?: string) => string
  /** A definition that fires at every full hour. */
  readonly hourly: (more?: Partial<ScheduleDefinition>) => ScheduleDefinition
  readonly dueNames: Effect.Effect<ReadonlyArray<string>, unknown>
}

let opened = 0

const open = (advance: Advance): Effect.Effect<Plan, unknown, Ports> =>
  Effect.gen(function* () {
    opened += 1
    const own = `law-${String(opened).padStart(3, "0")}`
    const schedules = yield* Schedules
    const left = yield* schedules.list({ limit: 1_000 })
    yield* Effect.forEach(left, ({ name }) => schedules.remove(name))
    yield* advance(hour - ((yield* Clock.currentTimeMillis) % hour))
    const name = (more?: string) => (more === undefined ? own : `${own}-${more}`)
    return {
      schedules,
      transactions: yield* Transactions,
      advance,
      now: Clock.currentTimeMillis,
      name,
      hourly: (more = {}) => ({
        name: own,
        kind: "greet",
        payload: { name: "Ada" },
        cron: "0 * * * *",
        timezone: "UTC",
        queue: undefined,
        maxAttempts: undefined,
        overlap: "allow",
        missed: "one",
        enabled: true,
        ...more
      }),
      dueNames: Effect.map(schedules.due(100), (due) => due.map((schedule) => schedule.name))
    }
  })

type Law = (title: string, story: (plan: Plan) => Effect.Effect<void, unknown, never>) => void

/** What the port promises, whatever is behind it. All laws share the layer; each begins without schedules. */
export const schedulesLaws = (
  name: string,
  layer: Layer.Layer<Ports>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    const law: Law = (title, story) => it.effect(title, () => Effect.flatMap(open(options.advance), story))
    operatorLaws(law)
    codeLaws(law)
    firingLaws(law)
  })

const operatorLaws = (law: Law) => {
  law("a schedule is found as it was made, due at its next time", (plan) =>
    Effect.gen(function* () {
      const given = plan.hourly({
        payload: { a: [1, null, "ä"], b: { c: true } },
        timezone: "Europe/Paris",
        queue: "mail",
        maxAttempts: 3,
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

  law("a name is given once", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const again = yield* Effect.flip(plan.schedules.create(plan.hourly({ cron: "5 * * * *" })))
      expect(again).toMatchObject({ _tag: "ScheduleExists", name: plan.name() })
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ cron: "0 * * * *" })
    })
  )

  law("what cannot be is refused with its field, and nothing is written", (plan) =>
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
        ["maxAttempts", { maxAttempts: 0 }],
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

  law("an edit changes what it names and nothing else", (plan) =>
    Effect.gen(function* () {
      const made = yield* plan.schedules.create(plan.hourly({ queue: "mail", maxAttempts: 3 }))
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
        maxAttempts: 3,
        missed: { all: 3 },
        nextFireAt: made.nextFireAt
      })
      expect(yield* plan.schedules.get(plan.name())).toEqual(after)
      const same = yield* plan.schedules.edit(plan.name(), { payload: { name: "Grace" }, missed: { all: 3 } })
      expect(same.after.revision).toBe(after.revision)
    })
  )

  law("an edit that cannot be is refused whole", (plan) =>
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

  law("another expression or zone counts from now", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const now = yield* plan.now
      const { after } = yield* plan.schedules.edit(plan.name(), { cron: "*/10 * * * *" })
      expect(after.nextFireAt).toBe(now + 600_000)
      const moved = yield* plan.schedules.edit(plan.name(), { cron: "0 * * * *", timezone: "Asia/Kolkata" })
      expect(moved.after.nextFireAt).toBe(now + 1_800_000)
    })
  )

  law("a disabled schedule is not due, and enabled again it does not make up for the time between", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      yield* plan.schedules.edit(plan.name(), { enabled: false })
      yield* plan.advance("5 hours")
      expect(yield* plan.dueNames).toEqual([])
      expect(yield* plan.schedules.nextInstant).toEqual(Option.none())
      const { after } = yield* plan.schedules.edit(plan.name(), { enabled: true })
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

  law("whoever listens hears that something has changed", (plan) =>
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
        yield* heardAfter(plan.schedules.edit(plan.name(), { enabled: false }))
        yield* heardAfter(plan.schedules.remove(plan.name()))
        yield* heardAfter(plan.schedules.declare([plan.hourly({ name: plan.name("code") })]))
      })
    )
  )
}

const codeLaws = (law: Law) => {
  law("what code declares is made once, and the same declaration writes nothing", (plan) =>
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

  law("a declaration that has changed is taken over", (plan) =>
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

  law("code does not overwrite what an operator changed, and takes over the rest", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.declare([plan.hourly()])
      yield* plan.schedules.edit(plan.name(), { cron: "15 * * * *", enabled: false })
      yield* plan.schedules.declare([plan.hourly({ cron: "45 * * * *", payload: { name: "Grace" } })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        cron: "15 * * * *",
        enabled: false,
        payload: { name: "Grace" },
        edited: ["cron", "enabled"]
      })
    })
  )

  law("what an operator made stays an operator's", (plan) =>
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

  law("of declarations of which one cannot be, none is written", (plan) =>
    Effect.gen(function* () {
      const wrong = [plan.hourly({ name: plan.name("a") }), plan.hourly({ name: plan.name("b"), cron: "61 * * * *" })]
      const refused = yield* Effect.flip(plan.schedules.declare(wrong))
      expect(refused).toMatchObject({ _tag: "InvalidSchedule", name: plan.name("b"), field: "cron" })
      expect(yield* plan.schedules.list({ limit: 10 })).toEqual([])
    })
  )

  law("a declaration that is mended enables what was switched off because it was broken", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.declare([plan.hourly()])
      yield* plan.schedules.disableBroken(yield* plan.schedules.get(plan.name()), "no such day")
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ enabled: false, lastError: "no such day" })
      yield* plan.schedules.declare([plan.hourly({ cron: "20 * * * *" })])
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        enabled: true,
        lastError: undefined,
        nextFireAt: (yield* plan.now) + 20 * 60_000
      })
    })
  )
}

const firingLaws = (law: Law) => {
  law("a schedule is due from its instant on, the longest due first", (plan) =>
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

  law("of all who have read the same, one moves it on", (plan) =>
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

  law("nobody moves on what was changed, switched off, removed or made anew since it was read", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      const moves = Effect.map(plan.schedules.advance(read, (yield* plan.now) + 2 * hour), Option.isSome)
      yield* plan.advance("1 second")
      yield* plan.schedules.edit(plan.name(), { payload: 7 })
      expect(yield* moves).toBe(false)
      const { after } = yield* plan.schedules.edit(plan.name(), { enabled: false })
      expect(Option.isSome(yield* plan.schedules.advance(after, 0))).toBe(false)
      yield* plan.schedules.remove(plan.name())
      expect(yield* moves).toBe(false)
      yield* plan.schedules.create(plan.hourly())
      expect(yield* moves).toBe(false)
    })
  )

  law("what came of a tick is written down", (plan) =>
    Effect.gen(function* () {
      yield* plan.schedules.create(plan.hourly())
      const job = (yield* makeGenerator).job(1)
      yield* plan.schedules.note(plan.name(), Outcome.Fired({ at: 7_000, job }))
      yield* plan.schedules.note(plan.name(), Outcome.Skipped({ at: 8_000 }))
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({
        lastFireAt: 7_000,
        lastJobId: job,
        lastSkipAt: 8_000
      })
    })
  )

  law("a broken schedule is switched off with the reason, unless it was changed since it was read", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      yield* plan.schedules.edit(plan.name(), { cron: "5 * * * *" })
      expect(yield* plan.schedules.disableBroken(read, "why")).toBe(false)
      expect(yield* plan.schedules.disableBroken(yield* plan.schedules.get(plan.name()), "why")).toBe(true)
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ enabled: false, lastError: "why" })
      yield* plan.schedules.edit(plan.name(), { enabled: true })
      expect(yield* plan.schedules.get(plan.name())).toMatchObject({ enabled: true, lastError: undefined })
    })
  )

  law("a transaction that fails leaves every schedule as it was", (plan) =>
    Effect.gen(function* () {
      const read = yield* plan.schedules.create(plan.hourly())
      const job = (yield* makeGenerator).job(1)
      const all = Effect.gen(function* () {
        yield* plan.schedules.advance(read, (yield* plan.now) + 5 * hour)
        yield* plan.schedules.note(plan.name(), Outcome.Fired({ at: 1_000, job }))
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
