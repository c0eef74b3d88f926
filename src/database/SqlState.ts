/** What `pg` and the socket below it put on an error. */
export interface DriverError {
  readonly code?: string
  readonly message?: string
  readonly constraint?: string
}

export type Sort = "retryable" | "conflict" | "fatal"

/** Classes (two characters) and codes of PostgreSQL, each for what a caller can do about it. */
const retryable = new Set([
  "08", // connection exception
  "53", // too many connections, out of memory, disk full: may pass
  "57", // operator intervention: shutdown, restart, cancelled by statement_timeout
  "58", // system error outside of PostgreSQL
  "40001", // serialization failure
  "40P01", // deadlock
  "55P03", // lock_timeout
  "26000", // a prepared statement that a pooler lost; the next try sends none
  "42P05", // the same
  "25006", // read only: a replica during a failover
  "25P02", // in a failed transaction whose first error was handled elsewhere
  "25P03", // idle in transaction for too long
  "25P04" // transaction_timeout
])

const conflict = new Set([
  "23" // integrity constraint: unique, foreign key, check, exclusion
])

/** A database named in DATABASE_URL that does not exist, a wrong password: they share classes with things that pass. */
const fatal = new Set(["57P04", "53400", "28000", "28P01", "3D000"])

const sqlStatePattern = /^[0-9A-Z]{5}$/
/** Node's own codes (`EPIPE`) can have five letters too; every SQLSTATE holds a digit. */
const isSqlState = (code: string) => sqlStatePattern.test(code) && /\d/.test(code)

/** The server's own code; absent when the server never answered. */
export const codeOf = (error: DriverError): string | undefined =>
  error.code !== undefined && isSqlState(error.code) ? error.code : undefined

/** What a caller can do about an error. Without a SQLSTATE the connection failed, which passes. */
export const sort = (error: DriverError): Sort => {
  const code = codeOf(error)
  if (code === undefined) return "retryable"
  const among = (codes: ReadonlySet<string>) => codes.has(code) || codes.has(code.slice(0, 2))
  if (among(fatal)) return "fatal"
  if (among(conflict)) return "conflict"
  return among(retryable) ? "retryable" : "fatal"
}
