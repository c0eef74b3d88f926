import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import {
  connect,
  job,
  QueueFullError,
  type Shift,
  type Transaction,
  TransactionError,
  worker
} from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

// One program's own table and one job, written by each library in one transaction.

export const ship = job("ship", {
  payload: z.object({ order: z.string(), note: z.string().optional() }),
  queue: "dock"
})

/** The same with a validator that answers only after `release`. */
const makeHeldShip = () => {
  let release = () => {}
  const released = new Promise<void>((resolve) => {
    release = resolve
  })
  const payload = z.object({ order: z.string() }).refine(async () => {
    await released
    return true
  })
  return { heldShip: job("held_ship", { payload, queue: "dock" }), release }
}

/** What each library can do with a transaction. */
export interface Library {
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

export const insert = "insert into orders (id) values ($1)"

export type Makers = Readonly<Record<string, (url: string) => Library | Promise<Library>>>

/** The tests that hold for a transaction of every library. Returns their database and shift. */
export const transactionCases = (makers: Makers) => {
  const database = useDatabase()
  let shift: Shift

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
      library = await make(database.url())
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
      await expect(outside).rejects.toThrow(/not in a transaction\. Pass the /)
    })

    it("stores nothing when an enqueue was not awaited before the rollback", async () => {
      const order = `${name} does not wait`
      const { heldShip, release } = makeHeldShip()
      let late: Promise<unknown> = Promise.resolve()
      const changed = library.transaction(async (tx, write) => {
        await write(order)
        // postgres.js drops statements that it has not sent before the rollback, and may then not answer the next one either.
        if (library.endsWithConnection !== true) shift.enqueue(ship, { order }, { tx }).catch(() => {})
        late = shift.enqueue(heldShip, { order }, { tx }).catch((error: unknown) => error)
        throw new Error("changed my mind")
      })
      await expect(changed).rejects.toThrow("changed my mind")
      release()
      expect(await late).toBeInstanceOf(TransactionError)
      expect(await jobsOf(order)).toEqual([])
    })

    it.each(["commit", "rollback"])("is refused after its %s", async (end) => {
      const order = `${name} after ${end}`
      for (const uses of [0, 1]) {
        let saved: Transaction | undefined
        const ended = library.transaction(async (tx) => {
          saved = tx
          for (let use = 0; use < uses; use += 1) await shift.enqueue(ship, { order: `${order}, in time` }, { tx })
          if (end === "rollback") throw new Error("changed my mind")
        })
        await ended.catch(() => {})
        const refused = await shift.enqueue(ship, { order }, { tx: saved as Transaction }).catch((error) => error)
        expect(refused).toBeInstanceOf(TransactionError)
        expect(refused.message).toMatch(/transaction/i)
      }
      expect(await jobsOf(order)).toEqual([])
    })

    it("takes several jobs at once", async () => {
      const order = `${name} at once`
      await library.transaction(async (tx) => {
        await Promise.all([1, 2, 3].map((each) => shift.enqueue(ship, { order, note: `${each}` }, { tx })))
        await Promise.all([4, 5].map((each) => shift.enqueue(ship, { order, note: `${each}` }, { tx })))
      })
      expect(await jobsOf(order)).toHaveLength(5)
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

  return { database, shift: () => shift }
}

const credit = job("credit", {
  payload: z.object({ id: z.string(), fails: z.boolean().default(false) }),
  attempts: 1,
  queue: "credit"
})
const note = job("note", { payload: z.object({ about: z.string() }), queue: "notes" })

type HandlerTransaction = Parameters<Parameters<typeof credit.handleInTransaction>[0]>[1]["tx"]

/** Each writes a row of the table `credit` in the transaction of a handler. */
export type Writers = Readonly<Record<string, (tx: HandlerTransaction, id: string) => Promise<unknown>>>

export const handlerCase = (writers: Writers): void => {
  const database = useDatabase()
  it(`a handler in a transaction writes by ${Object.keys(writers).join(", ")}, all or nothing`, async () => {
    await database.pool().query("create table credit (id text primary key)")
    await using shift = await connect(database.url(), { log: false })
    const handler = credit.handleInTransaction(async ({ fails, id }, { enqueue, tx }) => {
      for (const [name, write] of Object.entries(writers)) await write(tx, `${id} ${name}`)
      await enqueue(note, { about: id })
      if (fails) throw new Error("no credit")
    })
    await using _ = await worker(shift, { handlers: [handler] })
    const bad = await shift.enqueue(credit, { id: "bad", fails: true })
    const good = await shift.enqueue(credit, { id: "good" })
    await shift.result(good.id, { timeout: "30s" })
    await expect(shift.result(bad.id, { timeout: "30s" })).rejects.toMatchObject({ code: "JOB_DEAD" })
    const { rows } = await database.pool().query("select id from credit order by id")
    expect(rows.map(({ id }) => id)).toEqual(
      Object.keys(writers)
        .map((name) => `good ${name}`)
        .toSorted()
    )
    expect(await database.count("note")).toBe(1)
  })
}
