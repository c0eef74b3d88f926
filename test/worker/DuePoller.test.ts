import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, TestClock } from "effect"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as DuePoller from "../../src/worker/loops/DuePoller.js"
import { Supervisors } from "../../src/worker/slots/Supervisor.js"
import { WorkerConfig } from "../../src/worker/WorkerConfig.js"

const services = Layer.mergeAll(
  Supervisors.layer,
  WorkerConfig.layer,
  Metrics.layer,
  Layer.provide(QueueMemory.layer, Wakeups.layer)
)

/** A poller over these queues. Records the queues of each query; `due` is when their next jobs are due. */
const poller = (queues: ReadonlyArray<string>, due: ReadonlyMap<string, number> = new Map()) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const supervisors = yield* Supervisors
    const queries: Array<ReadonlyArray<string>> = []
    const woken: Array<string> = []
    for (const name of queues)
      supervisors.set(name, {
        slots: () => ({ wanted: 1, have: 1, busy: 0 }),
        wake: () => void woken.push(name)
      } as never)
    const nextDue = (names: ReadonlyArray<string>) =>
      Effect.sync(() => {
        queries.push(names)
        return new Map([...due].filter(([name]) => names.includes(name)))
      })
    const { ranShort } = yield* DuePoller.start.pipe(Effect.provideService(Queue, { ...queue, nextDue }))
    yield* TestClock.adjust("100 millis")
    return { queries, ranShort, woken }
  })

describe("the due poller", () => {
  it.scoped("asks once for all claims that ran short since its last query", () =>
    Effect.gen(function* () {
      const { queries, ranShort } = yield* poller(["mail"])
      queries.length = 0
      ranShort("mail")
      yield* TestClock.adjust("50 millis")
      ranShort("mail")
      ranShort("mail")
      yield* TestClock.adjust("50 millis")
      expect(queries).toHaveLength(1)
      yield* TestClock.adjust("200 millis")
      expect(queries).toHaveLength(1)
      ranShort("mail")
      yield* TestClock.adjust("100 millis")
      expect(queries).toHaveLength(2)
    }).pipe(Effect.provide(services))
  )

  it.scoped("asks for all queues at the poll interval, and in between only for those that ran short", () =>
    Effect.gen(function* () {
      const { queries, ranShort } = yield* poller(["mail", "reports", "images"])
      ranShort("reports")
      yield* TestClock.adjust("1 second")
      ranShort("images")
      ranShort("mail")
      yield* TestClock.adjust("1 second")
      const all = ["mail", "reports", "images"]
      expect(queries).toEqual([all, ["reports"], ["images", "mail"], all])
      yield* TestClock.adjust("2 seconds")
      expect(queries).toHaveLength(5)
    }).pipe(Effect.provide(services))
  )

  it.scoped("wakes a queue when its job is due, whichever queues it asked for since", () =>
    Effect.gen(function* () {
      const { ranShort, woken } = yield* poller(["mail", "reports"], new Map([["mail", 1_500]]))
      ranShort("reports")
      yield* TestClock.adjust("1399 millis")
      expect(woken).toEqual([])
      yield* TestClock.adjust("1 millis")
      expect(woken).toEqual(["mail"])
    }).pipe(Effect.provide(services))
  )
})
