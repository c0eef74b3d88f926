import { Duration, Effect, Layer, Schedule } from "effect"
import { Audit } from "../../access/Audit.js"
import { Idempotency } from "../../access/Idempotency.js"
import { Sessions } from "../../access/Sessions.js"
import type { Loop, Step } from "../../core/Loop.js"
import { JobAdmin, undoFor } from "../../queue/admin/JobAdmin.js"
import { Operations } from "../../queue/admin/Operations.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { AccessRetentionConfig } from "../AccessRetentionConfig.js"
import { runLoop } from "../LoopRunner.js"

/** How long the stored response of an idempotency key can be replayed. */
export const requestsRemembered = Duration.hours(24)

type Needs = Audit | Sessions | Idempotency | Operations | JobAdmin | AccessRetentionConfig

/** Deletes expired sessions, idempotency keys and audit entries. The steps fail independently. */
export const make: Effect.Effect<Loop, never, Needs> = Effect.gen(function* () {
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
      // The audit log keeps what an operation did; its progress is kept for 7 days at most.
      step("operations", operations.purge(Duration.min(auditRetention, Duration.days(7)))),
      step("undo", jobAdmin.forgetUndo(undoFor))
    ]
  }
})

/** Runs in every process that serves HTTP. Concurrent runs are harmless. */
export const layer: Layer.Layer<never, never, Needs | Metrics> = Layer.scopedDiscard(Effect.flatMap(make, runLoop))
