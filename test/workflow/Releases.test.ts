import { afterAll, beforeAll, expect, it, vi } from "vitest"
import { z } from "zod"
import { connect, type Shift, worker, workflow } from "../../src/client/index.js"
import { useDatabase } from "../client/ClientDatabase.js"

// A rolling deploy: pods of two releases on one database.

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id, queue: "orders" }
const often = { interval: 10, timeout: 20_000 }

/** The claims of an execution, each of which ended. */
const claims = async (execution: string) => {
  const { rows } = await database.pool().query("select woken from nightshift.job where dedupe_key = $1", [execution])
  return rows[0]?.woken
}

it("an execution goes to the release that wrote its journal, although the other one claims it first", async () => {
  let oldRuns = 0
  const old = workflow("order", settings, async (_, step) => {
    oldRuns += 1
    await step.run("charge", () => 1)
    await step.waitFor("go")
    return "old"
  })
  const next = workflow("order", settings, async (_, step) => {
    await step.run("charge", () => 1)
    if (await step.patched("tax")) await step.run("report tax", () => 2)
    await step.waitFor("go")
    return "new"
  })
  const pods = () => database.pool().query("select * from nightshift.pod")
  await using first = await worker(shift, { handlers: [next], queues: { orders: 4 } })
  await shift.start(next, { id: "A" })
  await vi.waitFor(async () => expect((await shift.execution(next, "A").status()).state).toBe("waiting"), often)
  // A pod of the new release that is alive and has no free slot: the old release claims the execution.
  const { rows } = await pods()
  await first.stop()
  await database
    .pool()
    .query("insert into nightshift.pod select * from jsonb_populate_recordset(null::nightshift.pod, $1)", [
      JSON.stringify(rows)
    ])
  await using __ = await worker(shift, { handlers: [old], queues: { orders: 4 } })
  expect((await pods()).rows.length).toBe(2)
  await shift.execution(next, "A").signal("go")
  await vi.waitFor(async () => expect((await shift.execution(next, "A").status()).state).toBe("changed"), often)
  const before = await claims("order/A")
  await vi.waitFor(async () => expect(await claims("order/A")).toBeGreaterThan(before), often)
  expect(oldRuns).toBe(1)
  await using ___ = await worker(shift, { handlers: [next], queues: { orders: 4 } })
  expect(await shift.execution(next, "A").result({ timeout: "20s" })).toBe("new")
  expect(oldRuns).toBe(1)
})
