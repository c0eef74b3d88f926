import { Cause, Clock, Duration, Effect, FiberRef, Predicate, type Schedule } from "effect"
import * as DurationText from "./DurationText.js"

/** One part of a pass. Its failure does not keep the other steps from running. */
export interface Step {
  readonly name: string
  /** After this long the step is interrupted and counts as failed. Absent: it runs as long as it needs. */
  readonly timeout?: Duration.DurationInput
  /** Does its part and reports what it did; an empty report means that there was nothing to do. */
  readonly run: Effect.Effect<Report, unknown>
  /** The log line for a report, if it is not simply the report. */
  readonly describe?: (report: Report) => string
  /** Reports are logged for debugging only. */
  readonly quiet?: boolean
  /** Runs after the step failed or timed out. */
  readonly failed?: Effect.Effect<void>
}

/** What a step did, by name. */
export type Report = Readonly<Record<string, number>>

/** How a pass ended: `error` if one of its steps failed. */
export type PassOutcome = "ok" | "error"

/** A background loop: what one pass of it does, and the schedule that repeats it. */
export interface Loop {
  readonly name: string
  /** What the loop is for and how often it runs, for the log line at its start. */
  readonly about: string
  /** Decides when the next pass runs; its input is how the last one ended (see LoopSchedule). */
  readonly schedule: Schedule.Schedule<unknown, PassOutcome>
  /** Whether the first pass runs at the start, or after the schedule's first delay. */
  readonly runAtStart: boolean
  readonly steps: ReadonlyArray<Step>
}

/** The report of a step that found nothing to do. */
export const nothing: Report = {}

/** A loop of one step that reports nothing. */
export const single = ({
  run,
  ...loop
}: Omit<Loop, "about" | "steps"> & { readonly run: Effect.Effect<unknown, unknown> }): Loop => ({
  ...loop,
  about: "",
  steps: [{ name: "pass", run: Effect.as(run, nothing) }]
})

const isEmpty = (report: Report) => Object.values(report).every((count) => count === 0)
const shown = (report: Report) =>
  Object.entries(report)
    .map(([name, count]) => `${name}=${count}`)
    .join(" ")

/** A repeated failure is logged at most this often. */
const logInterval = Duration.toMillis("1 minute")
const loggedAt = new WeakMap<Step, number>()

/** Whether the step failed because it had no connection to the database, for which there is one log line per process. */
export const isConnectionLost = (cause: Cause.Cause<unknown>): boolean => {
  const error = Cause.squash(cause)
  return Predicate.hasProperty(error, "connectionLost") && error.connectionLost === true
}

const logFailure = (loop: Loop, step: Step, cause: Cause.Cause<unknown>) =>
  Effect.flatMap(Clock.currentTimeMillis, (now) => {
    if (isConnectionLost(cause)) return Effect.logDebug(`${loop.name} ${step.name} failed`, cause)
    if (now - (loggedAt.get(step) ?? Number.NEGATIVE_INFINITY) < logInterval) return Effect.void
    loggedAt.set(step, now)
    return Effect.logError(`${loop.name} ${step.name} failed`, cause)
  })

const withinTimeout = ({ run, timeout }: Step) =>
  timeout === undefined
    ? run
    : Effect.timeoutFail(run, {
        duration: timeout,
        onTimeout: () => new Error(`took longer than ${DurationText.format(timeout)}`)
      })

const runStep = (loop: Loop, step: Step): Effect.Effect<PassOutcome> =>
  withinTimeout(step).pipe(
    Effect.flatMap((report) => {
      loggedAt.delete(step)
      return isEmpty(report)
        ? Effect.succeed("ok" as const)
        : Effect.as(
            (step.quiet === true ? Effect.logDebug : Effect.logInfo)(
              `${loop.name} ${step.describe?.(report) ?? `${step.name}: ${shown(report)}`}`
            ),
            "ok" as const
          )
    }),
    Effect.catchAllCause((cause) =>
      logFailure(loop, step, cause).pipe(Effect.zipRight(step.failed ?? Effect.void), Effect.as("error" as const))
    )
  )

/** One pass: every step in order. Never fails: errors and defects are logged and make the outcome `error`. */
export const runPass = (loop: Loop): Effect.Effect<PassOutcome> => {
  const [only, ...others] = loop.steps
  if (only !== undefined && others.length === 0) return runStep(loop, only)
  return Effect.map(
    Effect.forEach(loop.steps, (step) => runStep(loop, step)),
    (outcomes) => (outcomes.includes("error") ? "error" : "ok")
  )
}

/**
 * Until when the steps of the last pass have nothing to do, in epoch milliseconds. Only stores in memory know that, for tests
 * whose clock skips the passes in between.
 */
export interface IdleSteps {
  /** Number of steps of the loop. */
  readonly steps: number
  /** One function per step that knows. They are called before each jump of the clock. */
  readonly until: Array<() => number>
}

/** Of the loop that the current fiber runs. */
export const idleSteps: FiberRef.FiberRef<IdleSteps | undefined> = FiberRef.unsafeMake<IdleSteps | undefined>(undefined)

/** Says until when the current step of a loop will have nothing to do if it runs again. */
export const idleUntil = (instant: () => number): Effect.Effect<void> =>
  Effect.map(FiberRef.get(idleSteps), (idle) => void idle?.until.push(instant))

/** Repeats a pass on the loop's schedule until it is interrupted. `passed` is called after each pass. */
export const repeatLoop = (loop: Loop, passed: (outcome: PassOutcome) => void = () => {}): Effect.Effect<void> => {
  // A schedule that never sleeps must not keep other fibers from running.
  const idle: IdleSteps = { steps: loop.steps.length, until: [] }
  const pass = Effect.suspend(() => {
    idle.until.length = 0
    return runPass(loop)
  }).pipe(Effect.tap(passed), Effect.zipLeft(Effect.yieldNow()))
  return Effect.asVoid(
    loop.runAtStart ? Effect.repeat(pass, loop.schedule) : Effect.scheduleFrom(pass, "ok", loop.schedule)
  ).pipe(Effect.locally(idleSteps, idle))
}
