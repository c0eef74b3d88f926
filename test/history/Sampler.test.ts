import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Layer, Logger } from "effect"
import { Boot } from "../../src/core/Boot.js"
import { runPass } from "../../src/core/Loop.js"
import * as HistoryPg from "../../src/history/HistoryPg.js"
import { MetricsConfig } from "../../src/history/MetricsConfig.js"
import { PodSamples } from "../../src/history/PodSamples.js"
import * as Sampler from "../../src/history/Sampler.js"
import { EventLoop } from "../../src/telemetry/EventLoop.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const config = Layer.succeed(MetricsConfig, {
  flush: Duration.seconds(2),
  retention: Duration.days(30),
  oldTransaction: Duration.minutes(5)
})

const house = Layer.mergeAll(HistoryPg.layer, EventLoop.layer, config, Metrics.layer).pipe(
  Layer.provideMerge(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

/** Runs one pod's sampler and returns its log. */
const turn = Effect.gen(function* () {
  const lines: Array<string> = []
  const listening = Logger.replace(
    Logger.defaultLogger,
    Logger.make(({ message }) => void lines.push(String(message)))
  )
  const { id } = yield* Boot
  yield* Effect.flatMap(Sampler.make, runPass).pipe(Effect.provide(listening))
  return { id, lines }
}).pipe(Effect.provide(Boot.layer))

describe("the sampler", () => {
  it.scopedLive("stores each pod's resource usage, and one pod warns of a transaction that blocks vacuum", () =>
    Effect.gen(function* () {
      const pods = yield* PodSamples
      const holder = yield* TestDatabase.connection
      yield* Effect.promise(() => holder.query("begin isolation level repeatable read; select 1 from nightshift.job"))
      // This test's clock is years ahead of the server's, which makes the transaction look that old.
      const [first, second] = [yield* turn, yield* turn]
      expect(first.lines).toEqual([
        expect.stringMatching(
          /^a transaction has been open for .* \(session \d+\).* End it; nightshift doctor shows how$/
        )
      ])
      expect(second.lines).toEqual([])
      const now = yield* Effect.map(Effect.clock, (clock) => clock.unsafeCurrentTimeMillis())
      const series = yield* pods.series({ from: now, to: now + 60_000, width: Duration.minutes(1) })
      expect(series.map(({ pod }) => pod).toSorted()).toEqual([first.id, second.id].toSorted())
      expect(series[0]?.points[0]).toMatchObject({ cpu: expect.any(Number), pool: { waiting: 0 } })
      expect(series[0]?.points[0]?.rssBytes).toBeGreaterThan(1e7)
    }).pipe(Effect.provide(house))
  )
})
