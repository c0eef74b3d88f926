import pg from "pg"
import { describe, expect, it } from "vitest"
import { connect, type Transaction } from "../../src/client/index.js"
import { handlerCase, insert, type Library, ship, transactionCases } from "./TransactionCases.js"

// The other libraries are tested in test/libraries.

const pgLibrary = (url: string): Library => {
  const pool = new pg.Pool({ connectionString: url, max: 2 })
  pool.on("error", () => {})
  const transaction: Library["transaction"] = async (body) => {
    const client = await pool.connect()
    client.on("error", () => {})
    let failed = true
    try {
      await client.query("begin")
      await body(client, (order) => client.query(insert, [order]))
      await client.query("commit")
      failed = false
    } finally {
      if (failed) await client.query("rollback").catch(() => {})
      client.release(failed)
    }
  }
  return {
    name: "pg",
    transaction,
    savepoint: (body) =>
      transaction(async (tx) => {
        const client = tx as pg.PoolClient
        await client.query("savepoint one")
        await body(client).catch(() => client.query("rollback to savepoint one"))
      }),
    outside: () => pool,
    close: () => pool.end()
  }
}

const { database, shift } = transactionCases({ pg: pgLibrary })

describe("a transaction", () => {
  it("of an unknown library is refused with a list of the supported ones", async () => {
    await expect(shift().enqueue(ship, { order: "x" }, { tx: {} as Transaction })).rejects.toThrow(
      /Drizzle, Kysely, Prisma/
    )
  })

  it("names the expected database when the schema does not exist", async () => {
    const elsewhere = await connect(database.url(), { schema: "elsewhere", log: false })
    await database.pool().query("drop schema elsewhere cascade")
    const client = await database.pool().connect()
    await client.query("begin")
    const failed = elsewhere.enqueue(ship, { order: "x" }, { tx: client })
    await expect(failed).rejects.toMatchObject({ code: "TRANSACTION", cause: { code: "3F000" } })
    await client.query("rollback")
    client.release()
    await elsewhere.close().catch(() => {})
  })
})

handlerCase({ pg: (tx, id) => tx.query("insert into credit values ($1)", [id]) })
