import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, TestClock } from "effect"
import { CountsCache } from "../../src/http/jobs/CountsCache.js"
import { ListCache } from "../../src/http/jobs/ListCache.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch, SearchTooSlow, type Total } from "../../src/queue/search/JobSearch.js"
import * as Wakeups from "../../src/queue/Wakeups.js"

/** Lists over a queue in memory whose totals are slow. */
const listsCounting = (total: Effect.Effect<Total, SearchTooSlow>) => {
  const slow = Layer.effect(
    JobSearch,
    Effect.map(JobSearch, (search) => ({ ...search, total: () => total }))
  )
  return ListCache.layer.pipe(
    Layer.provideMerge(CountsCache.layer),
    Layer.provide(slow),
    Layer.provideMerge(QueueMemory.layer),
    Layer.provide(Wakeups.layer)
  )
}

const fill = (queueName: string, count: number) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const job = { kind: "greet", version: 1, queue: queueName, payload: {}, attempts: 5 }
    for (let left = count; left > 0; left -= 1_000) {
      yield* queue.enqueue(Array.from({ length: Math.min(left, 1_000) }, () => job))
    }
  })

const totalOf = (filter: Parameters<typeof ListCache.Service.page>[0]) =>
  Effect.gen(function* () {
    const { page } = yield* ListCache
    return (yield* page(filter, { limit: 2 })).total
  })

const counted = { count: 1_234, exact: true }

describe("the total beside a page of jobs", () => {
  it.scoped("is not counted when the queues' counts show that there are plenty", () =>
    Effect.gen(function* () {
      yield* fill("big", 20_001)
      yield* fill("small", 3)
      const plenty = { count: 10_000, exact: false }
      expect(yield* totalOf({ queue: "big" })).toEqual(counted)
      yield* (yield* CountsCache).read
      expect(yield* totalOf({ queue: "big" })).toEqual(plenty)
      expect(yield* totalOf({})).toEqual(plenty)
      expect(yield* totalOf({ queue: ["small", "big"], state: "pending" })).toEqual(plenty)
      expect(yield* totalOf({ queue: "small" })).toEqual(counted)
      expect(yield* totalOf({ queue: "big", kind: "greet" })).toEqual(counted)
      yield* TestClock.adjust("2 minutes")
      expect(yield* totalOf({ queue: "big" })).toEqual(counted)
    }).pipe(Effect.provide(listsCounting(Effect.succeed(counted))))
  )

  it.scoped("is a lower bound when counting takes too long", () =>
    Effect.gen(function* () {
      yield* fill("small", 3)
      expect(yield* totalOf({ queue: "small" })).toEqual({ count: 3, exact: false })
    }).pipe(Effect.provide(listsCounting(new SearchTooSlow({ seconds: 0.5 }))))
  )

  it.scoped("is the size of the page when that shows every job", () =>
    Effect.gen(function* () {
      yield* fill("small", 2)
      expect(yield* totalOf({ queue: "small" })).toEqual({ count: 2, exact: true })
    }).pipe(Effect.provide(listsCounting(Effect.dieMessage("counted"))))
  )
})
