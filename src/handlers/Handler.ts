import { Cause, Effect, Exit, LogLevel, Runtime, type Scope } from "effect"
import { type DurationInput, decode } from "../core/DurationText.js"
import type { JobId } from "../core/Ids.js"
import type { Outcome } from "../core/Outcome.js"
import type { RateLimit, TakeOptions } from "../limits/RateLimit.js"
import type { RateLimits } from "../limits/RateLimits.js"
import type { EnqueueOptions, JobKind } from "../queue/Job.js"
import type { Queue } from "../queue/Queue.js"
import type { JobContext } from "./JobContext.js"

// A handler returns an `Outcome`, or anything else: that is the job's result. A failure in its error channel is tried again,
// and so is a defect, with its trace; an `Outcome` that it fails with is its end all the same.

/** What a handler's answer leaves as the job's result. */
export type ResultOf<A> = Exclude<A, Outcome>

/** The effect that runs a kind. `Result` is what a job of it that is done has for a result. */
export interface Handler<out R, out Result = unknown> {
  readonly kind: JobKind<never>
  /** Whether its effects and the job's end stand or fall together. */
  readonly transactional: boolean
  readonly run: (payload: never, job: JobContext) => Effect.Effect<Result | Outcome, unknown, R>
  /** For one that keeps something as long as its pod lives: opened before the first job, closed after the last. */
  readonly open?: Effect.Effect<Handler<R, Result>["run"], never, R | Scope.Scope>
}

type AnyEffect = Effect.Effect<unknown, unknown, unknown>

/** The handler that such an Effect, or one of several, makes. */
export type HandlerOf<Run extends AnyEffect> = Handler<Effect.Effect.Context<Run>, ResultOf<Effect.Effect.Success<Run>>>

/** Runs a kind by an Effect. */
export const make = <A, Run extends AnyEffect>(
  kind: JobKind<A>,
  run: (payload: A, job: JobContext) => Run
): HandlerOf<Run> => ({
  kind: kind as unknown as JobKind<never>,
  transactional: false,
  run: run as unknown as HandlerOf<Run>["run"]
})

/**
 * Runs a kind by an Effect inside a database transaction in which the job ends, too: what it writes through `SqlClient`
 * happens exactly once. Keep it short; its transaction is open all the while.
 */
export const transactional = <A, Run extends AnyEffect>(
  kind: JobKind<A>,
  run: (payload: A, job: JobContext) => Run
): HandlerOf<Run> => ({ ...make(kind, run), transactional: true })

/** Runs a kind by an Effect that shares something with the pod's other jobs of the kind, made once per pod in its Scope. */
export const scoped = <A, Run extends AnyEffect, R>(
  kind: JobKind<A>,
  open: Effect.Effect<(payload: A, job: JobContext) => Run, never, R>
): Handler<Exclude<R, Scope.Scope> | Effect.Effect.Context<Run>, ResultOf<Effect.Effect.Success<Run>>> => {
  type Opened = Handler<Exclude<R, Scope.Scope> | Effect.Effect.Context<Run>, ResultOf<Effect.Effect.Success<Run>>>
  const once = (payload: A, job: JobContext) =>
    Effect.scoped(Effect.flatMap(open, (run) => run(payload, job) as AnyEffect))
  return {
    kind: kind as unknown as JobKind<never>,
    transactional: false,
    run: once as unknown as Opened["run"],
    open: open as unknown as NonNullable<Opened["open"]>
  }
}

/** The handler with what it keeps, until the Scope closes. */
export const opened = <R>(handler: Handler<R>): Effect.Effect<Handler<R>, never, R | Scope.Scope> =>
  handler.open === undefined
    ? Effect.succeed(handler)
    : Effect.map(handler.open, (run) => ({ kind: handler.kind, transactional: handler.transactional, run }))

/** Writes a line to the log of the process, with the job's id, kind, queue and attempt. */
export type LogLine = (message: string, fields?: Readonly<Record<string, unknown>>) => void

