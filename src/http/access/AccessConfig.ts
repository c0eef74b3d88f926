import { Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../../core/Setting.js"
import * as Masking from "../../telemetry/Masking.js"

export const settings = {
  sessionLasting: Setting.positiveDuration(
    {
      key: "NIGHTSHIFT_SESSION",
      about: "How long a login at Mission Control lasts without being used. Not positive means the default."
    },
    "12h"
  ),
  apiRate: Setting.integer(
    { key: "API_RATE_LIMIT", about: "How many requests a second the API takes from one token; 0 is no limit." },
    500,
    { min: 0, max: 1_000_000 }
  ),
  listeners: Setting.integer(
    { key: "LIVE_LISTENERS", about: "How many may follow live events of this process at a time." },
    100,
    { min: 0, max: 10_000 }
  )
}

/** What those who came in may ask for, and how long they stay. */
export class AccessConfig extends Context.Tag("nightshift/http/AccessConfig")<
  AccessConfig,
  Setting.Values<typeof settings & typeof Masking.settings>
>() {
  static readonly layer: Layer.Layer<AccessConfig, ConfigError> = Layer.effect(
    AccessConfig,
    Setting.group({ ...settings, ...Masking.settings })
  )
}
