import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Logger, Schedule, Scope, TestClock } from "effect"
import { type Loop, nothing } from "../../src/core/Loop.js"
import { runLoop } from "../../src/telemetry/LoopRunner.js"
import { Metrics } from "../../src/telemetry/Metrics.js"

describe("runLoop", () => {
  it.effect("counts passes by outcome, and stops when the Scope closes", () => {
    const lines: Array<string> = []
    const logger = Logger.make(({ message }) => void lines.push(String(Array.isArray(message) ? message[0] : message)))
    return Effect.gen(function* () {
      let passes = 0
      const loop: Loop = {
        name: "sweeper",
        about: "every minute, sweeping",
        schedule: Schedule.spaced("1 minute"),
        runAtStart: true,
        steps: [
          {
            name: "sweep",
            run: Effect.suspend(() => (++passes === 2 ? Effect.die("on purpose") : Effect.succeed(nothing)))
          }
        ]
      }
      const scope = yield* Scope.make()
      yield* Scope.extend(runLoop(loop), scope)
      yield* TestClock.adjust("3 minutes")
      yield* Scope.close(scope, Exit.void)
      yield* TestClock.adjust("1 hour")
      expect(passes).toBe(4)
      expect(lines).toEqual(["sweeper sweep failed"])
      const text = yield* Effect.flatMap(Metrics, ({ render }) => render)
      expect(text).toContain('nightshift_loop_passes_total{loop="sweeper",outcome="ok"} 3')
      expect(text).toContain('nightshift_loop_passes_total{loop="sweeper",outcome="error"} 1')
    }).pipe(Effect.provide(Metrics.layer), Effect.provide(Logger.replace(Logger.defaultLogger, logger)))
  })
})
