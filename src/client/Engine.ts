import { Console } from "node:console"
import {
  Cause,
  type Clock,
  Context,
  Effect,
  Exit,
  HashMap,
  type Layer,
  Logger,
  LogLevel,
  ManagedRuntime,
  Predicate
} from "effect"
import { makeGenerator } from "../core/Ids.js"
import type { Operations } from "../queue/admin/Operations.js"
import type { Batches } from "../queue/batch/Batches.js"
import type { JobAdmin } from "../queue/JobAdmin.js"
import type { Kinds } from "../queue/Kinds.js"
import type { NewJob } from "../queue/NewJob.js"
import { Queue } from "../queue/Queue.js"
import type { JobSearch } from "../queue/search/JobSearch.js"
import type { Queues } from "../queue/settings/QueueSettings.js"
import type { Transactions } from "../queue/Transactions.js"
import type { JobDiagnosis } from "../queue/why/JobDiagnosis.js"
import type { Workflows } from "../queue/workflow/Workflows.js"
import type { Schedules } from "../schedule/Schedules.js"
import * as Logging from "../telemetry/Logging.js"
import type { Services } from "../worker/Nightshift.js"
import { type Enqueued, enqueuedOf } from "./Enqueue.js"
import { ClosedError, fromCause } from "./ShiftErrors.js"

/** The services behind a shift: on PostgreSQL, or in memory for tests. */
export type Ports =
  | Queue
  | Queues
  | JobAdmin
  | JobSearch
  | Operations
  | Workflows
  | Batches
  | Schedules
  | Kinds
  | Transactions

/** A logger with the methods of `console`. */
export interface LogSink {
  /** Gets lines of levels debug and trace. `fields` has the job, the process and other details. */
  debug(message: string, fields: Readonly<Record<string, unknown>>): void
  /** Gets lines of level info. */
  info(message: string, fields: Readonly<Record<string, unknown>>): void
  /** Gets lines of level warning. */
  warn(message: string, fields: Readonly<Record<string, unknown>>): void
  /** Gets lines of levels error and fatal. `fields.error` is the error with its causes, if there is one. */
  error(message: string, fields: Readonly<Record<string, unknown>>): void
}

const textOf = (message: unknown): string =>
  (Array.isArray(message) ? message : [message])
    .map((part) => (typeof part === "string" ? part : JSON.stringify(part)))
    .join(" ")

const levelOf = (level: LogLevel.LogLevel): keyof LogSink => {
  if (LogLevel.greaterThanEqual(level, LogLevel.Error)) return "error"
  if (LogLevel.greaterThanEqual(level, LogLevel.Warning)) return "warn"
  return LogLevel.greaterThanEqual(level, LogLevel.Info) ? "info" : "debug"
}

const sinkLogger = (sink: LogSink) =>
  Logger.make(({ annotations, cause, logLevel, message }) => {
    const fields = Object.fromEntries(
      [...HashMap.entries(annotations)].map(([name, value]) => [
        name,
        Predicate.hasProperty(value, "toJSON") && typeof value.toJSON === "function" ? value.toJSON() : value
      ])
    )
    const error = Cause.isEmpty(cause) ? {} : { error: Cause.pretty(cause, { renderErrorCause: true }) }
    const all = { ...fields, ...error }
    // A console would print the empty object. Other loggers may rely on the second argument.
    const rest = sink instanceof Console && Object.keys(all).length === 0 ? [] : [all]
    sink[levelOf(logLevel)](textOf(message), ...(rest as [typeof all]))
  })

/** Log output: none, the program's own logger, or standard error by LOG_LEVEL and LOG_FORMAT. */
export const logging = (log: LogSink | false | undefined) => {
  if (log === undefined) return Logging.layer
  return log === false ? Logger.remove(Logger.defaultLogger) : Logger.replace(Logger.defaultLogger, sinkLogger(log))
}

/** Runs Effects of a shift as promises. */
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

/** Builds the services. */
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

/** An engine on PostgreSQL. Workers run on it. */
export type PgEngine = Engine<Services | JobDiagnosis>