export interface HandlerLog {
  readonly debug: LogLine
  readonly info: LogLine
  readonly warn: LogLine
  readonly error: LogLine
}

const logOf = (runtime: Runtime.Runtime<never>): HandlerLog => {
  const line =
    (level: LogLevel.LogLevel): LogLine =>
    (message, fields = {}) =>
      void Runtime.runSync(runtime, Effect.annotateLogs(Effect.logWithLevel(level, message), fields))
  return {
    debug: line(LogLevel.Debug),
    info: line(LogLevel.Info),
    warn: line(LogLevel.Warning),
    error: line(LogLevel.Error)
  }
}

/** What a promise handler sees of its job. */
export interface PromiseJobContext extends Omit<JobContext, "progress"> {
  /** Aborted when the job is cancelled, times out, is lost to another pod, or the process must end. */
  readonly signal: AbortSignal
  readonly progress: (value: unknown) => Promise<void>
  readonly log: HandlerLog
  readonly enqueue: <A>(kind: JobKind<A>, payload: A, options?: EnqueueOptions) => Promise<JobId>
  /** Runs an Effect as part of the job: in its transaction, if it has one. Rejects with the failure itself. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, Queue | RateLimits>) => Promise<A>
  /** Goes on with so many tokens of the limit [1]; else it throws what ends this attempt as throttled. Do not catch it. */
  readonly acquire: (limit: RateLimit, tokens?: number, options?: TakeOptions) => Promise<void>
  /** The upstream said no: empties the limit for so long, and throws what ends this attempt as throttled. */
  readonly refused: (limit: RateLimit, duration?: DurationInput) => Promise<never>
}

/**
 * Runs a promise whose signal is aborted on interruption. Interruption completes only when the promise has settled: while it
 * still works, no other job of its key may start. The slot abandons one that takes too long.
 */
const untilSettled = <A>(run: (signal: AbortSignal) => Promise<A>): Effect.Effect<A, unknown> =>
  Effect.async((resume) => {
    const controller = new AbortController()
    const start = async () => run(controller.signal)
    const settled = start().then(
      (value) => resume(Effect.succeed(value)),
      (error: unknown) => resume(Effect.fail(error))
    )
    return Effect.suspend(() => {
      controller.abort()
      return Effect.promise(() => settled)
    })
  })

/** Runs a kind by an async function. What it throws is a failure. */
export const promise = <A, Run extends Promise<unknown>>(
  kind: JobKind<A>,
  run: (payload: A, job: PromiseJobContext) => Run
): Handler<Queue | RateLimits, ResultOf<Awaited<Run>>> =>
  make(kind, (payload, job) =>
    Effect.gen(function* () {
      const runtime = yield* Effect.runtime<Queue | RateLimits>()
      const runExit = Runtime.runPromiseExit(runtime)
      // What is thrown at the handler is the failure itself: it may be an outcome, on its way to whoever judges it.
      const runPromise = async <B, E>(effect: Effect.Effect<B, E, Queue | RateLimits>): Promise<B> => {
        const exit = await runExit(effect)
        if (Exit.isSuccess(exit)) return exit.value
        throw Cause.squash(exit.cause)
      }
      return yield* untilSettled((signal) =>
        run(payload, {
          id: job.id,
          kind: job.kind,
          queue: job.queue,
          key: job.key,
          attempt: job.attempt,
          maxAttempts: job.maxAttempts,
          meta: job.meta,
          signal,
          progress: (value) => runPromise(job.progress(value)),
          log: logOf(runtime),
          run: runPromise,
          enqueue: (other, content, options) => runPromise(other.enqueue(content, options)),
          acquire: (limit, tokens = 1, options) => runPromise(limit.take(tokens, options)),
          refused: (limit, duration) => runPromise(limit.refused(duration === undefined ? undefined : decode(duration)))
        })
      )
    })
  ) as Handler<Queue | RateLimits, ResultOf<Awaited<Run>>>
