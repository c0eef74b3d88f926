import {
  Cause,
  Clock,
  Duration,
  Effect,
  type Fiber,
  FiberRef,
  Predicate,
  type Schedule,
  ScheduleDecision,
  ScheduleIntervals,
  type Scope
} from "effect"
import { timeoutFail } from "./Alarm.js"
import type { Boot } from "./Boot.js"
import * as DurationText from "./DurationText.js"
import type { Term } from "./Ids.js"

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

/**
 * A loop that only the leader runs, made for each of its terms. Writes that must happen once assert the term in their own
 * transaction.
 */
export type LeaderLoop = (term: Term) => Loop

/** The loops that the features give to a pod: it runs a Loop always, and a LeaderLoop while it leads. */
export type PodLoops<R> = Effect.Effect<ReadonlyArray<Loop | LeaderLoop>, never, R | Boot | Scope.Scope>

/** The report of a step that found nothing to do. */
export const nothing: Report = {}

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
    : timeoutFail(run, {
        duration: timeout,
        onTimeout: () => new Error(`took longer than ${DurationText.format(timeout)}`)
      })

const ok = Effect.succeed<PassOutcome>("ok")

const logReport = (loop: Loop, step: Step, report: Report) =>
  (step.quiet === true ? Effect.logDebug : Effect.logInfo)(
    `${loop.name} ${step.describe?.(report) ?? `${step.name}: ${shown(report)}`}`
  )

const runStep = (loop: Loop, step: Step): Effect.Effect<PassOutcome> => {
  const onFailure = (cause: Cause.Cause<unknown>) =>
    logFailure(loop, step, cause).pipe(Effect.zipRight(step.failed ?? Effect.void), Effect.as("error" as const))
  return Effect.matchCauseEffect(withinTimeout(step), {
    onFailure,
    onSuccess: (report) => {
      loggedAt.delete(step)
      if (isEmpty(report)) return ok
      return Effect.catchAllCause(Effect.zipRight(logReport(loop, step, report), ok), onFailure)
    }
  })
}

/** One pass: every step in order. Never fails: errors and defects are logged and make the outcome `error`. */
export const runPass = (loop: Loop): Effect.Effect<PassOutcome> => {
  const [first = ok, ...others] = loop.steps.map((step) => runStep(loop, step))
  return others.reduce(
    (before, step) => Effect.flatMap(before, (outcome) => (outcome === "ok" ? step : Effect.as(step, outcome))),
    first
  )
}

/** Until when the steps of a loop have nothing to do. Only in-memory stores report this, to a test clock that skips passes. */
export interface IdleSteps {
  /** Number of steps of the loop. */
  readonly steps: number
  /** For each step that reported it, a function that returns the instant in epoch milliseconds. Called before each jump. */
  readonly until: Array<() => number>
  /** Whether the next pass runs at that exact instant, even if it is not a multiple of the loop's pause. */
  isExact: boolean
}

/** What the current fiber does for a loop. */
interface LoopFiber {
  readonly idle: IdleSteps
  /** Whether the loop pauses. False during a step, whose own sleeps are never cut short. */
  isPausing: boolean
}

/**
 * The loop that the current fiber works for. The loop changes the object instead of the reference, which would cost more than
 * most passes. A fiber that a step starts therefore gets its own object: it may sleep while the loop pauses.
 */
export const loopFiber: FiberRef.FiberRef<LoopFiber | undefined> = FiberRef.unsafeMake<LoopFiber | undefined>(
  undefined,
  {
    fork: (loop) => (loop === undefined || loop.isPausing ? loop : { idle: loop.idle, isPausing: false }),
    join: (parent) => parent
  }
)

/** The idle steps of the loop that pauses in this fiber, if one does. */
export const pausingIn = (fiber: Fiber.RuntimeFiber<unknown, unknown>): IdleSteps | undefined => {
  const loop = fiber.getFiberRef(loopFiber)
  return loop?.isPausing === true ? loop.idle : undefined
}

/** Reports until when the current step of a loop has nothing more to do. */
export const idleUntil = (instant: () => number, when?: "exactly"): Effect.Effect<void> =>
  Effect.map(FiberRef.get(loopFiber), (loop) => {
    loop?.idle.until.push(instant)
    if (loop !== undefined && when === "exactly") loop.idle.isExact = true
  })

/** Whether steps have timeouts. A test turns them off: tables in memory answer at once, and a timeout costs two fibers. */
export const hasTimeouts: FiberRef.FiberRef<boolean> = FiberRef.unsafeMake(true)

const withoutTimeouts = (loop: Loop): Loop => ({
  ...loop,
  steps: loop.steps.map(({ timeout: _, ...step }) => step)
})

/** Repeats one step that reports nothing until it is interrupted. */
export const repeated = ({
  run,
  ...loop
}: Omit<Loop, "about" | "steps"> & { readonly run: Effect.Effect<unknown, unknown> }): Effect.Effect<void> =>
  repeatLoop({ ...loop, about: "", steps: [{ name: "pass", run: Effect.as(run, nothing) }] })

/**
 * Repeats a pass on the loop's schedule until it is interrupted. `passed` is called after each pass. Drives the schedule
 * itself: Effect.repeat also provides a service to each pass, which costs more than most passes.
 */
export const repeatLoop = (loop: Loop, passed: (outcome: PassOutcome) => void = () => {}): Effect.Effect<void> =>
  Effect.flatMap(FiberRef.get(hasTimeouts), (timed) => {
    const { schedule } = loop
    const own: LoopFiber = { idle: { steps: loop.steps.length, until: [], isExact: false }, isPausing: false }
    const steps = runPass(timed ? loop : withoutTimeouts(loop))
    let state: unknown = schedule.initial
    let last: PassOutcome = "ok"
    let isOver = false
    const pause = Effect.clockWith((clock) => {
      const now = clock.unsafeCurrentTimeMillis()
      return Effect.flatMap(schedule.step(now, last, state), (stepped) => {
        const decision = stepped[2]
        state = stepped[0]
        isOver = ScheduleDecision.isDone(decision)
        if (ScheduleDecision.isDone(decision)) return Effect.void
        const millis = ScheduleIntervals.start(decision.intervals) - now
        return millis <= 0 ? Effect.void : clock.sleep(Duration.millis(millis))
      })
    })
    const pass = Effect.flatMap(steps, (outcome) => {
      last = outcome
      passed(outcome)
      // A schedule that never sleeps must not keep other fibers from running.
      return Effect.yieldNow()
    })
    const turn = Effect.flatMap(pause, () => {
      own.isPausing = false
      own.idle.until.length = 0
      return isOver ? Effect.void : pass
    })
    const turns = Effect.whileLoop({
      while: () => !isOver,
      body: () => {
        own.isPausing = true
        return turn
      },
      step: () => {}
    })
    // Set and not restored, which would take as long as several passes: the fiber ends with the loop.
    return Effect.zipRight(FiberRef.set(loopFiber, own), loop.runAtStart ? Effect.zipRight(pass, turns) : turns)
  })
