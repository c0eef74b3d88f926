import { Effect, Schedule, type Scope } from "effect"
import * as DurationText from "../core/DurationText.js"
import type { Loop, Report, Step } from "../core/Loop.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"

const passes = MetricSpec.counter("loop_passes_total", "Turns of background duties by how they went.", [
  "loop",
  "outcome"
])

const isEmpty = (report: Report) => Object.values(report).every((count) => count === 0)
const shown = (report: Report) =>
  Object.entries(report)
    .map(([name, count]) => `${name}=${count}`)
    .join(" ")

/** One step, within its time. It cannot fail: what goes wrong is logged, and counted as a step that did not go well. */
const runStep = (loop: Loop, step: Step): Effect.Effect<boolean> =>
  step.run.pipe(
    Effect.timeoutFail({
      duration: step.deadline,
      onTimeout: () => new Error(`took longer than ${DurationText.format(step.deadline)}`)
    }),
    Effect.tap((report) =>
      isEmpty(report)
        ? Effect.void
        : Effect.logInfo(`${loop.name} ${step.told?.(report) ?? `${step.name}: ${shown(report)}`}`)
    ),
    Effect.as(true),
    Effect.catchAllCause((cause) =>
      Effect.logError(`${loop.name} ${step.name} failed`, cause).pipe(
        Effect.zipRight(step.failed ?? Effect.void),
        Effect.as(false)
      )
    )
  )

/** One turn of a duty: every step has its own, whatever becomes of the others. */
export const pass = (loop: Loop): Effect.Effect<void, never, Metrics> =>
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const went = yield* Effect.forEach(loop.steps, (step) => runStep(loop, step))
    metrics.series(passes, { loop: loop.name, outcome: went.every(Boolean) ? "ok" : "error" }).add(1)
  })

/** Keeps a duty turning until the Scope closes. Nothing that happens in a turn can end it. */
export const keep = (loop: Loop): Effect.Effect<void, never, Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const every = DurationText.format(loop.every)
    yield* Effect.logInfo(`${loop.name} started: every ${every}, ${loop.about}`)
    const turns = Effect.repeat(pass(loop), Schedule.spaced(loop.every))
    yield* Effect.forkScoped(loop.atStart ? turns : Effect.delay(turns, loop.every))
    yield* Effect.addFinalizer(() => Effect.logInfo(`${loop.name} stopped`))
  })
