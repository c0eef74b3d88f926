import { Clock, Effect, FiberRef } from "effect"
import type { JobId } from "../core/Ids.js"
import type { Handler } from "../handlers/Handler.js"

// A handler that awaits a promise, a socket or a real timer needs real time, so the virtual clock must not advance
// meanwhile. A run counts as waiting for real time while none of its fibers sleeps on the virtual clock.

export interface HandlerRun {
  readonly job: JobId
  /** Number of the run's fibers that sleep on the virtual clock. */
  sleeping: number
  /** Real time that the run has been given so far, in milliseconds. */
  given: number
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
        Effect.suspend(() => {
          const known: HandlerRun = { job: job.id, sleeping: 0, given: 0 }
          this.running.add(known)
          this.overdue.delete(job.id)
          // The fiber keeps the reference until its next run: a run that is not in `running` has no effect.
          const ended = Effect.sync(() => this.running.delete(known))
          return Effect.zipRight(FiberRef.set(currentRun, known), Effect.ensuring(run(payload, job), ended))
        })
    return {
      ...handler,
      run: watched(handler.run),
      timeoutHint: (job) => (this.overdue.has(job) ? timeoutHint : undefined),
      ...(handler.open === undefined ? {} : { open: Effect.map(handler.open, watched) })
    }
  }

  /**
   * Waits one real millisecond if a run needs real time and has not used up its maximum. Returns false if there is no
   * such run.
   */
  readonly giveRealTime: Effect.Effect<boolean> = Effect.suspend(() => {
    if (this.running.size === 0) return Effect.succeed(false)
    const waiting = [...this.running].filter(({ given, sleeping }) => sleeping === 0 && given < maxRunMillis)
    for (const run of waiting) {
      run.given += 1
      if (run.given === maxRunMillis) this.overdue.add(run.job)
    }
    return waiting.length === 0 ? Effect.succeed(false) : Effect.as(realMillisecond, true)
  })
}
