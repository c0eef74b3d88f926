import { SqlError } from "@effect/sql/SqlError"
import { Effect, Schema } from "effect"
import { type Answer, Expected } from "../core/ExpectedError.js"

/** The fields that `pg` and the socket set on an error. */
export interface DriverError {
  readonly code?: string
  readonly message?: string
  readonly constraint?: string
  /** Set by the connection: the statement may have been committed before the connection was lost. */
  readonly mayBeWritten?: boolean
}

export type ErrorClass = "retryable" | "conflict" | "fatal"

/** SQLSTATE classes (two characters) and codes that are transient. */
const retryable = new Set([
  "08", // connection exception
  "53", // too many connections, out of memory, disk full
  "57", // operator intervention: shutdown, restart, cancelled by statement_timeout
  "58", // system error outside PostgreSQL
  "40001", // serialization failure
  "40P01", // deadlock
  "55P03", // lock_timeout
  "26000", // prepared statement lost by a pooler; the retry does not use one
  "42P05", // duplicate prepared statement behind a pooler
  "25006", // read-only server: a replica during a failover
  "25P02", // failed transaction whose first error was already handled
  "25P03", // idle_in_transaction_session_timeout
  "25P04" // transaction_timeout
])

const conflict = new Set([
  "23" // integrity constraint: unique, foreign key, check, exclusion
])

/**
 * Permanent errors, such as a missing database or a wrong password, whose class otherwise contains transient errors.
 */
const fatal = new Set(["57P04", "53400", "28000", "28P01", "3D000"])

const sqlStatePattern = /^[0-9A-Z]{5}$/
/** Node's error codes can also have five letters (`EPIPE`), but every SQLSTATE contains a digit. */
const isSqlState = (code: string) => sqlStatePattern.test(code) && /\d/.test(code)

/** Returns the SQLSTATE; undefined if the server did not answer. */
const sqlStateOf = (error: DriverError): string | undefined =>
  error.code !== undefined && isSqlState(error.code) ? error.code : undefined

/** Whether the server did not answer the statement. A pooler that loses its server answers with class 08. */
export const isUnanswered = (error: DriverError): boolean => sqlStateOf(error)?.startsWith("08") ?? true

/** Classifies an error. An error without a SQLSTATE is a failed connection, which is transient. */
export const classify = (error: DriverError): ErrorClass => {
  const code = sqlStateOf(error)
  if (code === undefined) return "retryable"
  const among = (codes: ReadonlySet<string>) => codes.has(code) || codes.has(code.slice(0, 2))
  if (among(fatal)) return "fatal"
  if (among(conflict)) return "conflict"
  return among(retryable) ? "retryable" : "fatal"
}

const fields = {
  /** The message of PostgreSQL or the driver. For the log only; never send it to a client. */
  detail: Schema.String,
  /** SQLSTATE of PostgreSQL, such as `23505`. Absent if the server was not reached. */
  sqlState: Schema.optional(Schema.String)
}

/** A transient failure that can be retried: lost connection, restart, deadlock, timeout. */
export class DatabaseUnavailable extends Expected<DatabaseUnavailable>(503, {
  headers: { "retry-after": "1" },
  logged: true
})("DatabaseUnavailable", {
  ...fields,
  /** This process is shutting down and sends no more statements, so a retry cannot succeed. */
  processEnds: Schema.optional(Schema.Boolean),
  /**
   * False when a COMMIT, or a write outside a transaction, got no answer. It may have been committed, so only idempotent
   * operations may be retried.
   */
  nothingWritten: Schema.Boolean
}) {
  override get message(): string {
    if (isContention(this))
      return `The transaction was rolled back because of a conflict with a concurrent one: ${this.detail}. Try again.`
    const advice = this.connectionLost ? ". Check that PostgreSQL is running and reachable, then try again." : ""
    return `The database is not available: ${this.detail}${advice}`
  }

  override get answer(): Answer {
    return {
      ...DatabaseUnavailable.answer,
      message: this.nothingWritten
        ? "The database is unavailable; nothing was changed. Try again."
        : "The database connection was lost during a write, so the change may have been made. Check before you retry."
    }
  }

  /** Whether there was no connection or it was lost: the pool logs one line for the outage. */
  get connectionLost(): boolean {
    return this.sqlState === undefined ? this.detail !== poolExhausted : connectionEnded.test(this.sqlState)
  }

  /** Whether no connection could be opened, so that the next attempt is expected to fail as well. */
  get connectionRefused(): boolean {
    return this.sqlState === undefined && notConnected.test(this.detail)
  }
}

/** Node's error when a connection could not be opened, such as `connect ECONNREFUSED 10.0.0.7:5432`, or that of the pool. */
const notConnected = /^connect E|^Connection terminated due to connection timeout$/
/** SQLSTATEs with which a server ends or rejects connections: it shuts down, has crashed, or is still starting. */
const connectionEnded = /^(08|57P0[123])/
/** The error of the pool when all of its connections are in use. */
const poolExhausted = "timeout exceeded when trying to connect"

