import { Context, Duration, Effect, Layer, Schedule } from "effect"
import type { ConfigError } from "effect/ConfigError"
import { Audit } from "../../access/Audit.js"
import { Idempotency } from "../../access/Idempotency.js"
import { Sessions } from "../../access/Sessions.js"
import type { Loop, Step } from "../../core/Loop.js"
import * as Setting from "../../core/Setting.js"
import { JobAdmin, undoFor } from "../../queue/admin/JobAdmin.js"
import { Operations } from "../../queue/admin/Operations.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { runLoop } from "../LoopRunner.js"

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

/** How long the stored response of an idempotency key can be replayed. */
const requestsRemembered = Duration.hours(24)

type Needs = Audit | Sessions | Idempotency | Operations | JobAdmin | AccessRetentionConfig

/** Deletes expired sessions, idempotency keys and audit entries. The steps fail independently. */
const make: Effect.Effect<Loop, never, Needs> = Effect.gen(function* () {
  const audit = yield* Audit
  const sessions = yield* Sessions
  const idempotency = yield* Idempotency
  const operations = yield* Operations
  const jobAdmin = yield* JobAdmin
  const { auditRetention } = yield* AccessRetentionConfig
  const step = (name: string, purge: Effect.Effect<number, unknown>): Step => ({
    name,
    timeout: "1 minute",
    run: Effect.map(purge, (gone) => ({ gone }))
  })
  return {
    name: "access cleanup",
    about: "every hour, deleting expired sessions, idempotency keys, operations, audit entries and undo records",
    schedule: Schedule.spaced("1 hour"),
    runAtStart: true,
    steps: [
      step("sessions", sessions.purge),
      step("requests", idempotency.purge(requestsRemembered)),
      step("audit", audit.purge(auditRetention)),
      // The audit log has the result of an operation, so its progress is deleted after 7 days at most.
      step("operations", operations.purge(Duration.min(auditRetention, Duration.days(7)))),
      step("undo", jobAdmin.pruneUndo(undoFor))
    ]
  }
})

/** Runs in every process that serves HTTP. Concurrent runs are harmless. */
export const layer: Layer.Layer<never, never, Needs | Metrics> = Layer.scopedDiscard(Effect.flatMap(make, runLoop))
