import { describe, expect, it } from "@effect/vitest"
import { Clock, Effect, Layer, Schema } from "effect"
import type { Term } from "../../src/core/Ids.js"
import { runPass } from "../../src/core/Loop.js"
import * as Handler from "../../src/handlers/Handler.js"
import { type QueueWait, QueueWaits } from "../../src/history/QueueWaits.js"
import * as Job from "../../src/queue/Job.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { TestShift } from "../../src/testing/TestShift.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import * as WaitLog from "../../src/worker/loops/WaitLog.js"

const Call = Job.make("call", { payload: Schema.String, queue: "calls" })

/** The recorded waits, in memory. */
const waits = Layer.sync(QueueWaits, () => {
  let rows: ReadonlyArray<QueueWait> = []
  return {
    open: Effect.sync(() => rows.filter(({ until }) => until === undefined)),
    change: (changes) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        rows = [
          ...rows.map((row) => (row.until === undefined ? { ...row, until: now } : row)),
          ...changes.flatMap(({ queue, reason }) =>
            reason === undefined ? [] : [{ queue, reason, since: now, until: undefined }]
          )
        ]
      }),
    during: (queue) => Effect.sync(() => rows.filter((row) => row.queue === queue)),
    purge: () => Effect.succeed(0)
  }
})

const waitsOf = (queue: string) =>
  Effect.gen(function* () {
    const waits = yield* QueueWaits
    const found = yield* waits.during(queue, { from: 0, to: (yield* Clock.currentTimeMillis) + 1 })
    return found.map(({ reason, since, until }) => [reason, since / 1000, until === undefined ? "lasts" : until / 1000])
  })

describe("the leader's record of waits", () => {
  it.effect("names why due jobs of a queue waited, and nothing for jobs that start at once", () =>
    Effect.gen(function* () {
      const { advance } = yield* TestShift
      const queues = yield* Queues
      const term = (yield* WaitLog.make)(1 as Term)
      yield* Call.enqueue("now")
      yield* advance("1 minute")
      yield* runPass(term)
      expect(yield* waitsOf("calls")).toEqual([])
      yield* queues.change("calls", { paused: true })
      yield* Call.enqueue("later")
      yield* advance("4 seconds")
      yield* runPass(term)
      expect(yield* waitsOf("calls")).toEqual([])
      yield* advance("1 second")
      yield* runPass(term)
      yield* advance("5 seconds")
      yield* runPass(term)
      expect(yield* waitsOf("calls")).toEqual([["paused", 65, "lasts"]])
      // Another leader takes over.
      const next = (yield* WaitLog.make)(1 as Term)
      yield* runPass(next)
      expect(yield* waitsOf("calls")).toEqual([["paused", 65, "lasts"]])
      yield* queues.change("calls", { paused: false })
      yield* advance("5 seconds")
      yield* runPass(next)
      expect(yield* waitsOf("calls")).toEqual([["paused", 65, 75]])
    }).pipe(
      Effect.scoped,
      Effect.provide(Layer.merge(ClusterConfig.layer, waits)),
      Effect.provide(TestShift.layer({ handlers: [Handler.make(Call, () => Effect.void)] }))
    )
  )
})
