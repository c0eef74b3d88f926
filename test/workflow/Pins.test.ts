import { afterAll, beforeAll, expect, it, vi } from "vitest"
import { z } from "zod"
import { connect, type Shift, worker, workflow } from "../../src/client/index.js"
import { useDatabase } from "../client/ClientDatabase.js"

// Executions that are pinned to a release: pods of two releases on one database.

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

const often = { interval: 10, timeout: 20_000 }

const settingsOf = (queue: string) => ({
  payload: z.object({ id: z.string() }),
  key: ({ id }: { id: string }) => id,
  queue,
  pin: true
})

// The texts of the functions differ, so that they are two releases.
const bluePayout = (queue: string, runs: Array<string>) =>
  workflow("payout", settingsOf(queue), async ({ id }, step) => {
    runs.push(id)
    await step.run("reserve", () => id)
    await step.waitFor("go")
    return "blue"
  })
const greenPayout = (queue: string, runs: Array<string>) =>
  workflow("payout", settingsOf(queue), async ({ id }, step) => {
    runs.push(id)
    await step.run("reserve", () => id)
    await step.waitFor("go")
    return "green"
  })

const wokenOf = async (id: string): Promise<number> => {
  const { rows } = await database.pool().query("select woken from nightshift.job where dedupe_key = $1", [id])
  return rows[0]?.woken
}

it("executions are run by the release that ran them first, although another one serves their queue", async () => {
  const [blueRuns, greenRuns]: [Array<string>, Array<string>] = [[], []]
  const [blue, green] = [bluePayout("side", blueRuns), greenPayout("side", greenRuns)]
  await using _ = await worker(shift, { handlers: [blue], queues: { side: 2 } })
  const ids = [...Array(10).keys()].map((index) => `side-${index}`)
  const all = await Promise.all(ids.map((id) => shift.start(blue, { id })))
  for (const run of all) await vi.waitFor(async () => expect((await run.status()).state).toBe("waiting"), often)
  await using __ = await worker(shift, { handlers: [green], queues: { side: 8 } })
  await Promise.all(all.map((run) => run.signal("go")))
  expect(await Promise.all(all.map((run) => run.result({ timeout: "20s" })))).toEqual(ids.map(() => "blue"))
  expect(greenRuns).toEqual([])
  // Claimed by the other release at most once for each wake-up.
  for (const { execution } of all) expect(await wokenOf(execution)).toBeLessThanOrEqual(5)
  const own = await shift.start(green, { id: "green" })
  await own.signal("go")
  expect(["blue", "green"]).toContain(await own.result({ timeout: "20s" }))
})

it("an execution without its release waits, and is run when the release returns or the execution is unpinned", async () => {
  const [blueRuns, greenRuns]: [Array<string>, Array<string>] = [[], []]
  const [blue, green] = [bluePayout("gone", blueRuns), greenPayout("gone", greenRuns)]
  const first = await worker(shift, { handlers: [blue], queues: { gone: 4 } })
  const [back, moved] = [await shift.start(blue, { id: "back" }), await shift.start(blue, { id: "moved" })]
  for (const run of [back, moved])
    await vi.waitFor(async () => expect((await run.status()).state).toBe("waiting"), often)
  const { pinned } = await back.status()
  expect(pinned).toMatch(/^[0-9a-f]{12}$/)
  await first.stop()
  await using _ = await worker(shift, { handlers: [green], queues: { gone: 4 } })
  await Promise.all([back.signal("go"), moved.signal("go")])
  const parked = async () => {
    const { rows } = await database
      .pool()
      .query(
        "select count(*)::int as n from nightshift.workflow_lifetime l join nightshift.job j on j.id = l.job_id where l.parked = j.woken"
      )
    return rows[0].n
  }
  await vi.waitFor(async () => expect(await parked()).toBe(2), often)
  expect(greenRuns).toEqual([])
  await moved.unpin()
  expect(await moved.result({ timeout: "20s" })).toBe("green")
  expect(greenRuns).toEqual(["moved"])
  await using __ = await worker(shift, { handlers: [blue], queues: { gone: 4 } })
  expect(await back.result({ timeout: "20s" })).toBe("blue")
  expect(greenRuns).toEqual(["moved"])
  expect(await shift.workflows.unpin({ release: pinned ?? "" })).toBe(0)
  for (const which of [{ release: undefined }, { release: "" }, { execution: undefined }, {}, undefined])
    await expect(shift.workflows.unpin(which as never)).rejects.toThrow(
      "unpin needs the id of an execution, or the release"
    )
})
