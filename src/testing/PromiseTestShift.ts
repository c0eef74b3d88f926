import { Effect, Layer, LogLevel } from "effect"
import * as Engine from "../client/Engine.js"
import { ofRecipes } from "../client/Handlers.js"
import {
  checkCodec,
  checkKnown,
  checkLog,
  durationOf,
  type InstantInput,
  instantOf,
  namesOf
} from "../client/Options.js"
import type { Handler } from "../client/Recipe.js"
import * as Shift from "../client/Shift.js"
import { InvalidOptionError, JobNotFoundError, ShiftError } from "../client/ShiftErrors.js"
import type { DurationInput } from "../core/DurationInput.js"
import { joinOr } from "../core/Spelling.js"
import type { StoredJob } from "../core/StoredJob.js"
import { isNews } from "../queue/workflow/Streams.js"
import { Workflows } from "../queue/workflow/Workflows.js"
import * as Logging from "../telemetry/Logging.js"
import type { Log } from "../telemetry/LogSink.js"
import { callerFrames, showFrames } from "./CallerFrames.js"
import { maxRunMillis } from "./HandlerRuns.js"
import { checkValues, type TestOptions } from "./TestOptions.js"
import { missingIn, queuesOf, type TestServices, TestShift } from "./TestShift.js"

/** An in-memory shift on a virtual clock that only the test moves, for tests that use promises. */
export interface PromiseTestShift extends Omit<Shift.Shift, "result"> {
  /** Runs all jobs that are due now, and the jobs that they make due. */
  settle(): Promise<void>
  /** Advances the clock. Jobs and schedules that become due run at their exact time. */
  advance(duration: DurationInput): Promise<void>
  /** Advances the clock from one due job to the next until every job is done or dead. */
  drain(): Promise<void>
  /** Returns the job's result. If the job is not done, advances the clock by the timeout, or drains without one. */
  readonly result: Shift.Shift["result"]
  /** The clock's current time. */
  now(): Date
  /** The seed of ids and jitter. */
  readonly seed: number
  /** Kills the worker like `kill -9` and starts another. Its jobs are recovered one hour later. */
  crash(): Promise<void>
}

/** Minimum levels of the log of a test. */
const levels = {
  debug: LogLevel.Debug,
  info: LogLevel.Info,
  warn: LogLevel.Warning,
  error: LogLevel.Error,
  none: LogLevel.None
}

/** What `testShift` runs, and its clock, seed and log. */
export interface PromiseTestShiftOptions extends TestOptions<InstantInput> {
  /** What `job.handle(…)` and `workflow(…)` returned. */
  readonly handlers: ReadonlyArray<Handler>
  /** Where log lines go: `console`, an object with the same methods, a pino logger, or `false` for nowhere. [console] */
  readonly log?: Log
  /** Lines below this level are dropped. [warn] */
  readonly logLevel?: "debug" | "info" | "warn" | "error" | "none"
}

const known = namesOf<PromiseTestShiftOptions>({
  handlers: 0,
  queues: 0,
  routes: 0,
  schedules: 0,
  limits: 0,
  slots: 0,
  grace: 0,
  startAt: 0,
  seed: 0,
  retention: 0,
  mask: 0,
  codec: 0,
  allowChanged: 0,
  log: 0,
  logLevel: 0
})

const levelOf = (level: PromiseTestShiftOptions["logLevel"] = "warn"): LogLevel.LogLevel => {
  if (Object.hasOwn(levels, level)) return levels[level]
  throw new InvalidOptionError("logLevel", `logLevel must be ${joinOr(Object.keys(levels))}, got "${level}".`)
}

const realTime = `Time is virtual in a test, and the clock waits at most ${maxRunMillis} ms of real time for a run of a handler.`

const hasEnded = ({ finishedAt }: StoredJob) => finishedAt !== undefined

/**
 * Starts a worker with these handlers on in-memory tables and a virtual clock.
 *
 * @example
 * ```ts
 * import { job } from "nightshift/client"
 * import { testShift } from "nightshift/testing"
 * import { z } from "zod"
 *
 * const remind = job("remind", { payload: z.object({ who: z.string() }) })
 * await using shift = await testShift({ handlers: [remind.handle(({ who }) => `reminded ${who}`)] })
 * const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1d" })
 * await shift.advance("1d")
 * console.log((await shift.job(id)).state) // done
 * ```
 */
