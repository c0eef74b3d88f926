import { Context, Effect, Layer, Metric, type Scope } from "effect"
import { untilClosed } from "../core/Registration.js"
import { Family, type Series } from "./MetricFamily.js"
import type { MetricSpec } from "./MetricSpec.js"
import * as Prometheus from "./Prometheus.js"

export type Labels<Label extends string> = { readonly [K in Label]: string }

/** Metrics of this process. Each Layer has its own registry, so two pods in one process do not mix. */
export class Metrics extends Context.Tag("nightshift/telemetry/Metrics")<
  Metrics,
  {
    /** Returns the series with these labels, always the same object. Keep it in a variable on hot paths. */
    readonly series: <Label extends string>(spec: MetricSpec<Label>, labels: Labels<Label>) => Series

    /** Removes a series. The next call of `series` with these labels returns a new one. */
    readonly drop: <Label extends string>(spec: MetricSpec<Label>, labels: Labels<Label>) => void

    /**
     * Runs an effect before metrics are read, until the Scope closes: for values that are cheaper to query than to track.
     */
    readonly onRead: (refresh: Effect.Effect<void>) => Effect.Effect<void, never, Scope.Scope>

    /** Renders all metrics in Prometheus text format, including the program's own Effect metrics. */
    readonly render: Effect.Effect<string>
  }
>() {
  /** Makes a registry without metrics. */
  static readonly make = (): typeof Metrics.Service => {
    const families = new Map<string, Family>()
    const refreshers = new Set<Effect.Effect<void>>()

    return {
      series: (spec, labels) => {
        const family = families.get(spec.name) ?? new Family(spec)
        families.set(spec.name, family)
        return family.cell(spec.labels.map((label) => labels[label]))
      },
      drop: (spec, labels) => families.get(spec.name)?.drop(spec.labels.map((label) => labels[label])),
      onRead: (refresh) =>
        untilClosed(
          () => void refreshers.add(refresh),
          () => void refreshers.delete(refresh)
        ),
      render: Effect.gen(function* () {
        yield* Effect.forEach(refreshers, (refresh) => refresh, { discard: true })
        const own = [...families.values()]
        return Prometheus.renderFamilies(own) + Prometheus.renderEffectMetrics(yield* Metric.snapshot, own)
      })
    }
  }

  /** The registry of one process. */
  static readonly layer: Layer.Layer<Metrics> = Layer.sync(Metrics, Metrics.make)
}
