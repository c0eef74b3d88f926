import { Effect } from "effect"
import * as Engine from "../client/Engine.js"
import type { JobView } from "../client/JobView.js"
import * as View from "../client/JobView.js"
import { checkHandlers } from "../client/PromiseHandler.js"
import * as Shift from "../client/Shift.js"
import { InvalidOptionError } from "../client/ShiftErrors.js"
import type { DurationInput } from "../core/DurationText.js"
import type { StoredJob } from "../core/StoredJob.js"
import { missingIn, queuesOf, type TestServices, TestShift, type TestShiftOptions } from "./TestShift.js"

/** A shift in memory, on a clock that only the test moves, for tests that use promises. */
export interface PromiseTestShift extends Omit<Shift.Shift, "result"> {
  /** Runs everything that is due now, and what follows from it. */
  settle(): Promise<void>
  /** Moves the clock. Whatever becomes due on the way runs at its own instant, schedules included. */
  advance(duration: DurationInput): Promise<void>
  /** Moves the clock from one due job to the next until every job is done or dead. */
  drain(): Promise<void>
  /** The result of the job. Moves the clock by the timeout if the job is not done, and without one until all jobs are. */
  readonly result: Shift.Shift["result"]
  /** Every job there is, oldest first. */
  jobs(): Promise<ReadonlyArray<JobView>>
  /** The time of the clock. */
  now(): Date
  /** Ends the worker as `kill -9` would and starts another. Its jobs are recovered one hour later. */
  crash(): Promise<void>
}

const isOver = ({ status }: StoredJob) => status === "done" || status === "dead"

/** A worker with these handlers, on tables in memory and a clock that only the test moves. */
export const testShift = async (options: TestShiftOptions<TestServices>): Promise<PromiseTestShift> => {
  checkHandlers(options.handlers)
  const engine = await Engine.make<TestServices, never>(TestShift.layer(options))
  const { clock, run } = engine
  const inShift = <A, E>(use: (shift: typeof TestShift.Service) => Effect.Effect<A, E>) =>
    run(Effect.flatMap(TestShift, use))
  const advance = (duration: DurationInput) => inShift((shift) => shift.advance(duration))
  const drain = () => inShift((shift) => shift.drain)
  const settle = () => inShift((shift) => shift.settle)

  const missingFor = missingIn(options, options.queues ?? queuesOf(options))

  const waitFor: Shift.Await = async (id, timeout) => {
    const look = () => inShift((shift) => shift.job(id))
    await settle()
    const first = await look()
    if (isOver(first)) return first
    const missing = missingFor(first)
    if (missing !== undefined) throw new InvalidOptionError("handlers", `Job ${id} cannot run: ${missing}.`)
    await (timeout === undefined ? drain() : advance(timeout))
    const job = await look()
    return isOver(job) ? job : undefined
  }

  return {
    ...Shift.make(engine, waitFor, engine.close),
    settle,
    advance,
    drain,
    jobs: async () => (await inShift((shift) => shift.jobs)).map(View.of),
    now: () => new Date(clock.unsafeCurrentTimeMillis()),
    crash: () => inShift((shift) => shift.crashPod)
  }
}
