import { sql as drizzleSql } from "drizzle-orm"
import { drizzle } from "drizzle-orm/node-postgres"
import { drizzle as drizzleOnPostgresJs } from "drizzle-orm/postgres-js"
import Knex from "knex"
import { CamelCasePlugin, Kysely, sql as kyselySql, PostgresDialect } from "kysely"
import pg from "pg"
import postgres from "postgres"
import { DataSource } from "typeorm"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import { connect, job, QueueFullError, type Shift, type Transaction, TransactionError } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"
import * as PrismaOrders from "./PrismaOrders.js"

// One program's own table and one job, written by each library in one transaction.

const database = useDatabase()
let shift: Shift

const ship = job("ship", { payload: z.object({ order: z.string(), note: z.string().optional() }), queue: "dock" })

/** What each library can do with a transaction. */
interface Library {
  readonly name: string
  /** Runs the body in a transaction that commits, or rolls back when it throws. */
  readonly transaction: (
    body: (tx: Transaction, write: (order: string) => Promise<unknown>) => Promise<void>
  ) => Promise<void>
  /** Runs the body in a savepoint of the transaction, or nothing where the library has none. */
  readonly savepoint: (body: (tx: Transaction) => Promise<void>) => Promise<void>
  /** The database itself, which is no transaction. */
  readonly outside: () => unknown
  /** Whether the library ends a transaction by itself when its connection is lost. */
  readonly endsWithConnection?: true
  readonly close: () => Promise<unknown>
}

const insert = "insert into orders (id) values ($1)"

