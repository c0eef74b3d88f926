import { createHash } from "node:crypto"
import { Predicate } from "effect"

// PostgreSQL parses and plans an unnamed statement on every call. The few statements that run thousands of times per
// second are sent as named prepared statements, so each connection plans them once. A pooler in transaction mode
// without support for prepared statements (PgBouncer before 1.21) breaks the names: the server reports that a name
// already exists or does not exist. After such an error the process stops using names.

/** Statement texts and their names, shared by all pools. A name is the hash of its text, so it is unambiguous. */
const names = new Map<string, string>()

/** Marks a statement as hot, so that connections prepare it. Returns the text unchanged. */
export const hot = (text: string): string => {
  if (!names.has(text)) names.set(text, `ns_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`)
  return text
}

/**
 * Hides the length of an array parameter from the planner. Otherwise a plan for a short array looks cheaper than the
 * prepared plan, and PostgreSQL plans the statement again at every call, which costs more than running it for one job.
 */
export const opaque = (array: string): string => `(select ${array})`

/**
 * A condition on the ordinality of unnested arrays that is always true and makes the planner expect one row. A plan for
 * several rows that is prepared while a table is small reads the whole table, and the connection keeps the plan while the
 * table grows, until the next ANALYZE.
 */
export const few = (place: string): string => `${place} between 1 and 1000000000`

/**
 * Bounds the wait for a row that another transaction has locked, so that this row does not delay the others of the
 * statement. Null keeps the setting, in a caller's transaction. What locks the rows must read from this part.
 */
export const lockWait = (parameter: string): string => `lock_wait as materialized (
    select set_config('lock_timeout', coalesce(${parameter}, current_setting('lock_timeout')), true)
  )`

/** duplicate_prepared_statement, invalid_sql_statement_name */
const lostNames = new Set(["42P05", "26000"])

/** The names of the prepared statements, as long as this process uses them. */
export interface PreparedNames {
  /** Returns the name of a statement, if it has one. */
  readonly of: (text: string) => string | undefined
  /** Returns true if the error shows that a pooler loses names. Statements are sent without names from then on. */
  readonly lostBy: (error: unknown) => boolean
}

/** `onLost` is called once, when a pooler turns out to lose names. */
export const preparing = (enabled: boolean, onLost: () => void): PreparedNames => {
  let active = enabled
  return {
    of: (text) => (active ? names.get(text) : undefined),
    lostBy: (error) => {
      if (!Predicate.hasProperty(error, "code") || !lostNames.has(String(error.code))) return false
      if (active) onLost()
      active = false
      return true
    }
  }
}

// Statement durations, measured from sending the statement to receiving the answer. Waiting for a connection is not
// included. Statements without a name are counted together.

/** Receives the duration of each statement. Called synchronously before the result is returned, so it must be fast. */
export type StatementListener = (operation: string, millis: number) => void

const others = "other"
const operations = new Map<string, string>([["COMMIT", "commit"]])

const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Names statements for metrics by their group and key. Returns them unchanged. */
export const named = <Statements extends Readonly<Record<keyof Statements, string>>>(
  subject: string,
  statements: Statements
): Statements => {
  for (const [key, text] of Object.entries<string>(statements)) operations.set(text, `${subject}_${snakeCase(key)}`)
  return statements
}

/** Returns the name of a statement in metrics. */
export const operationOf = (text: string): string => operations.get(text) ?? others

/** Words of statements that write, and calls of functions in a schema, except the one that only counts. */
const writing = /\b(insert|update|delete|merge|truncate)\b|\b(?!pg_catalog\b)\w+"?\."?(?!waiting_jobs\b)\w+"?\(/i

/** Whether the statement may write if it is not part of a transaction, or commits one. */
export const mayWrite = (text: string): boolean => text === "COMMIT" || writing.test(text)
