import { type Clock, Context, Effect, Exit, type Layer, ManagedRuntime } from "effect"
import { makeGenerator } from "../core/Ids.js"
import { shown } from "../core/Storable.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { Batches } from "../queue/batch/Batches.js"
import type { Endpoints } from "../queue/endpoints/Endpoints.js"
import type { Erasure } from "../queue/erasure/Erasure.js"
import type { Events } from "../queue/events/Events.js"
import type { JobAdmin } from "../queue/JobAdmin.js"
import type { Kinds } from "../queue/Kinds.js"
import type { JobLogs } from "../queue/logs/JobLogs.js"
import type { NewJob } from "../queue/NewJob.js"
import { Queue } from "../queue/Queue.js"
import type { JobOverview } from "../queue/search/JobOverview.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import type { Transactions } from "../queue/Transactions.js"
import type { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import type { Schedules } from "../schedule/Schedules.js"
import type { Storage } from "../uploads/Storage.js"
import type { Services } from "../worker/Nightshift.js"
import { type Enqueued, enqueuedOf } from "./Enqueue.js"
import { fromCause } from "./FromCause.js"
import { ClosedError, InvalidOptionError } from "./ShiftErrors.js"

/** The services behind a shift: on PostgreSQL, or in memory for tests. @internal */
export type Ports =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | JobLogs
  | Operations
  | Workflows
  | Batches
  | Events
  | Endpoints
  | Erasure
  | Storage
  | Schedules
  | Kinds
  | Transactions

/** Runs Effects of a shift as promises, until the shift is closed. @internal */
export interface Engine<R> {
  readonly clock: Clock.Clock
  /** Generates a unique id. */
  readonly newId: () => string
  /** Runs an effect. Rejects with a ShiftError. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, R>, signal?: AbortSignal) => Promise<A>
  /** The same for an effect that waits for something. Closing the shift ends it. */
  readonly wait: <A, E>(effect: Effect.Effect<A, E, R>, signal?: AbortSignal) => Promise<A>
  /** Stores one job, batched with others. */
  readonly store: <Result>(job: NewJob) => Promise<Enqueued<Result>>
  /** Refuses further calls, ends those that wait, and lets the others finish. */
  readonly close: () => Promise<void>
}

/** The services of shifts with the same settings. @internal */
export interface SharedEngine<R> {
  readonly clock: Clock.Clock
  /** Runs an effect, whichever shifts are closed. */
  readonly run: Engine<R>["run"]
  /** The engine of one more shift. */
  readonly open: () => Engine<R>
  /** Ends the services. The engines of all shifts must be closed. */
  readonly end: () => Promise<void>
}

interface Calls {
  readonly stops: Set<AbortController>
  readonly abort: () => void
}

/** The calls that a signal ends. They share one listener: Node warns of more than ten. */
const callsOf = new WeakMap<AbortSignal, Calls>()

/** Ends a call when its caller's signal is aborted. Returns how to forget the call. @internal */
export const endWith = (signal: AbortSignal, stop: AbortController): (() => void) => {
  if (typeof signal.addEventListener !== "function")
    throw new InvalidOptionError("signal", `signal must be an AbortSignal, got ${shown(signal)}.`)
  const stops = new Set<AbortController>()
  const first: Calls = { stops, abort: () => stops.forEach((each) => void each.abort(signal.reason)) }
  const calls = callsOf.get(signal) ?? first
  callsOf.set(signal, calls)
  calls.stops.add(stop)
  if (signal.aborted) calls.abort()
  // A listener that is added again is called once.
  signal.addEventListener("abort", calls.abort)
  return () => {
    calls.stops.delete(stop)
    if (calls.stops.size === 0) signal.removeEventListener("abort", calls.abort)
  }
}

/** Builds the services. @internal */
export const make = async <R, E>(layer: Layer.Layer<R | Queue, E>): Promise<SharedEngine<R | Queue>> => {
  type Run = Engine<R | Queue>["run"]
  const runtime = ManagedRuntime.make(layer)
  const built = await runtime.runPromiseExit(Effect.all([Effect.clock, Effect.context<R | Queue>(), makeGenerator]))
  if (Exit.isFailure(built)) {
    await runtime.dispose()
    throw fromCause(built.cause)
  }
  const [clock, context, ids] = built.value
  const queue = Context.get(context as Context.Context<Queue>, Queue)
  const submit = await runtime.runPromise(queue.submitter)

  const run: Run = async (effect, signal) => {
    const exit = await runtime.runPromiseExit(effect, signal === undefined ? {} : { signal })
    if (Exit.isSuccess(exit)) return exit.value
    signal?.throwIfAborted()
    throw fromCause(exit.cause)
  }

  const open = (): Engine<R | Queue> => {
    const waiting = new Set<AbortController>()
    let closed: Promise<void> | undefined
    let underWay = 0
    let whenDone = () => {}
    const begin = () => {
      if (closed !== undefined) throw new ClosedError()
      underWay += 1
    }
    const done = () => {
      underWay -= 1
      if (underWay === 0) whenDone()
    }
    const runOpen: Run = async (effect, signal) => {
      begin()
      try {
        return await run(effect, signal)
      } finally {
        done()
      }
    }
    const wait: Run = async (effect, signal) => {
      const stop = new AbortController()
      const forget = signal && endWith(signal, stop)
      waiting.add(stop)
      try {
        return await runOpen(effect, stop.signal)
      } finally {
        waiting.delete(stop)
        forget?.()
      }
    }
    // One promise per job, no async functions: thousands of jobs per second pass here.
    const store = <Result>(job: NewJob): Promise<Enqueued<Result>> =>
      new Promise((resolve, reject) => {
        begin()
        submit(job, (exit) => {
          if (Exit.isSuccess(exit)) resolve(enqueuedOf(exit.value))
          else reject(fromCause(exit.cause))
          done()
        })
      })
    const end = async () => {
      for (const stop of waiting) stop.abort(new ClosedError())
      await new Promise<void>((resolve) => {
        whenDone = resolve
        if (underWay === 0) resolve()
      })
    }
    return {
      clock,
      newId: () => ids.plain(clock.unsafeCurrentTimeMillis()),
      run: runOpen,
      wait,
      store,
      close: () => (closed ??= end())
    }
  }
  return { clock, run, open, end: () => runtime.dispose() }
}

/** Builds services for one shift: closing it ends them. `closing` runs while calls that have begun finish. @internal */
export const makeAlone = async <R, E>(
  layer: Layer.Layer<R | Queue, E>,
  closing: Effect.Effect<void, never, NoInfer<R>> = Effect.void
): Promise<Engine<R | Queue>> => {
  const shared = await make(layer)
  const engine = shared.open()
  const end = async () => {
    const finished = engine.close()
    await shared.run(closing)
    await finished
    await shared.end()
  }
  let closed: Promise<void> | undefined
  return { ...engine, close: () => (closed ??= end()) }
}

type PgServices = Services | JobDiagnosis | JobOverview

/** An engine on PostgreSQL. @internal */
export type PgEngine = Engine<PgServices>

/** The services on PostgreSQL. Workers run on them. @internal */
export type SharedPgEngine = SharedEngine<PgServices>