const pgLibrary = (): Library => {
  const pool = new pg.Pool({ connectionString: database.url(), max: 2 })
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

const drizzleLibrary = (): Library => {
  const pool = new pg.Pool({ connectionString: database.url(), max: 2 })
  pool.on("error", () => {})
  pool.on("connect", (client) => client.on("error", () => {}))
  const db = drizzle(pool)
  return {
    name: "Drizzle",
    transaction: (body) =>
      db.transaction((tx) => body(tx, (order) => tx.execute(drizzleSql`insert into orders (id) values (${order})`))),
    savepoint: (body) => db.transaction((tx) => tx.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => db,
    close: () => pool.end()
  }
}

const drizzlePostgresJsLibrary = (): Library => {
  const client = postgres(database.url(), { max: 2, onnotice: () => {} })
  const db = drizzleOnPostgresJs(client)
  return {
    name: "Drizzle on postgres.js",
    transaction: (body) =>
      db.transaction((tx) => body(tx, (order) => tx.execute(drizzleSql`insert into orders (id) values (${order})`))),
    savepoint: (body) => db.transaction((tx) => tx.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => db,
    endsWithConnection: true,
    close: () => client.end({ timeout: 0 })
  }
}

const kyselyLibrary = (): Library => {
  const pool = new pg.Pool({ connectionString: database.url(), max: 2 })
  pool.on("error", () => {})
  pool.on("connect", (client) => client.on("error", () => {}))
  const db = new Kysely<Record<string, never>>({
    dialect: new PostgresDialect({ pool }),
    plugins: [new CamelCasePlugin()]
  })
  return {
    name: "Kysely",
    transaction: (body) =>
      db
        .transaction()
        .execute((trx) => body(trx, (order) => kyselySql`insert into orders (id) values (${order})`.execute(trx))),
    savepoint: async (body) => {
      const trx = await db.startTransaction().execute()
      const one = await trx.savepoint("one").execute()
      await body(one).catch(() => one.rollbackToSavepoint("one").execute())
      await trx.commit().execute()
    },
    outside: () => db,
    close: () => db.destroy()
  }
}

const knexLibrary = (): Library => {
  const db = Knex({ client: "pg", connection: database.url(), pool: { min: 0, max: 2 } })
  return {
    name: "Knex",
    transaction: (body) => db.transaction((trx) => body(trx, (order) => trx("orders").insert({ id: order }).then())),
    savepoint: (body) => db.transaction((trx) => trx.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => db,
    close: () => db.destroy()
  }
}

const postgresJsLibrary = (): Library => {
  const sql = postgres(database.url(), { max: 2, onnotice: () => {} })
  return {
    name: "postgres.js",
    transaction: async (body) => {
      await sql.begin((tx) => body(tx, (order) => tx`insert into orders (id) values (${order})`))
    },
    savepoint: async (body) => {
      await sql.begin((tx) => tx.savepoint((inner) => body(inner)).catch(() => {}))
    },
    outside: () => sql,
    endsWithConnection: true,
    close: () => sql.end({ timeout: 0 })
  }
}

const typeormLibrary = async (): Promise<Library> => {
  const source = await new DataSource({ type: "postgres", url: database.url(), poolSize: 2 }).initialize()
  return {
    name: "TypeORM",
    transaction: (body) => source.transaction((manager) => body(manager, (order) => manager.query(insert, [order]))),
    savepoint: (body) => source.transaction((manager) => manager.transaction((inner) => body(inner)).catch(() => {})),
    outside: () => source.manager,
    close: () => source.destroy()
  }
}

const prismaLibrary = (): Library => {
  const prisma = PrismaOrders.make(database.url())
  return {
    name: "Prisma",
    transaction: (body) => prisma.$transaction((tx) => body(tx, (order) => tx.$executeRawUnsafe(insert, order))),
    savepoint: (body) =>
      prisma.$transaction(async (tx) => {
        await tx.$executeRawUnsafe("savepoint one")
        await body(tx).catch(() => tx.$executeRawUnsafe("rollback to savepoint one"))
      }),
    outside: () => prisma,
    close: () => prisma.$disconnect()
  }
}

const makers = {
  Prisma: prismaLibrary,
  pg: pgLibrary,
  Drizzle: drizzleLibrary,
  "Drizzle on postgres.js": drizzlePostgresJsLibrary,
  Kysely: kyselyLibrary,
  Knex: knexLibrary,
  "postgres.js": postgresJsLibrary,
  TypeORM: typeormLibrary
}

beforeAll(async () => {
  await database.pool().query("create table orders (id text primary key)")
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

const orders = async () => {
  const { rows } = await database.pool().query("select id from orders order by id")
  return rows.map(({ id }) => id as string)
}
const jobsOf = async (order: string) => {
  const { rows } = await database
    .pool()
    .query("select payload from nightshift.job where payload->>'order' = $1", [order])
  return rows.map(({ payload }) => payload)
}

describe.each(Object.entries(makers))("a transaction of %s", (name, make) => {
  let library: Library
  beforeAll(async () => {
    library = await make()
  })
  afterAll(async () => void (await library.close()))

  it("stores the job when it commits", async () => {
    const order = `${name} commits "quoted" \\ ? $1 ü 🚚`
    let seen = -1
    await library.transaction(async (tx, write) => {
      await write(order)
      const { id, outcome } = await shift.enqueue(
        ship,
        { order },
        { tx, dedupe: order, delay: "5m", meta: { by: name } }
      )
      expect([id, outcome]).toEqual([expect.stringMatching(/^[0-9a-f-]{36}$/), "enqueued"])
      expect(await shift.enqueue(ship, { order }, { tx, dedupe: order })).toEqual({ id, outcome: "deduplicated" })
      seen = (await jobsOf(order)).length
    })
    expect(seen).toBe(0)
    expect(await jobsOf(order)).toEqual([{ order }])
    expect(await orders()).toContain(order)
  })

  it("stores nothing when it rolls back", async () => {
    const order = `${name} rolls back`
    const changed = library.transaction(async (tx, write) => {
      await write(order)
      await shift.enqueueMany(ship, [{ order }, { order, note: "again" }], { tx })
      throw new Error("changed my mind")
    })
    await expect(changed).rejects.toThrow("changed my mind")
    expect(await jobsOf(order)).toEqual([])
    expect(await orders()).not.toContain(order)
  })

  it("stores nothing of a savepoint that is rolled back", async () => {
    const order = `${name} returns to a savepoint`
    await library.savepoint(async (tx) => {
      await shift.enqueue(ship, { order }, { tx })
      throw new Error("only this part")
    })
    expect(await jobsOf(order)).toEqual([])
    await library.savepoint(async (tx) => void (await shift.enqueue(ship, { order }, { tx })))
    expect(await jobsOf(order)).toHaveLength(1)
  })

  it("continues after a job was refused", async () => {
    const order = `${name} goes on`
    await database.pool().query(
      `insert into nightshift.queue (name, depth_cap, created_at, updated_at) values ('shut', 0, now(), now())
       on conflict do nothing`
    )
    await library.transaction(async (tx, write) => {
      await expect(shift.enqueue(ship, { order: 1 as never }, { tx })).rejects.toThrow("payload.order")
      await expect(shift.enqueue(ship, { order }, { tx, queue: "shut" })).rejects.toBeInstanceOf(QueueFullError)
      await write(order)
    })
    expect(await jobsOf(order)).toEqual([])
    expect(await orders()).toContain(order)
  })

  it("is refused when the database itself is passed instead", async () => {
    const outside = shift.enqueue(ship, { order: "nowhere" }, { tx: library.outside() as Transaction })
    await expect(outside).rejects.toBeInstanceOf(TransactionError)
    await expect(outside).rejects.toThrow(/not in a transaction: give the /)
  })

  // The last one: some libraries hand out the connection that was killed once more.
  it("stores nothing when the connection is killed before the commit", async () => {
    const order = `${name} is cut off`
    const cut = library.transaction(async (tx, write) => {
      await write(order)
      await shift.enqueue(ship, { order }, { tx })
      await database.pool().query(
        `select pg_terminate_backend(pid) from pg_stat_activity
         where datname = current_database() and state = 'idle in transaction' and pid <> pg_backend_pid()`
      )
      // postgres.js throws outside of any promise if it writes while the socket closes, so do not return to its commit.
      if (library.endsWithConnection === true) await new Promise(() => {})
    })
    await expect(cut).rejects.toThrow()
    expect(await jobsOf(order)).toEqual([])
    expect(await orders()).not.toContain(order)
  })
})

describe("a transaction", () => {
  it("of an unknown library is refused with a list of the supported ones", async () => {
    await expect(shift.enqueue(ship, { order: "x" }, { tx: {} as Transaction })).rejects.toThrow(
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