export const testShift = async (given: PromiseTestShiftOptions): Promise<PromiseTestShift> => {
  checkKnown(given, known, "an option of testShift")
  const { log = console, logLevel, ...rest } = given
  const options = { ...rest, handlers: ofRecipes(rest.handlers) }
  checkLog(log)
  checkCodec(rest.codec)
  checkValues(rest)
  if (rest.grace !== undefined) durationOf("grace", rest.grace)
  if (rest.retention !== undefined) durationOf("retention", rest.retention)
  if (rest.startAt !== undefined) instantOf("startAt", rest.startAt)
  const layer = TestShift.layer({ ...options, logLevel: levelOf(logLevel) })
  const engine = await Engine.makeAlone<TestServices, never>(
    Layer.provideMerge(layer, Logging.to(log, options.mask ?? []))
  )
  const { clock, run, wait } = engine
  const { seed } = await run(TestShift)
  const inShift = <A, E>(use: (shift: typeof TestShift.Service) => Effect.Effect<A, E>) =>
    wait(Effect.flatMap(TestShift, use))
  /**
   * Runs a method for a test. An error of the shift shows the frame of the test that called it and none of the harness, and the
   * seed if the error depends on it. What else the test can get, such as the reason of its own signal, stays as it is.
   */
  const called = <A>(method: (...args: never) => unknown, run: () => Promise<A>): Promise<A> => {
    const frames = callerFrames(method)
    return run().catch((error: unknown) => {
      if (error instanceof ShiftError) {
        if (!(error instanceof InvalidOptionError || error instanceof JobNotFoundError))
          error.message += ` (seed ${seed})`
        showFrames(error, frames)
      }
      throw error
    })
  }
  const advance = (duration: DurationInput) => inShift((shift) => shift.advance(duration))
  const drain = () => inShift((shift) => shift.drain)
  const settle = () => inShift((shift) => shift.settle)

  /** Drains, then reads. A shift that cannot be drained, such as while an execution waits for a signal, may have done enough before. */
  const drained = async <A>(read: () => Promise<A>, isEnough: (found: A) => boolean): Promise<A> => {
    const failed = await drain().then(
      () => undefined,
      (error: unknown) => ({ error })
    )
    const found = await read()
    if (failed !== undefined && !isEnough(found)) throw failed.error
    return found
  }

  const missingFor = missingIn(options, options.queues ?? queuesOf(options))

  const waitFor: Shift.Await = async (id, timeout, signal) => {
    signal?.throwIfAborted()
    const read = () => inShift((shift) => shift.job(id))
    await settle()
    const first = await read()
    if (hasEnded(first)) return first
    const missing = missingFor(first)
    if (missing !== undefined) throw new InvalidOptionError("handlers", `Job ${id} cannot run: ${missing}.`)
    signal?.throwIfAborted()
    const job = await (timeout === undefined ? drained(read, hasEnded) : advance(timeout).then(read))
    if (hasEnded(job)) return job
    signal?.throwIfAborted()
    return undefined
  }

  const within: Shift.Watching["within"] = async (effect, timeout) => {
    const stopped = new AbortController()
    let ended: { readonly result: Promise<Effect.Effect.Success<typeof effect>> } | undefined
    const result = run(effect, stopped.signal)
    const end = () => {
      ended = { result }
    }
    result.then(end, end)
    await settle()
    if (ended === undefined) await advance(timeout)
    // What the clock ran may have ended the effect in this turn of the event loop.
    await new Promise((resolve) => setImmediate(resolve))
    if (ended === undefined) stopped.abort()
    return ended?.result
  }

  const explain: Shift.Watching["explain"] = async (id) => {
    const why = await inShift((shift) => shift.why(id))
    return why.reason === "running" ? { ...why, detail: `${why.detail} ${realTime}` } : why
  }

  /** Runs what is due, and moves the clock if the stream has no more chunks then. */
  const nextPage: Shift.Watching["nextPage"] = async (position) => {
    const read = () => run(Effect.flatMap(Workflows, ({ streams }) => streams.read(position)))
    await settle()
    const first = await read()
    if (isNews(first)) return first
    return drained(read, isNews)
  }

  const shift = Shift.make(engine, { waitFor, within, explain, nextPage }, engine.close)
  const tested = {
    result: (...given: Parameters<Shift.Shift["result"]>) => called(tested.result, () => shift.result(...given)),
    settle: () => called(tested.settle, settle),
    advance: (duration: DurationInput) => called(tested.advance, () => advance(duration)),
    drain: () => called(tested.drain, drain)
  }
  return {
    ...shift,
    ...tested,
    result: tested.result as Shift.Shift["result"],
    seed,
    now: () => new Date(clock.unsafeCurrentTimeMillis()),
    crash: () => inShift((shift) => shift.crashPod)
  }
}
