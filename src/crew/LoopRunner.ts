import { type Cause, Clock, Duration, Effect, type Scope } from "effect"
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

/** A step that goes on failing is not news each time: a duty that turns every second would drown everything else. */
const silence = Duration.toMillis("1 minute")
const lastSaid = new WeakMap<Step, number>()

const sayFailure = (loop: Loop, step: Step, cause: Cause.Cause<unknown>) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    if (now - (lastSaid.get(step) ?? Number.NEGATIVE_INFINITY) < silence) return Effect.void
    lastSaid.set(step, now)
    return Effect.logError(`${loop.name} ${step.name} failed`, cause)
  })

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
    Effect.map(() => {
      lastSaid.delete(step)
      return true
    }),
    Effect.catchAllCause((cause) =>
      sayFailure(loop, step, cause).pipe(Effect.zipRight(step.failed ?? Effect.void), Effect.as(false))
    )
  )

/** One turn of a duty: every step has its own, whatever becomes of the others. */
export const runPass = (loop: Loop): Effect.Effect<void, never, Metrics> =>
  Effect.gen(function* () {
    const metrics = yield* Metrics
    const went = yield* Effect.forEach(loop.steps, (step) => runStep(loop, step))
    metrics.series(passes, { loop: loop.name, outcome: went.every(Boolean) ? "ok" : "error" }).add(1)
  })

/** A duty that turns until it is interrupted, pausing between turns. Nothing that happens in a turn can end it. */
export const repeatLoop = (
  loop: Loop,
  pause: Effect.Effect<void> = Effect.sleep(loop.every)
): Effect.Effect<never, never, Metrics> => {
  const forever = Effect.forever(Effect.zipRight(pause, runPass(loop)))
  return loop.atStart ? Effect.zipRight(runPass(loop), forever) : forever
}

/** Keeps a duty turning until the Scope closes. */
export const runLoop = (loop: Loop, pause?: Effect.Effect<void>): Effect.Effect<void, never, Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    yield* Effect.logInfo(`${loop.name} started: every ${DurationText.format(loop.every)}, ${loop.about}`)
    yield* Effect.forkScoped(repeatLoop(loop, pause))
    yield* Effect.addFinalizer(() => Effect.logInfo(`${loop.name} stopped`))
  })
