import { Clock, Effect, FiberRef } from "effect"
import type { Handler } from "../handlers/Handler.js"

// A handler that waits for a promise, a socket or a real timer needs real time, which virtual time would outrun. A run waits
// for something real while nothing of it sleeps on the virtual clock.

/** A run of a handler. */
export interface HandlerRun {
  /** How many of its fibers sleep on the virtual clock. */
  sleeping: number
  /** How many milliseconds of real time it was given. */
  given: number
}

/** The run that a fiber belongs to; its children inherit it. */
export const currentRun: FiberRef.FiberRef<HandlerRun | undefined> = FiberRef.unsafeMake<HandlerRun | undefined>(
  undefined
)

/** The most real time that a run gets, in milliseconds: it may wait for something that only virtual time brings. */
const mostGiven = 100

const realMillisecond = Effect.withClock(Effect.sleep("1 millis"), Clock.make())

/** The runs of a test. */
export class HandlerRuns {
  private readonly running = new Set<HandlerRun>()

  /** The handler, with each of its runs known here. */
  readonly watch = <R>(handler: Handler<R>): Handler<R> => {
    const watched =
      (run: Handler<R>["run"]): Handler<R>["run"] =>
      (payload, job) =>
        Effect.suspend(() => {
          const known: HandlerRun = { sleeping: 0, given: 0 }
          this.running.add(known)
          const ended = Effect.sync(() => void this.running.delete(known))
          return Effect.ensuring(Effect.locally(run(payload, job), currentRun, known), ended)
        })
    return {
      ...handler,
      run: watched(handler.run),
      ...(handler.open === undefined ? {} : { open: Effect.map(handler.open, watched) })
    }
  }

  /** Gives a millisecond to runs that wait for something real and have not had enough; false where there are none. */
  readonly giveRealTime: Effect.Effect<boolean> = Effect.suspend(() => {
    const waiting = [...this.running].filter(({ given, sleeping }) => sleeping === 0 && given < mostGiven)
    for (const run of waiting) run.given += 1
    return waiting.length === 0 ? Effect.succeed(false) : Effect.as(realMillisecond, true)
  })
}
