import { Effect, Redacted } from "effect"
import pg from "pg"
import type { FleetDeclaration } from "../../src/client/index.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** The URLs of two databases. */
export const databases = Effect.map(Effect.replicateEffect(TestDatabase.migrated, 2), ([one, two]) => ({
  one: Redacted.value(one as Redacted.Redacted),
  two: Redacted.value(two as Redacted.Redacted)
}))

/** A fleet of two cells, with a queue that both have. */
export const declared = ({ one, two }: { readonly one: string; readonly two: string }): FleetDeclaration => ({
  cells: { main: { database: one }, mail: { database: two } },
  queues: { letters: "mail", divided: { cells: ["main", "mail"], by: "key" } },
  default: "main"
})

/** Queues and keys of the jobs in a database. */
export const stored = (url: string) =>
  Effect.promise(async () => {
    const client = new pg.Client({ connectionString: url })
    await client.connect()
    try {
      const { rows } = await client.query("select queue, key from nightshift.job order by id")
      return rows.map(({ key, queue }) => (key === null ? queue : `${queue} ${key}`))
    } finally {
      await client.end()
    }
  })
