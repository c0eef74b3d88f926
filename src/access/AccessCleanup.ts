import { Context, Duration, Effect, Layer, Schedule } from "effect"
import type { ConfigError } from "effect/ConfigError"
import type { Loop, Step } from "../core/Loop.js"
import * as Setting from "../core/Setting.js"
import { Audit } from "./Audit.js"
import { Idempotency } from "./Idempotency.js"
import { Sessions } from "./Sessions.js"

export const settings = {
  auditRetention: Setting.positiveDuration(
    { key: "AUDIT_RETENTION", about: "Retention of audit entries. Values of 0 or less use the default." },
    "2160h"
  )
}

/** Retention of access records. */
export class AccessRetentionConfig extends Context.Tag("nightshift/access/AccessRetentionConfig")<
  AccessRetentionConfig,
  Setting.Values<typeof settings>
>() {
  static readonly layer: Layer.Layer<AccessRetentionConfig, ConfigError> = Layer.effect(
    AccessRetentionConfig,
    Setting.group(settings)
  )
}

/** How long the stored response of an idempotency key can be replayed. */
const requestsRemembered = Duration.hours(24)

/** Deletes expired sessions, idempotency keys and audit entries. Concurrent runs are harmless. */
export const make: Effect.Effect<Loop, never, Audit | Sessions | Idempotency | AccessRetentionConfig> = Effect.gen(
  function* () {
    const audit = yield* Audit
    const sessions = yield* Sessions
    const idempotency = yield* Idempotency
    const { auditRetention } = yield* AccessRetentionConfig
    const step = (name: string, purge: Effect.Effect<number, unknown>): Step => ({
      name,
      timeout: "1 minute",
      run: Effect.map(purge, (gone) => ({ gone }))
    })
    return {
      name: "access cleanup",
      about: "every hour, deleting expired sessions, idempotency keys and audit entries",
      schedule: Schedule.spaced("1 hour"),
      runAtStart: true,
      steps: [
        step("sessions", sessions.purge),
        step("requests", idempotency.purge(requestsRemembered)),
        step("audit", audit.purge(auditRetention))
      ]
    }
  }
)
