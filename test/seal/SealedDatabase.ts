import { afterEach } from "vitest"
import { z } from "zod"
import { connect, type Shift, worker } from "../../src/client/index.js"
import type { Codec } from "../../src/codec/index.js"
import { useDatabase } from "../client/ClientDatabase.js"

export const patience = { timeout: "30s" } as const
export const secret = z.object({ text: z.string() })

/** A database of the file, and programs with codecs that are connected to it until the test ends. */
export const useSealedDatabase = () => {
  const database = useDatabase()
  const closing: Array<() => Promise<void>> = []
  afterEach(async () => {
    for (const close of closing.splice(0).reverse()) await close()
  })

  const open = async (codec?: Codec): Promise<Shift> => {
    // An own pool for each: the codec belongs to it.
    const shift = await connect(database.url(), { log: false, codec })
    closing.push(() => shift.close())
    return shift
  }

  const run = async (shift: Shift, ...handlers: Parameters<typeof worker>[1]["handlers"]) => {
    const running = await worker(shift, { handlers, log: false })
    closing.push(() => running.stop())
    return running
  }

  const stored = async (id: string, column = "payload") =>
    (await database.pool().query(`select ${column} as value from nightshift.job where id = $1`, [id])).rows[0]?.value

  /** Waits until a row says something, by a query: the test has no other way to see another process. */
  const until = async (query: string, values: ReadonlyArray<unknown>): Promise<Record<string, unknown>> => {
    for (;;) {
      const { rows } = await database.pool().query(query, [...values])
      if (rows[0] !== undefined) return rows[0]
      await new Promise((resolve) => setImmediate(resolve))
    }
  }

  return { database, closing, open, run, stored, until }
}
