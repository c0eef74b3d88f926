import { type Clock, Context, Effect, Exit, type Layer, ManagedRuntime } from "effect"
import { makeGenerator } from "../core/Ids.js"
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
import { ClosedError } from "./ShiftErrors.js"

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

/** Runs Effects of a shift as promises. @internal */
export interface Engine<R> {
  readonly clock: Clock.Clock
  /** Generates a unique id. */
  readonly newId: () => string
  /** Runs an effect. Rejects with a ShiftError. */
  readonly run: <A, E>(effect: Effect.Effect<A, E, R>, signal?: AbortSignal) => Promise<A>
  /** Stores one job, batched with others. */
  readonly store: <Result>(job: NewJob) => Promise<Enqueued<Result>>
  readonly close: () => Promise<void>
}

/** Builds the services. @internal */
export const make = async <R, E>(layer: Layer.Layer<R | Queue, E>): Promise<Engine<R | Queue>> => {
  const runtime = ManagedRuntime.make(layer)
  const built = await runtime.runPromiseExit(Effect.all([Effect.clock, Effect.context<R | Queue>(), makeGenerator]))
  if (Exit.isFailure(built)) {
    await runtime.dispose()
    throw fromCause(built.cause)
  }
  const [clock, context, ids] = built.value
  const queue = Context.get(context as Context.Context<Queue>, Queue)
  let closed: Promise<void> | undefined
  const submit = await runtime.runPromise(queue.submitter)
  let underWay = 0
  let whenStored = () => {}

  const run = async <A, E2>(effect: Effect.Effect<A, E2, R | Queue>, signal?: AbortSignal): Promise<A> => {
    if (closed !== undefined) throw new ClosedError()
    const exit = await runtime.runPromiseExit(effect, signal === undefined ? {} : { signal })
    if (Exit.isSuccess(exit)) return exit.value
    signal?.throwIfAborted()
    throw fromCause(exit.cause)
  }

  // One promise per job, no async functions: thousands of jobs per second pass here.
  const store = <Result>(job: NewJob): Promise<Enqueued<Result>> =>
    new Promise((resolve, reject) => {
      if (closed !== undefined) throw new ClosedError()
      underWay += 1
      submit(job, (exit) => {
        if (Exit.isSuccess(exit)) resolve(enqueuedOf(exit.value))
        else reject(fromCause(exit.cause))
        underWay -= 1
        if (underWay === 0) whenStored()
      })
    })

  // Finish enqueues that are in flight before closing the connections.
  const end = async () => {
    await new Promise<void>((done) => {
      whenStored = done
      if (underWay === 0) done()
    })
    await runtime.dispose()
  }
  return { clock, newId: () => ids.plain(clock.unsafeCurrentTimeMillis()), run, store, close: () => (closed ??= end()) }
}

/** An engine on PostgreSQL. Workers run on it. @internal */
export type PgEngine = Engine<Services | JobDiagnosis | JobOverview>
