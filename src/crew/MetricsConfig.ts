import { Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"

export const settings = {
  flush: Setting.duration(
    {
      key: "METRICS_FLUSH",
      about:
        "How often a process that has counted something writes its counts of the open minute. A kill -9 loses no more."
    },
    "2s"
  ),
  retention: Setting.duration(
    { key: "METRICS_RETENTION", about: "How long the counts and samples of past minutes are kept." },
    "720h"
  ),
  oldTransaction: Setting.duration(
    {
      key: "DATABASE_OLD_TRANSACTION",
      about: "A transaction open for longer keeps vacuum from its work, and is warned of."
    },
    "5m"
  )
}

/** How a pod remembers what it measures. */
export class MetricsConfig extends Context.Tag("nightshift/crew/MetricsConfig")<
  MetricsConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<MetricsConfig, ConfigError> = Layer.effect(MetricsConfig, Setting.group(settings))
}
