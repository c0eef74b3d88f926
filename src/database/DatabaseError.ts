import { SqlError } from "@effect/sql/SqlError"
import { Effect, Schema } from "effect"
import * as SqlState from "./SqlState.js"

const fields = {
  /** What PostgreSQL or the driver said. For the log; never for a client of ours. */
  detail: Schema.String,
  sqlState: Schema.optional(Schema.String)
}

/** The database could not be asked, or asked that the same be tried again: connection lost, restart, deadlock, time-out. */
export class DatabaseUnavailable extends Schema.TaggedError<DatabaseUnavailable>()("DatabaseUnavailable", {
  ...fields,
  /** This process ends and asks nothing more of the database: a retry cannot help. */
  processEnds: Schema.optional(Schema.Boolean),
  /** False when a COMMIT was under way: what it held may stand, so only an act that bears repeating may be repeated. */
  nothingWritten: Schema.Boolean
}) {
  override get message(): string {
    return isContention(this)
      ? `Concurrent transactions got in each other's way, so this one was undone: ${this.detail}. Try again.`
      : `The database is not available: ${this.detail}`
  }
}

/** What was to be written contradicts what stands. */
export class DatabaseConflict extends Schema.TaggedError<DatabaseConflict>()("DatabaseConflict", {
  ...fields,
  constraint: Schema.optional(Schema.String)
}) {
  override get message(): string {
    return `The database refused a conflicting write: ${this.detail}`
  }
}

/** The statement, its rights or the schema are wrong: trying again cannot help. */
export class DatabaseFault extends Schema.TaggedError<DatabaseFault>()("DatabaseFault", fields) {
  override get message(): string {
    return `The database refused a statement: ${this.detail}`
  }
}

export type DatabaseError = DatabaseUnavailable | DatabaseConflict | DatabaseFault

/** serialization_failure, deadlock_detected: nothing is wrong with the database, and the same may work at once. */
const contention = new Set(["40001", "40P01"])

/** Whether the database asks that the whole transaction be tried again because of others at the same time. */
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

/** Sorts what the driver threw by its SQLSTATE, and by the socket's code where the server never answered. */
export const fromSqlError = (error: SqlError, during: "statement" | "commit" = "statement"): DatabaseError => {
  const cause = driverError(error)
  const sqlState = SqlState.codeOf(cause)
  const detail = cause.message ?? error.message
  const shared = { detail, ...(sqlState === undefined ? {} : { sqlState }) }
  const ends = error.cause instanceof ServerGivenUp ? { processEnds: true } : {}
  switch (SqlState.sort(cause)) {
    case "retryable":
      // A server that answers COMMIT with an error has rolled back; one that did not answer may have committed.
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

/** The server refused a value: out of range, not of its type, larger than it can hold. Other values may pass. */
export const isDataError = (error: { readonly _tag: string }): boolean =>
  error instanceof DatabaseFault && (error.sqlState?.startsWith("22") || error.sqlState?.startsWith("54")) === true

/** Turns the driver's failures into ours. */
export const mapErrors = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, Exclude<E, SqlError> | DatabaseError, R> =>
  Effect.mapError(effect, (error) =>
    error instanceof SqlError ? fromSqlError(error) : (error as Exclude<E, SqlError>)
  )
