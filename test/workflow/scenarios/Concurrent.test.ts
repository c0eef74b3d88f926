import { afterAll, beforeAll, expect, it } from "vitest"
import { z } from "zod"
import { connect, type Shift, worker, workflow } from "../../../src/client/index.js"
import { useDatabase } from "../../client/ClientDatabase.js"

// What the test suites of other engines check with several processes on one PostgreSQL.

const database = useDatabase()
let shifts: ReadonlyArray<Shift>
beforeAll(async () => {
  await database.pool().query("create table ledger (id text)")
  shifts = await Promise.all([1, 2].map(() => connect(database.url(), { log: false })))
})
afterAll(() => Promise.all(shifts.map((shift) => shift.close())))

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id, queue: "orders" }
const patience = { timeout: "60s" } as const
const each = <A>(count: number, make: (n: number, shift: Shift) => Promise<A>) =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n, shifts[n % shifts.length] as Shift)))

it("twenty concurrent starts of one key from two processes are one execution that runs once", async () => {
  let runs = 0
  const order = workflow("same key", settings, async (_, step) => step.run("charge", () => ++runs))
  await using _ = await worker(shifts[0] as Shift, { handlers: [order] })
  await using __ = await worker(shifts[1] as Shift, { handlers: [order] })
  const handles = await each(20, (_, shift) => shift.start(order, { id: "A" }))
  expect(new Set(handles.map(({ id }) => id)).size).toBe(1)
  expect(handles.filter(({ outcome }) => outcome === "started").length).toBe(1)
  expect(await Promise.all(handles.map((run) => run.result(patience)))).toEqual(Array(20).fill(1))
})

it("of twenty concurrent values of one signal one is kept, and all senders learn which", async () => {
  const order = workflow("one signal", settings, async (_, step) => step.waitFor<number>("go"))
  await using _ = await worker(shifts[0] as Shift, { handlers: [order] })
  const run = await (shifts[0] as Shift).start(order, { id: "A" })
  const answers = await each(20, (n, shift) => shift.execution(order, "A").signal("go", n))
  const kept = answers.indexOf("completed")
  expect(answers.filter((answer) => answer === "completed").length).toBe(1)
  expect(await run.result(patience)).toBe(kept)
})

it("a transactional step commits once, with its record, however often it is tried", async () => {
  const order = workflow("exactly once", settings, async ({ id }, step) =>
    step.runInTransaction(
      "book",
      async ({ attempt, tx }) => {
        await tx.query("insert into ledger values ($1)", [id])
        if (attempt < 3) throw new Error("again")
        return attempt
      },
      { backoff: "1ms" }
    )
  )
  await using _ = await worker(shifts[0] as Shift, { handlers: [order] })
  const runs = await each(10, (n, shift) => shift.start(order, { id: String(n) }))
  expect(await Promise.all(runs.map((run) => run.result(patience)))).toEqual(Array(10).fill(3))
  const { rows } = await database.pool().query("select count(*)::int as n, count(distinct id)::int as ids from ledger")
  expect(rows[0]).toEqual({ n: 10, ids: 10 })
})

it("an execution that a stopping process left continues in another one, with its results", async () => {
  const log: Array<string> = []
  const order = workflow("moves", settings, async (_, step) => {
    await step.run("charge", () => void log.push("charge"))
    await step.waitFor("go")
    return step.run("ship", () => log.push("ship"))
  })
  const [first, second] = shifts as readonly [Shift, Shift]
  const old = await worker(first, { handlers: [order] })
  const run = await first.start(order, { id: "A" })
  await expect.poll(async () => (await run.status()).state, { timeout: 60_000 }).toBe("waiting")
  await old.stop()
  await run.signal("go")
  await using _ = await worker(second, { handlers: [order] })
  expect([await run.result(patience), log]).toEqual([2, ["charge", "ship"]])
})
