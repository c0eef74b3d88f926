import { SqlError } from "@effect/sql/SqlError"
import { Cause, Duration, Effect, Exit, Option, Schedule } from "effect"
import type { JobId } from "../../core/Ids.js"
import { type DatabaseError, DatabaseUnavailable, fromSqlError, isContention } from "../../database/DatabaseError.js"
import { End } from "../../queue/AttemptEnd.js"
import type { ClaimedJob } from "../../queue/Queue.js"

// Failing to open, keep or commit the transaction of a transactional handler is not the handler's failure: its attempt is
// given back. A slot first waits for a connection itself, so that no more jobs are claimed than can be begun.

/** A transaction whose handler has not begun is opened again for so long, or half of what the job may take. */
const openPatience = Duration.seconds(10)
/** Conflicts with other transactions that a slot retries in place, at once. */
const contentionTries = 10
/** A job that loses its connection this often may be what breaks it: then its attempts count. */
const lossesForgiven = 5
/** How many jobs are remembered for that. */
const remembered = 10_000

/** What a server says that is shutting down, full, read-only or out of connections; and poolers that lose statements. */
const outages = ["08", "53", "57P01", "57P02", "57P03", "58", "25006", "26000", "42P05"]

const isOutage = ({ sqlState }: DatabaseUnavailable) =>
  sqlState === undefined || outages.some((code) => sqlState.startsWith(code))

/** Conflicts and outages, which say nothing about the handler. Statements that took too long or broke a rule do. */
export const isOurs = (error: unknown): error is DatabaseUnavailable =>
  error instanceof DatabaseUnavailable && (isContention(error) || isOutage(error))

/** A handler that failed by a conflict with another transaction, in its own statement. */
export const contentionIn = (exit: Exit.Exit<unknown, unknown>): DatabaseError | undefined => {
  if (Exit.isSuccess(exit)) return undefined
  const failure = Option.getOrUndefined(Cause.failureOption(exit.cause))
  const error = failure instanceof SqlError ? fromSqlError(failure) : failure
  return isContention(error) ? (error as DatabaseError) : undefined
}

/** Opens the transaction again while the handler has not begun, and runs it again where others got in its way. */
export const retrying = <A, E, R>(
  transaction: Effect.Effect<A, E, R>,
  options: { readonly begun: () => boolean; readonly timeoutMillis: number }
): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    const until = performance.now() + Math.min(Duration.toMillis(openPatience), options.timeoutMillis / 2)
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

/** The job goes back with its attempt, for later; nothing where it has lost its connection too often. */
export const giveBack = (
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
