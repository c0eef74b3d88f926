import { SqlError } from "@effect/sql/SqlError"
import { Effect, Schema } from "effect"
import * as SqlState from "./SqlState.js"

const fields = {
  /** The message of PostgreSQL or the driver. For the log only; never send it to a client. */
  detail: Schema.String,
  sqlState: Schema.optional(Schema.String)
}

/** A transient failure that can be retried: lost connection, restart, deadlock, timeout. */
export class DatabaseUnavailable extends Schema.TaggedError<DatabaseUnavailable>()("DatabaseUnavailable", {
  ...fields,
  /** This process ends and asks nothing more of the database: a retry cannot help. */
  processEnds: Schema.optional(Schema.Boolean),
  /**
   * False when a COMMIT was in flight. The transaction may have been committed, so only idempotent operations may be
   * retried.
   */
  nothingWritten: Schema.Boolean
}) {
  override get message(): string {
    return isContention(this)
      ? `The transaction was rolled back because of a conflict with a concurrent one: ${this.detail}. Try again.`
      : `The database is not available: ${this.detail}`
  }
}

/** The write violates a constraint. */
export class DatabaseConflict extends Schema.TaggedError<DatabaseConflict>()("DatabaseConflict", {
  ...fields,
  constraint: Schema.optional(Schema.String)
}) {
  override get message(): string {
    return `The database rejected a conflicting write: ${this.detail}`
  }
}

/** A permanent failure: invalid statement, missing privilege or wrong schema. Retrying does not help. */
export class DatabaseFault extends Schema.TaggedError<DatabaseFault>()("DatabaseFault", fields) {
  override get message(): string {
    return `The database rejected a statement: ${this.detail}`
  }
}

export type DatabaseError = DatabaseUnavailable | DatabaseConflict | DatabaseFault

/** serialization_failure and deadlock_detected: the database is healthy, and an immediate retry may succeed. */
const contention = new Set(["40001", "40P01"])

/** Whether the transaction was rolled back because of a concurrent one and should be retried as a whole. */
export const isContention = (error: unknown): boolean =>
  error instanceof DatabaseUnavailable && error.sqlState !== undefined && contention.has(error.sqlState)

/** Why connections are closed and statements refused at the end of a process whose server does not answer. */
export class ServerGivenUp extends Error {
  constructor() {
    super("connection closed: the process ends, and PostgreSQL does not answer")
  }
}

const driverError = (error: SqlError): SqlState.DriverError =>
  typeof error.cause === "object" && error.cause !== null ? (error.cause as SqlState.DriverError) : {}

/** Classifies a driver error by its SQLSTATE, or by the socket's error code if the server did not answer. */
export const fromSqlError = (error: SqlError, during: "statement" | "commit" = "statement"): DatabaseError => {
  const cause = driverError(error)
  const sqlState = SqlState.codeOf(cause)
  const detail = cause.message ?? error.message
  const shared = { detail, ...(sqlState === undefined ? {} : { sqlState }) }
  const ends = error.cause instanceof ServerGivenUp ? { processEnds: true } : {}
  switch (SqlState.sort(cause)) {
    case "retryable":
      // A server that answers COMMIT with an error has rolled back. A server that did not answer may have committed.
      return new DatabaseUnavailable({
        ...shared,
        ...ends,
        nothingWritten: during === "statement" || sqlState !== undefined
      })
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
