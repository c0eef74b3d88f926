import { Cause, Clock, Context, Effect, Exit, Runtime, type Scope } from "effect"
import { decode } from "../core/DurationText.js"
import type { JobId } from "../core/Ids.js"
import type { Outcome } from "../core/Outcome.js"
import * as Thrown from "../core/Thrown.js"
import type { EnqueueOptions, JobKind } from "../queue/Job.js"
import type { Enqueued, Queue } from "../queue/Queue.js"
import type { DeclaredRateLimit } from "../rate-limits/LimitOptions.js"
import * as RateLimit from "../rate-limits/RateLimit.js"
import type { RateLimits } from "../rate-limits/RateLimits.js"
import type { JobContext } from "./JobContext.js"
import type * as PromiseContext from "./PromiseContext.js"
import type { HandlerLog, LogLine } from "./PromiseContext.js"
import { RunLog } from "./RunLog.js"

// A handler returns an `Outcome`, or any other value, which becomes the job's result. Failures and defects are retried;
// a defect is stored with its stack trace. An `Outcome` in the error channel counts like a returned one.

/** The job's result, given what a handler returns. */
export type ResultOf<A> = Exclude<A, Outcome>

/** A kind and the effect that runs its jobs. `Result` is the result type of a done job. */
export interface Handler<out R, out Result = unknown> {
  /** Kind of the jobs that this handler runs. A process has one handler per kind. */
  readonly kind: JobKind<never>
  /** Whether `run` and the job's completion share one database transaction. */
  readonly transactional: boolean
  /** Runs one attempt. A failure or a defect is retried; an `Outcome` decides what happens to the job. */
  readonly run: (payload: never, job: JobContext) => Effect.Effect<Result | Outcome, unknown, R>
  /** Acquires resources shared by all jobs of the process: opened before the first job, closed after the last. */
  readonly open?: Effect.Effect<Handler<R, Result>["run"], never, R | Scope.Scope>
  /** Whether `run` gets payloads as they are stored, after the schema has accepted them. [decoded by the schema] */
  readonly keepsStored?: boolean
  /** Explains why a run of this job timed out, for tests on a virtual clock. It is added to the error. */
  readonly timeoutHint?: (job: JobId) => string | undefined
  /** The text of the code of a workflow. Two releases whose texts differ are not the same. */
  readonly source?: string
  /** Handlers that come with this one: the subscriber that starts a workflow. */
  readonly also?: ReadonlyArray<Handler<R>>
}

type AnyEffect = Effect.Effect<unknown, unknown, unknown>

/** The type of a handler made from an Effect, or from a union of Effects. */
export type HandlerOf<Run extends AnyEffect> = Handler<Effect.Effect.Context<Run>, ResultOf<Effect.Effect.Success<Run>>>

/**
 * Makes a handler from an Effect. What it returns is the job's result; a failure or a defect is retried.
 *
 * @example
 * ```ts
 * import { Effect, Schema } from "effect"
 * import { Handler, Job, Outcome } from "nightshift"
 *
 * const Fetch = Job.make("fetch", { payload: Schema.Struct({ url: Schema.String }) })
 * export const FetchHandler = Handler.make(Fetch, ({ url }, { attempt }) =>
 *   url.startsWith("https:") ? Effect.log("fetching", url, attempt) : Effect.succeed(Outcome.dead("not https"))
 * )
 * ```
 */
export const make = <A, Run extends AnyEffect>(
  kind: JobKind<A>,
  run: (payload: A, job: JobContext) => Run
): HandlerOf<Run> => ({
  kind: kind as unknown as JobKind<never>,
  transactional: false,
  run: run as unknown as HandlerOf<Run>["run"]
})

/**
 * Makes a handler whose Effect runs in the same database transaction that completes the job, so its writes through
 * `SqlClient` happen exactly once. Keep it short: the transaction stays open while it runs.
 */
export const makeInTransaction = <A, Run extends AnyEffect>(
  kind: JobKind<A>,
  run: (payload: A, job: JobContext) => Run
): HandlerOf<Run> => ({ ...make(kind, run), transactional: true })

/** Makes a handler that shares a resource between its jobs. `open` acquires it once per process. */
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

/** Opens the handler's shared resources until the Scope closes. */
export const opened = <R>(handler: Handler<R>): Effect.Effect<Handler<R>, never, R | Scope.Scope> => {
  const { open, ...rest } = handler
  if (typeof handler.run !== "function")
    return Effect.dieMessage(
      `The handler for "${handler.kind.name}" was made by nightshift/client: pass it to worker() of nightshift/client.`
    )
  return open === undefined ? Effect.succeed(handler) : Effect.map(open, (run) => ({ ...rest, run }))
}

export type { HandlerLog, LogLine }

