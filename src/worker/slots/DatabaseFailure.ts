import { SqlError } from "@effect/sql/SqlError"
import { Cause, Duration, Effect, Exit, Option, Schedule } from "effect"
import type { JobId } from "../../core/Ids.js"
import { type DatabaseError, DatabaseUnavailable, fromSqlError, isContention } from "../../database/DatabaseError.js"
import { End } from "../../queue/AttemptEnd.js"
import type { ClaimedJob } from "../../queue/Queue.js"

// If the transaction of a transactional handler cannot be opened or committed, or loses its connection, the handler has
// not failed, and no attempt is used up. The slot waits for a connection itself, so that the pod does not claim more
// jobs than it can start.

/** How long opening a transaction is retried before the handler starts, but at most half of the job's timeout. */
const openTimeout = Duration.seconds(10)
/** How often a slot retries a transaction that conflicts with another one. */
const contentionTries = 10
/** A job that loses its connection more often than this may be the cause, so its attempts count from then on. */
const lossesForgiven = 5
/** Number of jobs whose lost connections are tracked. */
const remembered = 10_000

/**
 * SQLSTATEs of a server that is shutting down, full, read-only or out of connections, and of poolers that lose prepared
 * statements.
 */
const outages = ["08", "53", "57P01", "57P02", "57P03", "58", "25006", "26000", "42P05"]

const isOutage = ({ sqlState }: DatabaseUnavailable) =>
  sqlState === undefined || outages.some((code) => sqlState.startsWith(code))

/**
 * Whether the error is a conflict or an outage, which is not the handler's fault. Statement timeouts and constraint
 * violations are the handler's fault.
 */
export const isOurs = (error: unknown): error is DatabaseUnavailable =>
  error instanceof DatabaseUnavailable && (isContention(error) || isOutage(error))

/** Returns the error of a handler whose own statement failed because of a concurrent transaction. */
export const contentionIn = (exit: Exit.Exit<unknown, unknown>): DatabaseError | undefined => {
  if (Exit.isSuccess(exit)) return undefined
  const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
  const error = failure instanceof SqlError ? fromSqlError(failure) : failure
  return isContention(error) ? (error as DatabaseError) : undefined
}

/**
 * Retries opening the transaction until the handler has started, and retries the whole transaction after a conflict.
 */
export const retrying = <A, E, R>(
  transaction: Effect.Effect<A, E, R>,
  options: { readonly begun: () => boolean; readonly timeoutMillis: number }
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const until = performance.now() + Math.min(Duration.toMillis(openTimeout), options.timeoutMillis / 2)
    let conflicts = 0
    return Effect.retry(transaction, {
      while: (error) => {
        if (!isOurs(error)) return false
        if (isContention(error)) return ++conflicts <= contentionTries
        return !options.begun() && performance.now() < until
      },
      schedule: Schedule.exponential("20 millis").pipe(Schedule.union(Schedule.spaced("1 second")), Schedule.jittered)
    })
  })

const losses = new Map<JobId, number>()

/**
 * Returns the job to the queue without using up an attempt. Returns undefined if the job has lost its connection too
 * often.
 */
export const returnToQueue = (
  job: ClaimedJob,
  error: DatabaseUnavailable,
  begun: boolean,
  at: { readonly now: number; readonly chance: number }
): End | undefined => {
  const lost = (losses.get(job.id) ?? 0) + 1
  if (begun && lost > lossesForgiven) {
    losses.delete(job.id)
    return undefined
  }
  losses.set(job.id, begun ? lost : lost - 1)
  const [oldest] = losses.keys()
  if (losses.size > remembered && oldest !== undefined) losses.delete(oldest)
  const wait = Math.min(30_000, 1_000 * 2 ** (lost - 1)) * (0.5 + at.chance / 2)
  return End.Again({ runAt: at.now + wait, counted: false, error: error.message, remember: "database unavailable" })
}
