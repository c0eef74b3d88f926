import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Fiber, Option, Schema, TestClock } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Pods } from "../../src/cluster/Pods.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { TestShift } from "../../src/testing/TestShift.js"

const Long = Job.make("long", { payload: Schema.Struct({}) })

describe("a pod that stops", () => {
  it.effect("lets a job finish within the grace period", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Long.enqueue({})
      yield* shift.settle
      const stopping = yield* Effect.fork(shift.stopPod)
      yield* shift.settle
      yield* TestClock.adjust("20 seconds")
      yield* Fiber.join(stopping)
      expect(yield* shift.job(id)).toMatchObject({ state: "done", attempt: 1 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Long, () => Effect.sleep("20 seconds"))] })))
  )

  it.effect("returns the attempts of jobs it must interrupt, and returns prefetched jobs unchanged", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id: running } = yield* Long.enqueue({})
      const { id: waiting } = yield* Long.enqueue({})
      yield* shift.settle
      const stopping = yield* Effect.fork(shift.stopPod)
      yield* shift.settle
      yield* TestClock.adjust("25 seconds")
      yield* Fiber.join(stopping)
      expect(yield* shift.job(running)).toMatchObject({ state: "pending", attempt: 0, crashCount: 0 })
      expect(yield* shift.job(waiting)).toMatchObject({ state: "pending", attempt: 0, crashCount: 0 })
    }).pipe(Effect.provide(TestShift.layer({ slots: 1, handlers: [Handler.make(Long, () => Effect.sleep("1 hour"))] })))
  )
})

describe("a pod that crashes", () => {
  it.effect("is replaced by one that leads and has all the slots", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const leadership = yield* Leadership
      yield* shift.settle
      const first = Option.getOrThrow(yield* leadership.leader)
      yield* shift.crashPod
      yield* shift.settle
      const second = Option.getOrThrow(yield* leadership.leader)
      expect(second.pod).not.toBe(first.pod)
      const [pod, ...others] = yield* Effect.flatMap(Pods, (pods) => pods.live(Duration.hours(1)))
      expect(others).toEqual([])
      expect(pod).toMatchObject({ id: second.pod })
      yield* Effect.replicateEffect(Long.enqueue({}), 12)
      yield* shift.settle
      expect((yield* shift.jobs).filter(({ state }) => state === "running")).toHaveLength(10)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Long, () => Effect.never)] })))
  )

  it.effect("leaves its jobs to be recovered: due at once, the crash counted and the attempt returned", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Long.enqueue({})
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "running", attempt: 1 })
      yield* shift.crashPod
      yield* shift.settle
      expect(yield* shift.job(id)).toMatchObject({ state: "running", attempt: 1, crashCount: 0 })
      yield* shift.advance("1 hour")
      expect(yield* shift.job(id)).toMatchObject({ attempt: 1, crashCount: 1 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Long, () => Effect.sleep("2 hours"))] })))
  )

  it.effect("runs nothing more of its handlers", () => {
    const log: Array<string> = []
    const sending = Handler.make(Long, () =>
      Effect.sync(() => void log.push("begins")).pipe(
        Effect.zipRight(Effect.sleep("10 seconds")),
        Effect.zipRight(Effect.sync(() => void log.push("sends")))
      )
    )
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Long.enqueue({})
      yield* shift.settle
      yield* shift.crashPod
      yield* shift.advance("1 minute")
      expect([log, (yield* shift.job(id)).state]).toEqual([["begins"], "running"])
      yield* shift.advance("2 hours")
      expect([log, (yield* shift.job(id)).state]).toEqual([["begins", "begins", "sends"], "done"])
    }).pipe(Effect.provide(TestShift.layer({ handlers: [sending] })))
  })
})
