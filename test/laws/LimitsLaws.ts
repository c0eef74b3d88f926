import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Context, Duration, Effect, type Layer, type Scope } from "effect"
import type { AcquireOptions, RateLimits } from "../../src/rate-limits/RateLimits.js"
import type { Advance } from "./Line.js"

type Limits = typeof RateLimits.Service

/** Opens the limits as another pod of the same cluster. */
export class Pods extends Context.Tag("test/laws/LimitPods")<
  Pods,
  { readonly open: Effect.Effect<Limits, never, Scope.Scope> }
>() {}

/** The wait in milliseconds, or 0 when granted. */
const wait = (limits: Limits, scope: string, tokens?: number, options?: AcquireOptions) =>
  Effect.map(limits.acquire(scope, tokens, options), (answer) =>
    answer._tag === "Granted" ? 0 : Duration.toMillis(answer.after)
  )

/** Runs the effect as a pod whose clock is this far behind. */
const behind = <A, E, R>(effect: Effect.Effect<A, E, R>, millis: number): Effect.Effect<A, E, R> =>
  Effect.clockWith((clock) =>
    Effect.withClock(effect, {
      ...clock,
      [Clock.ClockTypeId]: Clock.ClockTypeId,
      unsafeCurrentTimeMillis: () => clock.unsafeCurrentTimeMillis() - millis,
      currentTimeMillis: Effect.map(clock.currentTimeMillis, (now) => now - millis)
    })
  )

let opened = 0

