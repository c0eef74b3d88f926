import { afterAll, expect, it } from "vitest"
import { z } from "zod"
import { connect, job } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()
const parcel = job("parcel", { payload: z.object({}) })

const { DATABASE_SCHEMA, DATABASE_URL } = process.env
afterAll(() => {
  for (const [key, value] of Object.entries({ DATABASE_SCHEMA, DATABASE_URL }))
    if (value === undefined) delete process.env[key]
    else process.env[key] = value
})

it("connect takes the settings of the environment as they are at the call", async () => {
  process.env.DATABASE_URL = database.url()
  process.env.DATABASE_SCHEMA = "first"
  const first = connect(undefined, { log: false })
  process.env.DATABASE_SCHEMA = "second"
  const second = connect(undefined, { log: false })
  process.env.DATABASE_SCHEMA = "third"
  const again = connect(database.url(), { log: false, schema: "first" })
  await using one = await first
  await using two = await second
  await using same = await again
  await one.enqueue(parcel, {})
  expect([await one.jobs.count(), await two.jobs.count(), await same.jobs.count()]).toEqual([1, 0, 1])
  const { rows } = await database.pool().query("select nspname from pg_namespace where nspname in ('second', 'third')")
  expect(rows).toEqual([{ nspname: "second" }])
})
