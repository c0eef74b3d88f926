import { Clock, Effect, type Fiber, FiberRef } from "effect"
import type { JobId } from "../core/Ids.js"
import type { Handler } from "../handlers/Handler.js"
import { areTurnsAwaited } from "../workflow/Journal.js"

// A handler that awaits a promise, a socket or a real timer needs real time, so the virtual clock must not advance
// meanwhile. A run counts as waiting for real time while none of its fibers sleeps on the virtual clock.

export interface HandlerRun {
  readonly job: JobId
  readonly fiber: Fiber.RuntimeFiber<unknown, unknown>
  /** Number of the run's fibers that sleep on the virtual clock. */
  sleeping: number
  /** Real time that the run has been given so far, in milliseconds. */
  given: number
  /** Whether its process was killed: its fibers do not wake again. */
  isKilled: boolean
}

/** The run of the current fiber; inherited by its children. */
export const currentRun: FiberRef.FiberRef<HandlerRun | undefined> = FiberRef.unsafeMake<HandlerRun | undefined>(
  undefined
)

/** Maximum real time per run, in milliseconds. A run may wait for an event that occurs only when virtual time advances. */
export const maxRunMillis = 100

const timeoutHint = `in a test the clock waits at most ${maxRunMillis} ms of real time for a run of a handler, and this run took longer`

const realMillisecond = Effect.withClock(Effect.sleep("1 millis"), Clock.make())

/** Tracks the handler runs of a test. */
export class HandlerRuns {
  private readonly running = new Set<HandlerRun>()
  /** Jobs whose last run has used up its maximum of real time. */
  private readonly overdue = new Set<JobId>()

  /** Wraps a handler so that its runs are tracked. */
  readonly watch = <R>(handler: Handler<R>): Handler<R> => {
    const watched =
      (run: Handler<R>["run"]): Handler<R>["run"] =>
      (payload, job) =>
        Effect.withFiberRuntime((fiber) => {
          const known: HandlerRun = { job: job.id, fiber, sleeping: 0, given: 0, isKilled: false }
          this.running.add(known)
          this.overdue.delete(job.id)
          // The fiber keeps the reference until its next run: a run that is not in `running` has no effect.
          return Effect.matchCauseEffect(Effect.zipRight(FiberRef.set(currentRun, known), run(payload, job)), {
            onFailure: (cause) => {
              this.running.delete(known)
              return Effect.failCause(cause)
            },
            onSuccess: (result) => {
              this.running.delete(known)
              return Effect.succeed(result)
            }
          })
        })
    return {
      ...handler,
      run: watched(handler.run),
      timeoutHint: (job) => (this.overdue.has(job) ? timeoutHint : undefined),
      ...(handler.open === undefined ? {} : { open: Effect.map(handler.open, watched) })
    }
  }

  /** The process is killed. */
  readonly kill: Effect.Effect<void> = Effect.sync(() => {
    for (const run of this.running) run.isKilled = true
    this.running.clear()
  })

  /** One real millisecond, if a run needs real time and has not used up its maximum. Undefined if there is no such run. */
  realTime(): Effect.Effect<void> | undefined {
    if (this.running.size === 0) return undefined
    // However slow the machine is: these turns decide whether the code of a workflow counts as changed.
    if (areTurnsAwaited()) return realMillisecond
    // The fiber of an interrupted run ends without telling so above.
    for (const run of this.running) if (run.fiber.unsafePoll() !== null) this.running.delete(run)
    const waiting = [...this.running].filter(({ given, sleeping }) => sleeping === 0 && given < maxRunMillis)
    for (const run of waiting) {
      run.given += 1
      if (run.given === maxRunMillis) this.overdue.add(run.job)
    }
    return waiting.length === 0 ? undefined : realMillisecond
  }
}
