import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, TestClock } from "effect"
import { CrewConfig } from "../../src/crew/CrewConfig.js"
import * as DuePoller from "../../src/crew/loops/DuePoller.js"
import { Supervisors } from "../../src/crew/worker/Supervisor.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Metrics } from "../../src/telemetry/Metrics.js"

const services = Layer.mergeAll(
  Supervisors.layer,
  CrewConfig.layer,
  Metrics.layer,
  Layer.provide(QueueMemory.layer, Wakeups.layer)
)

describe("the due poller", () => {
  it.scoped("asks once for all claims that ran short since its last query", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const supervisors = yield* Supervisors
      let queries = 0
      const counting = {
        ...queue,
        nextDue: () =>
          Effect.sync(() => {
            queries += 1
            return new Map<string, number>()
          })
      }
      supervisors.set("mail", { slots: () => ({ wanted: 1, have: 1, busy: 0 }) } as never)
      const poller = yield* DuePoller.start.pipe(Effect.provideService(Queue, counting))
      yield* TestClock.adjust("100 millis")
      queries = 0
      poller.ranShort()
      yield* TestClock.adjust("50 millis")
      poller.ranShort()
      poller.ranShort()
      yield* TestClock.adjust("50 millis")
      expect(queries).toBe(1)
      yield* TestClock.adjust("200 millis")
      expect(queries).toBe(1)
      poller.ranShort()
      yield* TestClock.adjust("100 millis")
      expect(queries).toBe(2)
    }).pipe(Effect.provide(services))
  )
})