/** The job and the tools that an async handler gets beside the payload. */
export interface PromiseJobContext extends PromiseContext.PromiseContext<JobId> {
  /** Stores a job, in the handler's transaction if it has one. */
  readonly enqueue: <A>(kind: JobKind<A>, payload: A, options?: EnqueueOptions) => Promise<Enqueued>
  /** Runs an Effect in the job's transaction, if it has one. Rejects with the original failure. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, Queue | RateLimits>) => Promise<A>
}

/**
 * Runs a promise and aborts its signal on interruption. Interruption waits until the promise settles, because no other
 * job with the same key may start while it still runs, and reports its value. The slot abandons a promise that takes too
 * long.
 */
const untilSettled = <A>(run: (signal: () => AbortSignal) => Promise<A>, job: JobContext): Effect.Effect<A, unknown> =>
  Effect.async((resume) => {
    // Made when the handler reads its signal, which few do: it takes longer than starting the handler.
    let controller: AbortController | undefined
    let isAborted = false
    const signal = () => {
      controller ??= new AbortController()
      if (isAborted) controller.abort()
      return controller.signal
    }
    const start = async () => run(signal)
    const settled = start().then(
      (value) => {
        resume(Effect.succeed(value))
        return () => job.succeededLate?.({ result: value, mayBePartial: controller !== undefined })
      },
      (error: unknown) => {
        resume(Effect.failCause(Cause.fail(Thrown.plain(error))))
        return () => {}
      }
    )
    return Effect.suspend(() => {
      isAborted = true
      controller?.abort()
      return Effect.map(
        Effect.promise(() => settled),
        (report) => report()
      )
    })
  })

/** Limits made by another copy of Effect, as limits of this one. */
const limits = new WeakMap<DeclaredRateLimit, RateLimit.RateLimit>()

const limitOf = (declared: DeclaredRateLimit): RateLimit.RateLimit => {
  const known = limits.get(declared) ?? RateLimit.make(declared.scope, declared)
  limits.set(declared, known)
  return known
}

const makeSignal = Symbol("makeSignal")

/** One getter for all contexts: with its own getter, V8 would keep each context as a slow hash table. */
const readingSignal: PropertyDescriptor & ThisType<RunningPromise> = {
  get() {
    return this[makeSignal]()
  },
  enumerable: true
}

class RunningPromise implements PromiseJobContext {
  readonly id: JobId
  readonly kind: string
  readonly queue: string
  readonly key: string | undefined
  readonly attempt: number
  readonly attempts: number
  readonly meta: unknown
  readonly log: HandlerLog
  readonly run: PromiseJobContext["run"]
  /** An own property, so that a copy of the context has it too. Reading it tells that the handler may stop early. */
  declare readonly signal: AbortSignal
  readonly [makeSignal]: () => AbortSignal
  readonly #job: JobContext
  readonly #clock: Clock.Clock

  constructor(
    job: JobContext,
    signal: () => AbortSignal,
    runtime: Runtime.Runtime<Queue | RateLimits>,
    clock: Clock.Clock
  ) {
    this.id = job.id
    this.kind = job.kind
    this.queue = job.queue
    this.key = job.key
    this.attempt = job.attempt
    this.attempts = job.attempts
    this.meta = job.meta
    this.log = new RunLog(runtime, job.attemptLog)
    this.run = runIn(runtime)
    this.#job = job
    this.#clock = clock
    this[makeSignal] = signal
    Object.defineProperty(this, "signal", readingSignal)
  }

  readonly now = () => new Date(this.#clock.unsafeCurrentTimeMillis())
  readonly progress = (value: unknown) => this.run(this.#job.progress(value))
  readonly enqueue: PromiseJobContext["enqueue"] = (other, content, options) =>
    this.run(other.enqueue(content, options))
  readonly acquire: PromiseJobContext["acquire"] = (limit, tokens = 1, options) =>
    this.run(limitOf(limit).take(tokens, options))
  readonly refused: PromiseJobContext["refused"] = (limit, duration) =>
    this.run(limitOf(limit).refused(duration === undefined ? undefined : decode(duration)))
}

/** Throws the original failure, not Effect's wrapper: it may be an `Outcome` that the slot must recognize. */
const runIn = (runtime: Runtime.Runtime<Queue | RateLimits>): PromiseJobContext["run"] => {
  const runExit = Runtime.runPromiseExit(runtime)
  return async (effect) => {
    const exit = await runExit(effect)
    if (Exit.isSuccess(exit)) return exit.value
    throw Cause.squash(exit.cause)
  }
}

/** Makes a handler from an async function. A thrown error fails the attempt. */
export const promise = <A, Run extends Promise<unknown>>(
  kind: JobKind<A>,
  run: (payload: A, job: PromiseJobContext) => Run
): Handler<Queue | RateLimits, ResultOf<Awaited<Run>>> =>
  make(kind, (payload, job) =>
    Effect.withFiberRuntime<unknown, unknown, Queue | RateLimits>((fiber, { runtimeFlags }) => {
      const context = fiber.currentContext as Context.Context<Queue | RateLimits>
      const runtime = Runtime.make({ context, runtimeFlags, fiberRefs: fiber.getFiberRefs() })
      const clock = Context.get(fiber.currentDefaultServices, Clock.Clock)
      return untilSettled((signal) => run(payload, new RunningPromise(job, signal, runtime, clock)), job)
    })
  ) as Handler<Queue | RateLimits, ResultOf<Awaited<Run>>>
