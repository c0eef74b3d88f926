import { createHash } from "node:crypto"
import { Predicate } from "effect"

// PostgreSQL plans an unnamed statement anew at each call. The few statements that run thousands of times a second are sent
// under a name instead, so that a connection parses and plans them once. A pooler that gives every transaction another
// connection and does not know prepared statements (PgBouncer before 1.21) loses the names: the server then answers that a
// name exists already or does not exist, and from there on the process sends none.

/** Texts to be sent under a name. Shared by all pools: a name is the hash of its text, so it means one thing only. */
const names = new Map<string, string>()

/** Marks a statement as hot: from now on every connection that may, prepares it. Returns the text, for use in place. */
export const hot = (text: string): string => {
  if (!names.has(text)) names.set(text, `ns_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`)
  return text
}

/** duplicate_prepared_statement, invalid_sql_statement_name */
const lostNames = new Set(["42P05", "26000"])

/** Whether the connections of this process prepare hot statements. */
export interface PreparedNames {
  /** The name a statement is sent under, if it has one. */
  readonly of: (text: string) => string | undefined
  /** Whether this error says that names get lost on the way; no name is given out from then on. */
  readonly gaveUpOn: (error: unknown) => boolean
}

/** `onLost` is called once, when names turn out to get lost. */
export const preparing = (enabled: boolean, onLost: () => void): PreparedNames => {
  let active = enabled
  return {
    of: (text) => (active ? names.get(text) : undefined),
    gaveUpOn: (error) => {
      if (!Predicate.hasProperty(error, "code") || !lostNames.has(String(error.code))) return false
      if (active) onLost()
      active = false
      return true
    }
  }
}
