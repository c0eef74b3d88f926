import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Logger, LogLevel, TestClock } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Pod } from "../../src/crew/Pod.js"
import * as Claimer from "../../src/crew/worker/Claimer.js"
import { LocalQueue } from "../../src/crew/worker/LocalQueue.js"
import * as Prefetch from "../../src/crew/worker/Prefetch.js"
import { DatabaseFault } from "../../src/database/DatabaseError.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Metrics } from "../../src/telemetry/Metrics.js"

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
    }).pipe(
      Effect.provide(Layer.mergeAll(pod, Metrics.layer, Layer.provide(QueueMemory.layer, Wakeups.layer))),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  )
})
