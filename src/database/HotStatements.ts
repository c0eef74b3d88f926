import { createHash } from "node:crypto"
import { Predicate } from "effect"
import pg from "pg"

// PostgreSQL plans an unnamed statement anew at each call. The few statements that run thousands of times a second are
// sent under a name instead, so that a connection parses and plans them once. A pooler in front that does not know
// prepared statements (PgBouncer before 1.21) needs this off: DATABASE_PREPARE=false.

/** Texts to be sent under a name. Shared by all pools: a name is the hash of its text, so it means one thing only. */
const names = new Map<string, string>()

/** Marks a statement as hot: from now on every connection that may, prepares it. Returns the text, for use in place. */
export const hot = (text: string): string => {
  if (!names.has(text)) names.set(text, `ns_${createHash("sha256").update(text).digest("hex").slice(0, 24)}`)
  return text
}

/** A `pg` client that sends hot statements under their name. */
export class PreparingClient extends pg.Client {
  constructor(config?: string | pg.ClientConfig) {
    super(config)
    const plain = this.query.bind(this) as (...args: ReadonlyArray<unknown>) => unknown
    // `pg` declares `query` with ten overloads; the client above it uses two: (text, values, callback) and (config, callback).
    const preparing = (query: unknown, ...rest: ReadonlyArray<unknown>) => {
      const text = typeof query === "string" ? query : Predicate.hasProperty(query, "text") ? query.text : undefined
      const name = typeof text === "string" ? names.get(text) : undefined
      if (name === undefined) return plain(query, ...rest)
      return plain(typeof query === "string" ? { name, text } : { ...Object(query), name }, ...rest)
    }
    this.query = preparing as typeof this.query
  }
}
