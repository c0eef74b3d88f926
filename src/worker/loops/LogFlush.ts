import { Effect, Schedule, type Scope } from "effect"
import { nothing } from "../../core/Loop.js"
import { after } from "../../core/LoopSchedule.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { AttemptLogs } from "../slots/AttemptLogs.js"

/** Stores what running attempts log, one second after a line, until the Scope closes. Sleeps while nothing is logged. */
export const start: Effect.Effect<void, never, AttemptLogs | Metrics | Scope.Scope> = Effect.flatMap(
  AttemptLogs,
  ({ flush, logged }) =>
    runLoop({
      name: "logs",
      about: "a second after a running job has logged, for all running jobs at once",
      schedule: after(logged, Schedule.spaced("1 second")),
      runAtStart: false,
      steps: [{ name: "flush", timeout: "10 seconds", run: Effect.as(flush, nothing) }]
    })
)
