import { drizzle } from "drizzle-orm/node-postgres"
import { pgTable, text } from "drizzle-orm/pg-core"
import { Kysely, PostgresDialect } from "kysely"
import { afterAll, beforeAll, expect, it } from "vitest"
import { z } from "zod"
import { connect, job, type Shift, worker } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  await database.pool().query("create table credit (id text primary key)")
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

const credit = job("credit", {
  payload: z.object({ id: z.string(), fails: z.boolean().default(false) }),
  retry: { maxAttempts: 1 },
  queue: "credit"
})
const note = job("note", { payload: z.object({ about: z.string() }), queue: "notes" })
const credits = pgTable("credit", { id: text().primaryKey() })

it("a handler in a transaction writes by any library that can adopt a pg client, all or nothing", async () => {
  const handler = credit.handleInTransaction(async ({ fails, id }, { enqueue, tx }) => {
    await tx.query("insert into credit values ($1)", [`${id} pg`])
    await drizzle(tx)
      .insert(credits)
      .values({ id: `${id} drizzle` })
    const kysely = new Kysely<{ credit: { id: string } }>({
      dialect: new PostgresDialect({
        pool: { connect: async () => ({ query: tx.query.bind(tx), release: () => {} }) as never, end: async () => {} }
      })
    })
    await kysely
      .insertInto("credit")
      .values({ id: `${id} kysely` })
      .execute()
    await enqueue(note, { about: id })
    if (fails) throw new Error("no credit")
  })
  await using _ = await worker(shift, { handlers: [handler] })
  const bad = await shift.enqueue(credit, { id: "bad", fails: true })
  const good = await shift.enqueue(credit, { id: "good" })
  await shift.result(good.id, { timeout: "30s" })
  await expect(shift.result(bad.id, { timeout: "30s" })).rejects.toMatchObject({ code: "JOB_DEAD" })
  const { rows } = await database.pool().query("select id from credit order by id")
  expect(rows.map(({ id }) => id)).toEqual(["good drizzle", "good kysely", "good pg"])
  expect(await database.count("note")).toBe(1)
})
