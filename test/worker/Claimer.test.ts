import { describe, expect, it } from "@effect/vitest"
import { type Duration, Effect, Layer, Logger, LogLevel, TestClock } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Pod } from "../../src/worker/Pod.js"
import * as Claimer from "../../src/worker/slots/Claimer.js"
import { LocalQueue } from "../../src/worker/slots/LocalQueue.js"
import * as Prefetch from "../../src/worker/slots/Prefetch.js"

const pod = Layer.effect(
  Pod,
  Effect.map(makeGenerator, (ids) => ({
    id: ids.pod(1),
    label: undefined,
    version: "0.0.0",
    host: { name: "test", pid: 1, node: "test" },
    startedAt: 0
  }))
)

const services = Layer.mergeAll(pod, Metrics.layer, Layer.provide(QueueMemory.layer, Wakeups.layer))

describe("the claimer", () => {
  it.scoped("continues after claims that failed or died, and counts them", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const fates = [Effect.fail(new DatabaseFault({ detail: "on purpose" })), Effect.die("on purpose")]
      let claims = 0
      let short = 0
      const flaky = { ...queue, claim: () => fates[claims++] ?? Effect.succeed([]) }
      yield* Claimer.start({
        queue: "mail",
        localQueue: new LocalQueue(),
        prefetch: { ...Prefetch.make(1), wanted: () => 1 },
        onShort: () => {
          short += 1
        }
      }).pipe(Effect.provideService(Queue, flaky))
      yield* TestClock.adjust("10 seconds")
      expect({ claims, short }).toEqual({ claims: 3, short: 1 })
      const text = yield* Effect.flatMap(Metrics, ({ render }) => render)
      expect(text).toContain('nightshift_claim_errors_total{queue="mail"} 2')
    }).pipe(Effect.provide(services), Logger.withMinimumLogLevel(LogLevel.None))
  )

  it.scoped("waits longer after each failure in a row, and starts over after a success", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const failed = Effect.fail(new DatabaseFault({ detail: "on purpose" }))
      const fates = [failed, failed, failed, failed, Effect.succeed([]), Effect.succeed([]), failed]
      let claims = 0
      const flaky = { ...queue, claim: () => fates[claims++] ?? Effect.succeed([]) }
      const claimer = yield* Claimer.start({
        queue: "mail",
        localQueue: new LocalQueue(),
        prefetch: { ...Prefetch.make(1), wanted: () => 1 },
        onShort: () => {}
      }).pipe(Effect.provideService(Queue, flaky))
      const claimsAfter = (wait: Duration.DurationInput) => Effect.map(TestClock.adjust(wait), () => claims)
      // Delays of 1, 2, 4 and 8 seconds, changed by a fifth at most.
      expect(yield* claimsAfter("5 seconds")).toBe(3)
      expect(yield* claimsAfter("20 seconds")).toBe(5)
      claimer.wake()
      expect(yield* claimsAfter(0)).toBe(6)
      claimer.wake()
      expect(yield* claimsAfter(0)).toBe(7)
      expect(yield* claimsAfter("1500 millis")).toBe(8)
    }).pipe(Effect.provide(services), Logger.withMinimumLogLevel(LogLevel.None))
  )
})
