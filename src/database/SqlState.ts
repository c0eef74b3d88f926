/** The fields that `pg` and the socket set on an error. */
export interface DriverError {
  readonly code?: string
  readonly message?: string
  readonly constraint?: string
}

export type Sort = "retryable" | "conflict" | "fatal"

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
export const codeOf = (error: DriverError): string | undefined =>
  error.code !== undefined && isSqlState(error.code) ? error.code : undefined

/** Classifies an error. An error without a SQLSTATE is a failed connection, which is transient. */
export const sort = (error: DriverError): Sort => {
  const code = codeOf(error)
  if (code === undefined) return "retryable"
  const among = (codes: ReadonlySet<string>) => codes.has(code) || codes.has(code.slice(0, 2))
  if (among(fatal)) return "fatal"
  if (among(conflict)) return "conflict"
  return among(retryable) ? "retryable" : "fatal"
}
