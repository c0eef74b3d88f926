import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Schedule } from "effect"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Finalizer } from "../../src/worker/slots/Finalizer.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = Finalizer.layer.pipe(
  Layer.provideMerge(QueuePg.layer),
  Layer.provide(Listener.layerPolling),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provide(Metrics.layer)
)
const pod = "0198c0de-0000-7000-8000-000000000001" as never

describe("a job whose row another transaction has locked", () => {
  it.scopedLive("holds up the other results of its batch for two seconds, not for the statement timeout", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const finalizer = yield* Finalizer
      const job = { kind: "test", version: 1, queue: "ends", payload: {}, attempts: 5 }
      yield* queue.enqueue(Array.from({ length: 20 }, () => job))
      const [locked, ...others] = yield* queue.claim({ queue: "ends", pod, limit: 20 })
      if (locked === undefined) return yield* Effect.dieMessage("twenty were stored")
      const session = yield* TestDatabase.connection
      yield* Effect.promise(() => session.query("begin"))
      yield* Effect.promise(() => session.query("select from nightshift.job where id = $1 for update", [locked.id]))
      const written = new Set<string>()
      for (const each of [locked, ...others]) {
        const end = End.Done({ result: undefined })
        finalizer.offer({ id: each.id, lease: each.lease, end, written: () => void written.add(each.id) })
      }
      const over = Effect.sync(() => written.size >= others.length)
      // The statement timeout is thirty seconds.
      yield* Effect.timeout(
        Effect.repeat(over, { until: (all) => all, schedule: Schedule.spaced("50 millis") }),
        "20 seconds"
      )
      expect(written.has(locked.id)).toBe(false)
      expect(finalizer.held()).toMatchObject([{ id: locked.id, lease: locked.lease }])
      yield* Effect.promise(() => session.query("rollback"))
      yield* finalizer.drained
      expect(written.has(locked.id)).toBe(true)
      expect(finalizer.held()).toEqual([])
    }).pipe(Effect.provide(house))
  )
})
