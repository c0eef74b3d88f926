import { describe, expect, it } from "@effect/vitest"
import { Effect, Metric, MetricBoundaries } from "effect"
import * as MetricSpec from "../../src/telemetry/MetricSpec.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import * as PrometheusText from "../support/PrometheusText.js"

const swept = MetricSpec.counter("swept_total", "Rows swept.", ["outcome"])
const busy = MetricSpec.gauge("busy", "Slots at work.")
const wait = MetricSpec.histogram("wait_seconds", "Waiting.", ["queue"], [0.1, 1])

describe("Metrics", () => {
  it.effect("renders counters, gauges and cumulative histograms in Prometheus' format", () =>
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

  it.effect("escapes label values, so that a hostile name cannot forge a line", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      metrics.series(swept, { outcome: 'a"} 1\nforged{x="\\' }).add(1)
      expect(yield* metrics.render).toContain('nightshift_swept_total{outcome="a\\"} 1\\nforged{x=\\"\\\\"} 1\n')
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("evaluates registered gauges when it is read, until their scope closes", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      yield* Effect.gen(function* () {
        yield* metrics.onRead(Effect.sync(() => metrics.series(busy, {}).add(1)))
        yield* metrics.render
        expect(yield* metrics.render).toContain("nightshift_busy 2\n")
      }).pipe(Effect.scoped)
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

  it.effect("can be scraped whatever the program calls its metrics and tags", () =>
    Effect.gen(function* () {
      const metrics = yield* Metrics
      metrics.series(busy, {}).set(7)
      metrics.series(wait, { queue: "mail" }).observe(1)
      const count = (name: string, ...tags: ReadonlyArray<readonly [string, string]>) =>
        Metric.increment(tags.reduce((metric, [key, value]) => Metric.tagged(metric, key, value), Metric.counter(name)))
      // Names that collide after escaping, a name with another type, and Nightshift's own names.
      yield* count("odd.name")
      yield* count("odd-name")
      yield* Metric.update(Metric.gauge("odd name"), 1)
      yield* count("nightshift_busy")
      yield* count("nightshift_wait_seconds_count")
      yield* Metric.update(Metric.histogram("odd", MetricBoundaries.fromIterable([1, 2])), 1)
      yield* count("odd_count")
      yield* count("")
      yield* count("7 days\nof_the_week 1")
      // Tags that collide after escaping, reserved labels, and values that would end a line.
      yield* count(
        "odd_tags",
        ["a-b", "1"],
        ["a.b", "2"],
        ["x:y", "3"],
        ["__name__", "4"],
        ["le", "5"],
        ["quantile", "6"]
      )
      yield* count("odd_tags", ["z", 'a"} 1\nforged 1\\'])
      yield* Metric.update(Metric.frequency("odd_words"), 'b"\n')
      const text = yield* metrics.render
      const families = PrometheusText.parse(text)
      expect(PrometheusText.total(families, "nightshift_busy")).toBe(7)
      expect(families.get("odd_name")).toMatchObject({ type: "counter", samples: [{ value: 1 }] })
      expect(text).toContain('# left out: "nightshift_busy", because another metric has its name\n')
      expect(families.get("odd_tags")?.samples.map(({ labels }) => labels)).toEqual(
        expect.arrayContaining([
          { a_b: expect.any(String), x_y: "3", _name__: "4", exported_le: "5", exported_quantile: "6" },
          { z: 'a"} 1\nforged 1\\' }
        ])
      )
      expect(families.get("odd_words")?.samples).toMatchObject([{ labels: { key: 'b"\n' }, value: 1 }])
    }).pipe(Effect.provide(Metrics.layer))
  )

  it.effect("keeps two instances apart", () =>
    Effect.gen(function* () {
      const count = Effect.map(Metrics, (metrics) => metrics.series(swept, { outcome: "acked" }).add(5))
      yield* Effect.provide(count, Metrics.layer)
      const other = Effect.flatMap(Metrics, (metrics) => metrics.render).pipe(Effect.provide(Metrics.layer))
      expect(yield* other).not.toContain("swept_total")
    })
  )
})
