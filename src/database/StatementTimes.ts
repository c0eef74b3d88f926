import { Predicate } from "effect"
import type pg from "pg"

// How long the server takes, measured where statements leave and answers arrive: waiting for a connection is not part of
// it. Statements that have a name are told apart by it, all others are one.

/** Hears how long each statement took. A plain call: it runs between an answer and whoever waits for it. */
export type StatementListener = (operation: string, millis: number) => void

const others = "other"
const operations = new Map<string, string>([["COMMIT", "commit"]])

const snakeCase = (name: string) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** Names statements after what they are about and their keys, for those who measure. Returns them, for use in place. */
export const named = <Statements extends Readonly<Record<keyof Statements, string>>>(
  subject: string,
  statements: Statements
): Statements => {
  for (const [key, text] of Object.entries<string>(statements)) operations.set(text, `${subject}_${snakeCase(key)}`)
  return statements
}

const textOf = (query: unknown): string | undefined => {
  if (typeof query === "string") return query
  return Predicate.hasProperty(query, "text") && typeof query.text === "string" ? query.text : undefined
}

/** A `pg` client that tells how long its statements take, those of a cursor aside. */
export const timing = (Client: typeof pg.Client, listener: StatementListener): typeof pg.Client =>
  class extends Client {
    constructor(config?: string | pg.ClientConfig) {
      super(config)
      const plain = this.query.bind(this) as (...args: ReadonlyArray<unknown>) => unknown
      const timed = (query: unknown, ...rest: ReadonlyArray<unknown>) => {
        const callback = rest.at(-1)
        if (typeof callback !== "function") return plain(query, ...rest)
        const operation = operations.get(textOf(query) ?? "") ?? others
        const sent = performance.now()
        return plain(query, ...rest.slice(0, -1), (...answer: ReadonlyArray<unknown>) => {
          listener(operation, performance.now() - sent)
          callback(...answer)
        })
      }
      this.query = timed as typeof this.query
    }
  }