/** The write violates a constraint. */
export class DatabaseConflict extends Expected<DatabaseConflict>(409, {
  code: "DATABASE_REFUSED",
  message: "The request conflicts with existing data. See the server log for details.",
  logged: true
})("DatabaseConflict", {
  ...fields,
  /** Name of the violated constraint, if PostgreSQL reported it. */
  constraint: Schema.optional(Schema.String)
}) {
  override get message(): string {
    return `The database rejected a conflicting write: ${this.detail}`
  }
}

/** SQLSTATE of a character that has no equivalent in the database's encoding. */
const untranslatable = "22P05"

const untranslatableAnswer: Answer = {
  status: 400,
  code: "DATABASE_REFUSED",
  message:
    "The request has a character that the database cannot store. Remove it, or use a database with the encoding UTF8."
}

/** A permanent failure: invalid statement, missing privilege or wrong schema. Retrying does not help. */
export class DatabaseFault extends Expected<DatabaseFault>(500, {
  code: "DATABASE_REFUSED",
  message: "The database rejected a statement. See the log for details.",
  logged: true
})("DatabaseFault", fields) {
  override get message(): string {
    return `The database rejected a statement: ${this.detail}`
  }

  override get answer(): Answer {
    return this.sqlState === untranslatable ? untranslatableAnswer : DatabaseFault.answer
  }
}

/** A statement failed. DatabaseUnavailable can be retried; the other two fail again. */
export type DatabaseError = DatabaseUnavailable | DatabaseConflict | DatabaseFault

/** serialization_failure and deadlock_detected: the database is healthy, and an immediate retry may succeed. */
const contention = new Set(["40001", "40P01"])

/** Whether the transaction was rolled back because of a concurrent one and should be retried as a whole. */
export const isContention = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable &&
  error.nothingWritten &&
  error.sqlState !== undefined &&
  contention.has(error.sqlState)

/**
 * Retries up to three times after contention. `Effect.retry` is built only after the first failure: building it takes as
 * long as everything else that a claim does before its statement is sent.
 */
export const retryContention = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.catchIf(effect, isContention, () => Effect.retry(effect, { times: 2, while: isContention }))

/** The error of an operation of which a part is committed, or may be. */
export const partlyWritten = <E>(error: E): E | DatabaseUnavailable => {
  if (!(error instanceof DatabaseUnavailable) || !error.nothingWritten) return error
  const { detail, processEnds, sqlState } = error
  return new DatabaseUnavailable({ detail, sqlState, processEnds, nothingWritten: false })
}

/** A retry after `first`. If that may have been committed, so may a retry that fails. */
export const retryAfter = <A, E, R>(first: unknown, retry: Effect.Effect<A, E, R>) =>
  first instanceof DatabaseUnavailable && !first.nothingWritten ? Effect.mapError(retry, partlyWritten) : retry

/** The reason why connections are closed and statements rejected if the server does not answer during the shutdown. */
export class ServerUnresponsive extends Error {
  constructor() {
    super("connection closed: the process is shutting down, and PostgreSQL does not answer")
  }
}

const driverError = (error: SqlError): DriverError =>
  typeof error.cause === "object" && error.cause !== null ? (error.cause as DriverError) : {}

/** Classifies a driver error by its SQLSTATE, or by the socket's error code if the server did not answer. */
export const fromSqlError = (error: SqlError): DatabaseError => {
  const cause = driverError(error)
  const sqlState = sqlStateOf(cause)
  const detail = cause.message ?? error.message
  const shared = { detail, ...(sqlState === undefined ? {} : { sqlState }) }
  const ends = error.cause instanceof ServerUnresponsive ? { processEnds: true } : {}
  switch (classify(cause)) {
    case "retryable":
      return new DatabaseUnavailable({ ...shared, ...ends, nothingWritten: cause.mayBeWritten !== true })
    case "conflict":
      return new DatabaseConflict({
        ...shared,
        ...(cause.constraint === undefined ? {} : { constraint: cause.constraint })
      })
    case "fatal":
      return new DatabaseFault(shared)
  }
}

/**
 * Whether the server rejected a value: out of range, wrong type or too large. The same statement may succeed with other
 * values.
 */
export const isDataError = (error: { readonly _tag: string }): boolean =>
  error instanceof DatabaseFault && (error.sqlState?.startsWith("22") || error.sqlState?.startsWith("54")) === true

/** Converts driver errors to DatabaseError. */
export const mapErrors = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> =>
  Effect.mapError(effect, (error) =>
    error instanceof SqlError ? fromSqlError(error) : (error as Exclude<E, SqlError>)
  )
