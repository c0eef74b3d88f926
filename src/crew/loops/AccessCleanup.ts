import { Duration, Effect, Layer, Schedule } from "effect"
import { Audit } from "../../access/Audit.js"
import { Idempotency } from "../../access/Idempotency.js"
import { Sessions } from "../../access/Sessions.js"
import type { Loop, Step } from "../../core/Loop.js"
import { Operations } from "../../queue/admin/Operations.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { AccessRetentionConfig } from "../AccessRetentionConfig.js"
import { runLoop } from "../LoopRunner.js"

/** How long a request that came with a key of its own can be repeated. */
export const requestsRemembered = Duration.hours(24)

type Needs = Audit | Sessions | Idempotency | Operations | AccessRetentionConfig

/** Forgets what the doors remember and nobody needs any more. The steps do not wait for each other's luck. */
export const make: Effect.Effect<Loop, never, Needs> = Effect.gen(function* () {
  const audit = yield* Audit
  const sessions = yield* Sessions
  const idempotency = yield* Idempotency
  const operations = yield* Operations
  const { auditRetention } = yield* AccessRetentionConfig
  const step = (name: string, purge: Effect.Effect<number, unknown>): Step => ({
    name,
    timeout: "1 minute",
    run: Effect.map(purge, (gone) => ({ gone }))
  })
  return {
    name: "access cleanup",
    about: "every hour, forgetting ended logins, answered requests and old deeds",
    schedule: Schedule.spaced("1 hour"),
    runAtStart: true,
    steps: [
      step("sessions", sessions.purge),
      step("requests", idempotency.purge(requestsRemembered)),
      step("audit", audit.purge(auditRetention)),
      // What an operation did stands in the audit; how it went is of interest for a while.
      step("operations", operations.purge(Duration.min(auditRetention, Duration.days(7))))
    ]
  }
})

/** For every process that has doors: who comes second finds nothing left to do. */
export const layer: Layer.Layer<never, never, Needs | Metrics> = Layer.scopedDiscard(Effect.flatMap(make, runLoop))
