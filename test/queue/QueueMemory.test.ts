import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Layer, Random, TestClock } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { JobsMemory } from "../../src/queue/JobsMemory.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { type HeldJob, Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"

const layer = Layer.provideMerge(QueueMemory.layer, Wakeups.layer)

const job = (more: Partial<NewJob> = {}): NewJob => ({
  kind: "greet",
  version: 1,
  queue: "mail",
  payload: {},
  attempts: 5,
  ...more
})

/** A queue that records every wakeup, and helpers. */
const open = Effect.gen(function* () {
  const queue = yield* Queue
  const { onWake } = yield* Wakeups.Wakeups
  const pod = (yield* makeGenerator).pod(0)
  const woken: Array<string> = []
  for (const name of ["mail", "after"]) yield* onWake(name, () => woken.push(name))
  const claim = Effect.map(queue.claim({ queue: "mail", pod, limit: 10 }), ([first]) => first)
  const finalize = (held: HeldJob | undefined, end: End) =>
    held === undefined ? Effect.dieMessage("nothing was claimed") : queue.finalize([{ ...held, end }])
  return { queue, jobAdmin: yield* JobAdmin, woken, claim, finalize, heard: Effect.sync(() => woken.splice(0)) }
})

const onDead = { kind: "mourn", version: 1, queue: "after", payload: {}, attempts: 1 }

describe("the queue in memory", () => {
  it.scoped("wakes a queue exactly when one of its jobs may be due", () =>
    Effect.gen(function* () {
      const { claim, jobAdmin, finalize, heard, queue } = yield* open
      yield* queue.enqueue([job(), job({ queue: "after" }), job()])
      expect(yield* heard).toEqual(["mail", "after"])
      const [first] = yield* queue.enqueue([job({ onDead, priority: -1 })])
      expect(yield* heard).toEqual(["mail"])
      const run = yield* claim
      expect(yield* heard).toEqual([])
      yield* finalize(run, End.Again({ runAt: 0, counted: true, error: "no", remember: "failed" }))
      expect(yield* heard).toEqual(["mail"])
      yield* finalize(yield* claim, End.Dead({ reason: "rejected", counted: true, error: "no" }))
      expect(yield* heard).toEqual(["after"])
      if (first === undefined) return yield* Effect.dieMessage("one was stored")
      yield* jobAdmin.requeue(first.id)
      yield* jobAdmin.edit(first.id, { priority: -2 })
      yield* jobAdmin.runNow(first.id)
      expect(yield* heard).toEqual(["mail", "mail", "mail"])
      yield* claim
      yield* queue.recoverStuck(Duration.minutes(30))
      yield* TestClock.adjust("1 hour")
      yield* queue.recoverStuck(Duration.minutes(30))
      expect(yield* heard).toEqual(["mail"])
      yield* finalize(yield* claim, End.Done({ result: undefined }))
      expect(yield* heard).toEqual([])
    }).pipe(Effect.provide(layer))
  )

  it.scoped("recovers at the start of a process what has had no heartbeat for the limit", () =>
    Effect.gen(function* () {
      const { claim, queue } = yield* open
      yield* queue.enqueue([job({ payload: 1 }), job({ payload: 2 })])
      const recent = yield* Effect.zipRight(claim, claim)
      yield* TestClock.adjust("31 minutes")
      if (recent !== undefined) yield* queue.heartbeat([recent])
      const limit = Duration.minutes(30)
      expect(yield* queue.recoverAbandoned(limit)).toMatchObject({ rescued: recent === undefined ? 2 : 1 })
      expect(yield* queue.recoverAbandoned(limit)).toMatchObject({ rescued: 0 })
    }).pipe(Effect.provide(layer))
  )

  it.scoped("counts its changes, and exposes its state", () =>
    Effect.gen(function* () {
      const { claim, queue } = yield* open
      const memory = yield* JobsMemory
      const before = memory.changes()
      yield* queue.enqueue([job({ payload: 1 }), job({ payload: 2, queue: "after" })])
      const stored = memory.changes()
      expect(stored).toBeGreaterThan(before)
      expect((yield* memory.all).map(({ payload }) => payload)).toEqual([1, 2])
      yield* queue.nextDue(["mail"])
      yield* queue.recoverStuck(Duration.zero)
      expect(memory.changes()).toBe(stored)
      yield* claim
      expect(memory.changes()).toBeGreaterThan(stored)
    }).pipe(Effect.provide(layer))
  )

  it.scoped("shares no value with its callers", () =>
    Effect.gen(function* () {
      const { claim, queue } = yield* open
      const payload = { list: [1] }
      yield* queue.enqueue([job({ payload })])
      payload.list.push(2)
      const memory = yield* JobsMemory
      const [seen] = yield* memory.all
      expect(seen?.payload).toEqual({ list: [1] })
      Object.assign(seen?.payload ?? {}, { list: [] })
      expect((yield* claim)?.payload).toEqual({ list: [1] })
    }).pipe(Effect.provide(layer))
  )

  it.effect("is reproducible for a seed", () =>
    Effect.gen(function* () {
      const tell = (seed: string) =>
        Effect.gen(function* () {
          const { claim, finalize, queue } = yield* open
          yield* queue.enqueue([job({ onDead }), job()])
          yield* finalize(yield* claim, End.Dead({ reason: "rejected", counted: true, error: "no" }))
          return yield* Effect.flatMap(JobsMemory, ({ all }) => all)
        }).pipe(Effect.provide(layer), Effect.scoped, Effect.withRandom(Random.make(seed)))
      const told = yield* tell("seed")
      expect(told).toHaveLength(3)
      expect(yield* tell("seed")).toEqual(told)
      expect(yield* tell("another")).not.toEqual(told)
    })
  )
})