export const limitsLaws = (
  name: string,
  layer: Layer.Layer<Pods>,
  { advance, clock }: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: clock === "live" })(name, (it) => {
    const law = (
      title: string,
      story: (limits: Limits, scope: string) => Effect.Effect<void, unknown, Pods | Scope.Scope>
    ) =>
      it.scoped(title, () =>
        Effect.gen(function* () {
          opened += 1
          yield* advance("1 second")
          const limits = yield* Effect.flatMap(Pods, ({ open }) => open)
          yield* story(limits, `law-${opened}`)
        })
      )
    const anotherPod = Effect.flatMap(Pods, ({ open }) => open)

    law("a new bucket is full, and empty once its capacity is used", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 3, rate: 1 }])
        expect(yield* Effect.replicateEffect(wait(limits, scope), 4)).toEqual([0, 0, 0, 1000])
      })
    )

    law("a refused caller gets the exact wait, and is granted after it", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 3 }])
        expect(yield* wait(limits, scope, 10)).toBe(0)
        const waits = yield* wait(limits, scope, 7)
        expect(waits).toBe(Math.ceil(7_000 / 3))
        yield* advance(waits - 1)
        expect(yield* wait(limits, scope, 7)).toBe(1)
        yield* advance(1)
        expect(yield* wait(limits, scope, 7)).toBe(0)
      })
    )

    law("the returned wait is sufficient at every rate, even after many small refills", (limits, scope) =>
      Effect.forEach([0.1, 1 / 3, 7, 1 / 60, 0.7, 333], (rate, index) =>
        Effect.gen(function* () {
          const own = `${scope}.${index}`
          yield* limits.register([{ scope: own, capacity: 5, rate }])
          yield* wait(limits, own, 5)
          for (let turn = 0; turn < 12; turn += 1) {
            const waits = yield* wait(limits, own, 1 + (turn % 3))
            yield* advance(waits)
            expect(yield* wait(limits, own, 1 + (turn % 3))).toBe(0)
          }
        })
      )
    )

    law("tokens refill with elapsed time, up to the capacity", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 2 }])
        yield* wait(limits, scope, 10)
        yield* advance("1500 millis")
        expect((yield* limits.get(scope)).tokens).toBeCloseTo(3)
        expect(yield* wait(limits, scope, 3)).toBe(0)
        yield* advance("1 hour")
        expect((yield* limits.get(scope)).tokens).toBe(10)
        expect([yield* wait(limits, scope, 10), yield* wait(limits, scope)]).toEqual([0, 500])
      })
    )

    law("a clock that is behind neither adds nor removes tokens", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 10 }])
        yield* wait(limits, scope, 9)
        expect(yield* behind(wait(limits, scope), 60_000)).toBe(0)
        expect(yield* behind(wait(limits, scope), 60_000)).toBe(60_100)
        yield* advance("200 millis")
        expect(yield* wait(limits, scope, 2)).toBe(0)
        expect(yield* wait(limits, scope)).toBe(100)
      })
    )

    law("fifty concurrent callers get exactly ten tokens of ten", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 0.01 }])
        const pods = [limits, yield* anotherPod, yield* anotherPod]
        const answers = yield* Effect.all(
          Array.from({ length: 50 }, (_, index) => wait(pods[index % 3] ?? limits, scope)),
          { concurrency: "unbounded" }
        )
        expect(answers.filter((after) => after === 0)).toHaveLength(10)
        expect(new Set(answers)).toEqual(new Set([0, 100_000]))
      })
    )

    law("a request is granted whole or not at all", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 5, rate: 1 }])
        yield* wait(limits, scope, 3)
        expect(yield* wait(limits, scope, 3)).toBe(1000)
        expect((yield* limits.get(scope)).tokens).toBe(2)
        expect(yield* wait(limits, scope, 2)).toBe(0)
      })
    )

    law("callers that are refused in turn get staggered waits as tokens refill, within a minute", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 0.5 }])
        yield* wait(limits, scope, 10)
        const waits = yield* Effect.replicateEffect(wait(limits, scope, 1, { inTurn: true }), 62)
        expect(waits.slice(0, 31)).toEqual(Array.from({ length: 31 }, (_, index) => 2_000 * (index + 1)))
        expect(waits.slice(31)).toEqual(waits.slice(0, 31))
        expect(yield* wait(limits, scope)).toBe(2_000)
        expect(yield* wait(limits, scope, 1, { inTurn: true, ahead: 2 })).toBe(2_000)
        // A caller after the staggered waits gets the real wait.
        yield* advance("4 seconds")
        yield* wait(limits, scope, 2)
        expect(yield* wait(limits, scope, 1, { inTurn: true })).toBe(2_000)
      })
    )

    law("an undeclared scope is an error, not a wait", (limits, scope) =>
      Effect.gen(function* () {
        const unknown = { _tag: "UnknownScope", scope }
        expect(yield* Effect.flip(limits.acquire(scope))).toMatchObject(unknown)
        expect(yield* Effect.flip(limits.acquire(scope, 1, { ahead: 4 }))).toMatchObject(unknown)
        expect(yield* Effect.flip(limits.drain(scope))).toMatchObject(unknown)
        expect(yield* Effect.flip(limits.tune(scope, { rate: 2 }))).toMatchObject(unknown)
        expect(yield* Effect.flip(limits.get(scope))).toMatchObject(unknown)
      })
    )

    law("more than the capacity is an error, and so is an invalid number of tokens", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 5, rate: 1 }])
        const beyond = { _tag: "BeyondCapacity", asked: 6, capacity: 5 }
        expect(yield* Effect.flip(limits.acquire(scope, 6))).toMatchObject(beyond)
        expect(yield* Effect.flip(limits.acquire(scope, 6, { ahead: 2 }))).toMatchObject(beyond)
        for (const odd of [0, -1, 0.5, Number.NaN, Number.POSITIVE_INFINITY]) {
          expect(yield* Effect.flip(limits.acquire(scope, odd))).toMatchObject({ _tag: "InvalidLimit" })
        }
        expect((yield* limits.get(scope)).tokens).toBe(5)
      })
    )

    law("an invalid limit is refused with the whole declaration", (limits, scope) =>
      Effect.gen(function* () {
        const fine = { scope: `${scope}.fine`, capacity: 1, rate: 1 }
        const bad = [
          { scope: "", capacity: 1, rate: 1 },
          { scope: "a b", capacity: 1, rate: 1 },
          { scope, capacity: 0, rate: 1 },
          { scope, capacity: Number.NaN, rate: 1 },
          { scope, capacity: 1, rate: 0 },
          { scope, capacity: 1, rate: -1 },
          { scope, capacity: 1, rate: Number.POSITIVE_INFINITY },
          { scope, capacity: 1e9, rate: 1e-9 },
          { ...fine, capacity: 2 }
        ]
        for (const limit of bad) {
          expect(yield* Effect.flip(limits.register([fine, limit]))).toMatchObject({ _tag: "InvalidLimit" })
        }
        expect(yield* Effect.flip(limits.get(fine.scope))).toMatchObject({ _tag: "UnknownScope" })
        yield* limits.register([])
      })
    )

    law("a drained bucket is empty and refills from now", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 2 }])
        expect(yield* limits.drain(scope)).toMatchObject({ tokens: 0, dryUntil: undefined })
        expect(yield* wait(limits, scope)).toBe(500)
        yield* advance("500 millis")
        expect(yield* wait(limits, scope)).toBe(0)
      })
    )

    law(
      "a bucket drained for a while refills only after its end, and a shorter drain does not end it",
      (limits, scope) =>
        Effect.gen(function* () {
          yield* limits.register([{ scope, capacity: 10, rate: 2 }])
          const now = yield* Clock.currentTimeMillis
          expect(yield* limits.drain(scope, Duration.minutes(1))).toMatchObject({ tokens: 0, dryUntil: now + 60_000 })
          yield* limits.drain(scope, Duration.seconds(5))
          yield* limits.drain(scope)
          expect(yield* wait(limits, scope)).toBe(60_500)
          yield* advance("1 minute")
          expect(yield* wait(limits, scope)).toBe(500)
          yield* advance("500 millis")
          expect(yield* wait(limits, scope)).toBe(0)
          expect(yield* Effect.flip(limits.drain(scope, Duration.infinity))).toMatchObject({ _tag: "InvalidLimit" })
        })
    )

    law("the code's latest declaration applies, and keeps the tokens", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 1 }])
        yield* wait(limits, scope, 8)
        yield* advance("1 second")
        yield* limits.register([{ scope, capacity: 20, rate: 5 }])
        expect(yield* limits.get(scope)).toMatchObject({ tokens: 3, capacity: 20, rate: 5, tuned: false })
        yield* limits.register([{ scope, capacity: 2, rate: 5 }])
        expect(yield* limits.get(scope)).toMatchObject({ tokens: 2, capacity: 2 })
      })
    )

    law("an operator's tuning overrides the code until it is reset", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 1 }])
        const { after, before } = yield* limits.tune(scope, { rate: 4 })
        expect(before).toMatchObject({ capacity: 10, rate: 1, tuned: false })
        expect(after).toMatchObject({ capacity: 10, rate: 4, tuned: true, declared: { capacity: 10, rate: 1 } })
        yield* (yield* anotherPod).register([{ scope, capacity: 30, rate: 2 }])
        expect(yield* limits.get(scope)).toMatchObject({ capacity: 30, rate: 4, declared: { capacity: 30, rate: 2 } })
        yield* limits.tune(scope, { capacity: 5 })
        expect(yield* limits.get(scope)).toMatchObject({ capacity: 5, rate: 4, tokens: 5 })
        yield* limits.tune(scope, { capacity: null, rate: null })
        expect(yield* limits.get(scope)).toMatchObject({ capacity: 30, rate: 2, tuned: false })
      })
    )

    law(
      "tokens before a change are refilled at the old rate, and a wait is calculated at the new one",
      (limits, scope) =>
        Effect.gen(function* () {
          yield* limits.register([{ scope, capacity: 100, rate: 1 }])
          yield* wait(limits, scope, 100)
          yield* advance("10 seconds")
          yield* limits.tune(scope, { rate: 50 })
          expect((yield* limits.get(scope)).tokens).toBeCloseTo(10)
          expect(yield* wait(limits, scope, 60)).toBe(1000)
        })
    )

    law("an invalid tuning is refused and changes nothing", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 1 }])
        for (const patch of [{ capacity: 0 }, { rate: 0 }, { capacity: 20, rate: Number.NaN }, { rate: 1e-8 }]) {
          expect(yield* Effect.flip(limits.tune(scope, patch))).toMatchObject({ _tag: "InvalidLimit", scope })
        }
        expect(yield* limits.get(scope)).toMatchObject({ capacity: 10, rate: 1, tuned: false })
      })
    )

    law("all scopes are listed by name", (limits, scope) =>
      Effect.gen(function* () {
        const scopes = ["c", "a", "b"].map((letter) => `${scope}.${letter}`)
        yield* limits.register(scopes.map((own) => ({ scope: own, capacity: 1, rate: 1 })))
        const listed = (yield* limits.all).map((state) => state.scope)
        expect(listed.filter((own) => scopes.includes(own))).toEqual(scopes.toSorted())
      })
    )

    law("tokens that are prefetched are granted locally, and expire after a second", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 0.001 }])
        expect(yield* wait(limits, scope, 1, { ahead: 4 })).toBe(0)
        expect(yield* limits.get(scope)).toMatchObject({ tokens: 5, lent: 4 })
        yield* Effect.replicateEffect(wait(limits, scope, 1, { ahead: 4 }), 3)
        expect((yield* limits.get(scope)).tokens).toBe(5)
        yield* advance("1 second")
        expect(yield* limits.get(scope)).toMatchObject({ lent: 0 })
        expect((yield* limits.get(scope)).tokens).toBeCloseTo(5, 2)
        expect(yield* wait(limits, scope, 1, { ahead: 4 })).toBe(0)
        expect((yield* limits.get(scope)).tokens).toBeCloseTo(0, 2)
      })
    )

    law("the rest of a block is used by the next request", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 0.001 }])
        yield* wait(limits, scope, 1, { ahead: 4 })
        expect(yield* wait(limits, scope, 6, { ahead: 1 })).toBe(0)
        expect(yield* limits.get(scope)).toMatchObject({ tokens: 2, lent: 1 })
        expect(yield* wait(limits, scope, 3, { ahead: 1 })).toBe(0)
        expect(yield* wait(limits, scope, 1, { ahead: 1 })).toBeGreaterThan(0)
      })
    )

    law("a block counts against the capacity until it expires", (limits, scope) =>
      Effect.gen(function* () {
        const other = yield* anotherPod
        yield* limits.register([{ scope, capacity: 10, rate: 100 }])
        yield* wait(limits, scope, 1, { ahead: 4 })
        yield* advance("900 millis")
        // Long enough to refill what was taken, except for tokens that another pod may still use.
        expect((yield* other.get(scope)).tokens).toBe(6)
        expect(yield* wait(other, scope, 10)).toBe(100)
        yield* advance("100 millis")
        expect(yield* wait(other, scope, 10)).toBe(0)
        expect(yield* wait(limits, scope, 1, { ahead: 4 })).toBe(10)
      })
    )

    law("a drain discards this pod's prefetched tokens", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 1 }])
        yield* wait(limits, scope, 1, { ahead: 8 })
        yield* limits.drain(scope)
        expect(yield* wait(limits, scope, 1, { ahead: 8 })).toBe(1000)
      })
    )

    law("with blocks, fifty concurrent callers never get more than there is", (limits, scope) =>
      Effect.gen(function* () {
        yield* limits.register([{ scope, capacity: 10, rate: 0.01 }])
        const pods = [limits, yield* anotherPod, yield* anotherPod]
        const answers = yield* Effect.all(
          Array.from({ length: 50 }, (_, index) => wait(pods[index % 3] ?? limits, scope, 1, { ahead: 3 })),
          { concurrency: "unbounded" }
        )
        // One of the three pods may keep an unused block.
        const granted = answers.filter((after) => after === 0).length
        expect(granted).toBeLessThanOrEqual(10)
        expect(granted).toBeGreaterThanOrEqual(6)
      })
    )

    law("over any period, grants never exceed the initial tokens plus the refill", (limits, scope) =>
      Effect.gen(function* () {
        const pods = [limits, yield* anotherPod, yield* anotherPod]
        const capacity = 20
        const rate = 30
        yield* limits.register([{ scope, capacity, rate }])
        let seed = 7
        const next = (below: number) => {
          seed = (seed * 48_271) % 2_147_483_647
          return seed % below
        }
        const grants: Array<readonly [at: number, tokens: number]> = []
        for (let turn = 0; turn < 250; turn += 1) {
          if (next(3) === 0) yield* advance(next(400))
          const tokens = 1 + next(3)
          const pod = pods[next(3)] ?? limits
          if ((yield* wait(pod, scope, tokens, { ahead: next(2) * next(6) })) === 0) {
            grants.push([yield* Clock.currentTimeMillis, tokens])
          }
        }
        expect(grants.length).toBeGreaterThan(50)
        for (const [index, [from]] of grants.entries()) {
          let sum = 0
          for (const [at, tokens] of grants.slice(index)) {
            sum += tokens
            expect(sum).toBeLessThanOrEqual(capacity + ((at - from) / 1000) * rate + 1e-6)
          }
        }
      })
    )
  })
