import { describe, expect, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Ref, Schema } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import type { Queue } from "../../src/queue/Queue.js"
import { type QueueSettingsPatch, Queues } from "../../src/queue/settings/QueueSettings.js"
import { TestShift } from "../../src/testing/TestShift.js"

/** Start time of each job, in seconds. */
class Starts extends Context.Tag("test/Starts")<Starts, Ref.Ref<ReadonlyArray<readonly [string, number]>>>() {}

const Call = Job.make("call", { payload: Schema.String, queue: "calls" })

const noted = (name: string) =>
  Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    yield* Ref.update(yield* Starts, (all) => [...all, [name, now / 1000] as const])
  })

const starts = Effect.flatMap(Starts, Ref.get)

const set = (patch: QueueSettingsPatch) =>
  Effect.gen(function* () {
    const queues = yield* Queues
    yield* queues.declare(["calls"])
    yield* queues.change("calls", patch)
  })

const shift = (run: (name: string) => Effect.Effect<unknown, string, Starts>, slots = 10) =>
  TestShift.layer({ slots, handlers: [Handler.make(Call, (name) => Effect.zipRight(noted(name), run(name)))] })

const onceThrottled = (options: Parameters<typeof Outcome.throttled>[0]) => (name: string) =>
  Effect.map(starts, (all) =>
    all.filter(([other]) => other === name).length > 1 ? undefined : Outcome.throttled(options)
  )

const noStarts = Ref.make<ReadonlyArray<readonly [string, number]>>([])

const story = <E>(
  name: string,
  layer: ReturnType<typeof shift>,
  told: Effect.Effect<void, E, TestShift | Queue | Queues | Starts>
) => it.effect(name, () => told.pipe(Effect.provide(layer), Effect.provideServiceEffect(Starts, noStarts)))

describe("a paused queue on a pod", () => {
  story(
    "starts no job while paused, and starts jobs at once when resumed",
    shift(() => Effect.void),
    Effect.gen(function* () {
      const { advance, settle } = yield* TestShift
      yield* set({ paused: true })
      yield* Call.enqueue("a")
      yield* advance("3 hours")
      expect(yield* starts).toEqual([])
      yield* set({ paused: false })
      yield* settle
      expect(yield* starts).toEqual([["a", 10_800]])
    })
  )
})

describe("a throttled job on a pod", () => {
  story(
    "delays the whole queue for a minute, then every job runs",
    shift(onceThrottled({}), 1),
    Effect.gen(function* () {
      const { advance, drain } = yield* TestShift
      yield* Call.enqueue("a")
      yield* Call.enqueue("b", { delay: "1 second" })
      yield* advance("59 seconds")
      expect(yield* starts).toEqual([["a", 0]])
      yield* drain
      expect(yield* starts).toEqual([
        ["a", 0],
        ["a", 60],
        ["b", 60],
        ["b", 120]
      ])
      expect((yield* (yield* TestShift).jobs).map(({ attempt, state }) => [state, attempt])).toEqual([
        ["done", 1],
        ["done", 1]
      ])
    })
  )

  story(
    "stops delaying its queue as soon as an operator ends the cool-down",
    shift(onceThrottled({ after: Duration.hours(1) })),
    Effect.gen(function* () {
      const { advance, settle } = yield* TestShift
      yield* Call.enqueue("a")
      yield* advance("10 seconds")
      yield* set({ throttledUntil: null })
      yield* settle
      expect(yield* starts).toEqual([
        ["a", 0],
        ["a", 10]
      ])
    })
  )

  story(
    "delays only its own key when the scope is key",
    shift(onceThrottled({ scope: "key", after: Duration.seconds(30) })),
    Effect.gen(function* () {
      const { advance, drain } = yield* TestShift
      yield* Call.enqueue("ada 1", { key: "ada" })
      yield* advance("1 second")
      yield* Call.enqueue("ada 2", { key: "ada" })
      yield* Call.enqueue("bob 1", { key: "bob" })
      yield* drain
      expect((yield* starts).filter(([name]) => name.endsWith("1"))).toEqual([
        ["ada 1", 0],
        ["bob 1", 1],
        ["ada 1", 30],
        ["bob 1", 31]
      ])
      expect((yield* starts).filter(([name]) => name === "ada 2")[0]).toEqual(["ada 2", 30])
    })
  )
})

describe("a limit per key on a pod", () => {
  story(
    "runs jobs of one key one after another, and different keys in parallel",
    shift(() => Effect.sleep("10 seconds")),
    Effect.gen(function* () {
      yield* set({ perKey: { concurrency: 1, order: "serial" } })
      for (const name of ["a1", "a2", "b1", "a3"]) yield* Call.enqueue(name, { key: name.slice(0, 1) })
      yield* (yield* TestShift).drain
      expect(yield* starts).toEqual([
        ["a1", 0],
        ["b1", 0],
        ["a2", 10],
        ["a3", 20]
      ])
    })
  )

  story(
    "waits through retries in strict order",
    shift((name) =>
      Effect.flatMap(starts, (all) => (name === "a1" && all.length < 3 ? Effect.fail("not yet") : Effect.void))
    ),
    Effect.gen(function* () {
      yield* set({ perKey: { concurrency: 1, order: "strict" } })
      yield* Call.enqueueMany(["a1", "a2"], { key: "a" })
      yield* (yield* TestShift).drain
      expect(yield* starts).toEqual([
        ["a1", 0],
        ["a1", 30],
        ["a1", 150],
        ["a2", 150]
      ])
    })
  )
})

describe("a rate on a pod", () => {
  story(
    "starts each job at the exact instant its token is refilled",
    shift(() => Effect.void),
    Effect.gen(function* () {
      yield* set({ rate: { jobs: 2, per: Duration.seconds(10) } })
      yield* Call.enqueueMany(["1", "2", "3", "4", "5"])
      yield* (yield* TestShift).drain
      expect((yield* starts).map(([, at]) => at)).toEqual([0, 0, 5, 10, 15])
    })
  )
})
