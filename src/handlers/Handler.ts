import { Cause, type Duration, Effect, Exit, Runtime, type Scope } from "effect"
import type { JobId } from "../core/Ids.js"
import type { RateLimit, TakeOptions } from "../limits/RateLimit.js"
import type { RateLimits } from "../limits/RateLimits.js"
import type { EnqueueOptions, JobKind } from "../queue/Job.js"
import type { Queue } from "../queue/Queue.js"
import type { JobContext } from "./JobContext.js"

// A handler returns an `Outcome`, or any other value, which becomes the job's result. Failures and defects are retried;
// a defect is stored with its stack trace. An `Outcome` in the error channel counts like a returned one.

/** A kind and the effect that runs its jobs. */
export interface Handler<out R> {
  readonly kind: JobKind<never>
  /** Whether `run` and the job's completion share one database transaction. */
  readonly transactional: boolean
  readonly run: (payload: never, job: JobContext) => Effect.Effect<unknown, unknown, R>
  /** Acquires resources shared by all jobs of the pod: opened before the first job, closed after the last. */
  readonly open?: Effect.Effect<Handler<R>["run"], never, R | Scope.Scope>
}

/** Makes a handler from an Effect. */
export const make = <A, E, R>(
  kind: JobKind<A>,
  run: (payload: A, job: JobContext) => Effect.Effect<unknown, E, R>
): Handler<R> => ({ kind: kind as unknown as JobKind<never>, transactional: false, run: run as Handler<R>["run"] })

/**
 * Makes a handler whose Effect runs in the same database transaction that completes the job, so its writes through
 * `SqlClient` happen exactly once. Keep it short: the transaction stays open while it runs.
 */
export const transactional = <A, E, R>(
  kind: JobKind<A>,
  run: (payload: A, job: JobContext) => Effect.Effect<unknown, E, R>
): Handler<R> => ({ ...make(kind, run), transactional: true })

/** Makes a handler that shares a resource between its jobs. `open` acquires it once per pod. */
export const scoped = <A, E, R, R2>(
  kind: JobKind<A>,
  open: Effect.Effect<(payload: A, job: JobContext) => Effect.Effect<unknown, E, R2>, never, R>
): Handler<Exclude<R, Scope.Scope> | R2> => ({
  ...make(kind, (payload: A, job) => Effect.scoped(Effect.flatMap(open, (run) => run(payload, job)))),
  open: open as Effect.Effect<Handler<R2>["run"], never, Exclude<R, Scope.Scope> | Scope.Scope>
})

/** Opens the handler's shared resources until the Scope closes. */
export const opened = <R>(handler: Handler<R>): Effect.Effect<Handler<R>, never, R | Scope.Scope> =>
  handler.open === undefined
    ? Effect.succeed(handler)
    : Effect.map(handler.open, (run) => ({ kind: handler.kind, transactional: handler.transactional, run }))

/** The job as passed to a promise handler. */
export interface PromiseJobContext extends Omit<JobContext, "progress"> {
  /** Aborted when the job is cancelled, times out or loses its lease, or the process stops. */
  readonly signal: AbortSignal
  readonly progress: (value: unknown) => Promise<void>
  readonly enqueue: <A>(kind: JobKind<A>, payload: A, options?: EnqueueOptions) => Promise<JobId>
  /**
   * Takes tokens [1] from a rate limit. If there are too few, throws an outcome that ends the attempt as throttled; do
   * not catch it.
   */
  readonly acquire: (limit: RateLimit, tokens?: number, options?: TakeOptions) => Promise<void>
  /**
   * Reports that the upstream throttled us: empties the limit for `duration` and throws an outcome that ends the
   * attempt as throttled.
   */
  readonly refused: (limit: RateLimit, duration?: Duration.DurationInput) => Promise<never>
}

/**
 * Runs a promise and aborts its signal on interruption. Interruption waits until the promise settles, because no other
 * job with the same key may start while it still runs. The slot abandons a promise that takes too long.
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

/** Makes a handler from an async function. A thrown error fails the attempt. */
export const promise = <A>(
  kind: JobKind<A>,
  run: (payload: A, job: PromiseJobContext) => Promise<unknown>
): Handler<Queue | RateLimits> =>
  make(kind, (payload, job) =>
    Effect.gen(function* () {
      const runExit = Runtime.runPromiseExit(yield* Effect.runtime<Queue | RateLimits>())
      // Throw the original failure, not Effect's wrapper: it may be an `Outcome` that the slot must recognize.
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
          enqueue: (other, content, options) => runPromise(other.enqueue(content, options)),
          acquire: (limit, tokens = 1, options) => runPromise(limit.take(tokens, options)),
          refused: (limit, duration) => runPromise(limit.refused(duration))
        })
      )
    })
  )
