import { describe, expect, it } from "vitest"
import { z } from "zod"
import { connect, type ExecutionFilter, type Shift, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { useDatabase } from "../client/ClientDatabase.js"

const database = useDatabase()

const order = workflow("order", { payload: z.object({ id: z.string() }), key: ({ id }) => id }, async (_, step) =>
  step.waitFor("go")
)

const stores: ReadonlyArray<readonly [string, () => Promise<Shift>]> = [
  ["on PostgreSQL", () => connect(database.url(), { log: false })],
  ["in a test", () => testShift({ handlers: [order] })]
]

describe.each(stores)("tags of executions %s", (_, open) => {
  it("are set at the start and later, and select executions", async () => {
    await using shift = await open()
    const a = await shift.start(order, { id: "A" }, { tags: { customer: "42" }, delay: "1d" })
    await shift.start(order, { id: "B" }, { tags: { customer: "43", vip: "yes" }, delay: "1d" })
    expect(await a.tag({ region: "eu" })).toEqual({ customer: "42", region: "eu" })
    expect(await a.tag({ region: null })).toEqual({ customer: "42" })
    expect((await a.status()).tags).toEqual({ customer: "42" })
    const keys = async (filter: ExecutionFilter) =>
      (await shift.workflows.list(filter).toArray()).map(({ execution, tags }) => [execution, tags])
    expect(await keys({ tag: { customer: "42" } })).toEqual([["order/A", { customer: "42" }]])
    expect(await keys({ tag: { customer: "42", vip: "yes" } })).toEqual([])
    const { createdAt } = await a.status()
    expect(await shift.workflows.count({ workflow: "order", since: createdAt })).toBe(2)
    expect(await shift.workflows.count({ workflow: "order", until: createdAt })).toBe(0)
    await expect(shift.execution(order, "none").tag({ a: "b" })).rejects.toMatchObject({ code: "EXECUTION_NOT_FOUND" })
    await expect(shift.start(order, { id: "C" }, { tags: { a: 7 } as never })).rejects.toMatchObject({
      code: "INVALID_OPTION",
      option: "tags",
      message: 'The tag "a" must be a string, got 7.'
    })
    expect(() => shift.workflows.list({ tag: "customer=42" as never })).toThrow(
      'filter.tag is invalid: Tags must be an object like { customer: "42" }, got "customer=42".'
    )
  })
})

it("tags of a start commit with the transaction of the program", async () => {
  await using shift = await connect(database.url(), { log: false })
  const client = await database.pool().connect()
  const start = (id: string) => shift.start(order, { id }, { tags: { order: id }, tx: client, delay: "1d" })
  await client.query("begin")
  await start("rolled back")
  await client.query("rollback")
  await client.query("begin")
  // The second one compares the id of the transaction instead of using a cursor.
  for (const id of ["first", "second", "third"]) await start(id)
  expect(await shift.workflows.count({ tag: { order: "first" } })).toBe(0)
  await client.query("commit")
  for (const id of ["first", "second", "third"])
    expect(await shift.workflows.list({ tag: { order: id } }).toArray()).toMatchObject([{ execution: `order/${id}` }])
  expect(await shift.workflows.count({ tag: { order: "rolled back" } })).toBe(0)
  client.release()
})

describe("step.tag", () => {
  it("sets tags of its execution once, and rejects invalid ones", async () => {
    const parcel = workflow(
      "parcel",
      { payload: z.object({ id: z.string() }), key: ({ id }) => id },
      async ({ id }, step) => {
        await step.tag({ parcel: id })
        const refused = await step.tag({ "a=b": "c" }).catch((error: Error) => error.message)
        await step.sleep("nap", "1h")
        await step.tag({ parcel: null, sent: "yes" })
        return refused
      }
    )
    await using shift = await testShift({ handlers: [parcel] })
    const run = await shift.start(parcel, { id: "p" })
    await shift.settle()
    expect((await run.status()).tags).toEqual({ parcel: "p" })
    expect(await run.result()).toBe('The name of the tag "a=b" must not contain "=".')
    const { steps, tags } = await run.status()
    expect(tags).toEqual({ sent: "yes" })
    expect(steps.map(({ name }) => name)).toEqual(["tag", "nap", "tag#2"])
  })
})
