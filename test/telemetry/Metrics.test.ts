import { describe, expect, it } from "@effect/vitest"
import { Effect, Metric } from "effect"
import * as MetricSpec from "../../src/telemetry/MetricSpec.js"
import { Metrics } from "../../src/telemetry/Metrics.js"

const swept = MetricSpec.counter("swept_total", "Rows swept.", ["outcome"])
const busy = MetricSpec.gauge("busy", "Slots at work.")
const wait = MetricSpec.histogram("wait_seconds", "Waiting.", ["queue"], [0.1, 1])

describe("Metrics", () => {
  it.effect("renders counters, gauges and cumulative histograms in Prometheus' form", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      metrics.series(swept, { outcome: "acked" }).add(2)
      metrics.series(swept, { outcome: "acked" }).add(1)
      metrics.series(swept, { outcome: "expired" }).add(0)
      metrics.series(busy, {}).set(7)
      for (const seconds of [0.05, 0.1, 0.5, 3]) metrics.series(wait, { queue: "mail" }).observe(seconds)
      expect(yield* metrics.render).toContain(
        [
          "# HELP nightshift_swept_total Rows swept.",
          "# TYPE nightshift_swept_total counter",
          'nightshift_swept_total{outcome="acked"} 3',
          'nightshift_swept_total{outcome="expired"} 0',
          "# HELP nightshift_busy Slots at work.",
          "# TYPE nightshift_busy gauge",
          "nightshift_busy 7",
          "# HELP nightshift_wait_seconds Waiting.",
          "# TYPE nightshift_wait_seconds histogram",
          'nightshift_wait_seconds_bucket{queue="mail",le="0.1"} 2',
          'nightshift_wait_seconds_bucket{queue="mail",le="1"} 3',
          'nightshift_wait_seconds_bucket{queue="mail",le="+Inf"} 4',
          'nightshift_wait_seconds_sum{queue="mail"} 3.65',
          'nightshift_wait_seconds_count{queue="mail"} 4',
          ""
        ].join("\n")
      )
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("escapes what stands in labels, so that a hostile name cannot forge a line", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      metrics.series(swept, { outcome: 'a"} 1\nforged{x="\\' }).add(1)
      expect(yield* metrics.render).toContain('nightshift_swept_total{outcome="a\\"} 1\\nforged{x=\\"\\\\"} 1\n')
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("looks up registered facts when it is read", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      yield* metrics.onRead(Effect.sync(() => metrics.series(busy, {}).add(1)))
      yield* metrics.render
      expect(yield* metrics.render).toContain("nightshift_busy 2\n")
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("shows the program's own Effect metrics too", () =>
    Effect.gen(function* () {
      yield* Metric.increment(Metric.counter("orders-shipped", { description: "Shipped." }))
      yield* Metric.update(Metric.tagged(Metric.gauge("shelf"), "place", "north"), 4)
      const text = yield* Effect.flatMap(Metrics, (metrics) => metrics.render)
      expect(text).toContain("# HELP orders_shipped Shipped.\n# TYPE orders_shipped counter\norders_shipped 1\n")
      expect(text).toContain('shelf{place="north"} 4\n')
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("keeps two worlds apart", () =>
    Effect.gen(function* () {
      const count = Effect.map(Metrics, (metrics) => metrics.series(swept, { outcome: "acked" }).add(5))
      yield* Effect.provide(count, Metrics.layer)
      const other = Effect.flatMap(Metrics, (metrics) => metrics.render).pipe(Effect.provide(Metrics.layer))
      expect(yield* other).not.toContain("swept_total")
    })
  )
})
