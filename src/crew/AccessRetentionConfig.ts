import { Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"

export const settings = {
  auditRetention: Setting.positiveDuration(
    { key: "AUDIT_RETENTION", about: "How long it is remembered who changed what. Not positive means the default." },
    "2160h"
  )
}

/** How long what happened at the doors is remembered. */
export class AccessRetentionConfig extends Context.Tag("nightshift/crew/AccessRetentionConfig")<
  AccessRetentionConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<AccessRetentionConfig, ConfigError> = Layer.effect(
    AccessRetentionConfig,
    Setting.group(settings)
  )
}
