import { Context, Layer } from "effect"
import type { ConfigError } from "effect/ConfigError"
import * as Setting from "../core/Setting.js"

export const settings = {
  auditRetention: Setting.positiveDuration(
    { key: "AUDIT_RETENTION", about: "Retention of audit entries. Values of 0 or less use the default." },
    "2160h"
  )
}

/** Retention of access records. */
export class AccessRetentionConfig extends Context.Tag("nightshift/crew/AccessRetentionConfig")<
  AccessRetentionConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<AccessRetentionConfig, ConfigError> = Layer.effect(
    AccessRetentionConfig,
    Setting.group(settings)
  )
}
