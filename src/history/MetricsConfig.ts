import { Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"

export const settings = {
  flush: Setting.duration(
    {
      key: "METRICS_FLUSH",
      about: "Interval at which a process writes its counts of the current minute. kill -9 loses at most this much."
    },
    "2s"
  ),
  retention: Setting.duration({ key: "METRICS_RETENTION", about: "Retention of counts and samples." }, "720h"),
  oldTransaction: Setting.duration(
    {
      key: "DATABASE_OLD_TRANSACTION",
      about: "Age at which an open transaction is logged as a vacuum blocker."
    },
    "5m"
  )
}

/** Settings for recorded metrics. */
export class MetricsConfig extends Context.Tag("nightshift/history/MetricsConfig")<
  MetricsConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<MetricsConfig, ConfigError> = Layer.effect(MetricsConfig, Setting.group(settings))
}
