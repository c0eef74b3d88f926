import { describe, expect, it } from "vitest"
import { z } from "zod"
import { RateLimit, workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about long and limited activities, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }
const stopped = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))

describe("a long step", () => {
  it("goes on from its last heartbeat after its process was killed", async () => {
    const seen: Array<unknown> = []
    const copy = workflow("copy", settings, async (_, step) =>
      step.run("copy", async ({ heartbeat, lastHeartbeat, signal }) => {
        seen.push(lastHeartbeat)
        heartbeat({ page: 7 })
        if (lastHeartbeat === undefined) await stopped(signal)
        return lastHeartbeat
      })
    )
    await using shift = await testShift({ handlers: [copy], log: false })
    const run = await shift.start(copy, { id: "A" })
    await shift.settle()
    await shift.crash()
    expect(await run.result()).toEqual({ page: 7 })
    expect(seen).toEqual([undefined, { page: 7 }])
  })

  it("fails its attempt when it times out, and is retried", async () => {
    const attempts: Array<number> = []
    const order = workflow("order", settings, async (_, step) =>
      step.run(
        "call",
        async ({ attempt, signal }) => {
          attempts.push(attempt)
          if (attempt < 3) await stopped(signal)
          return attempt
        },
        { timeout: "10s", backoff: "1s" }
      )
    )
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    expect([await run.result(), attempts]).toEqual([3, [1, 2, 3]])
  })
})

describe("limits of a step", () => {
  it("no more steps of a name run at once than their concurrency, in all executions", async () => {
    let [running, most] = [0, 0]
    const order = workflow("order", settings, async (_, step) =>
      step.run(
        "print",
        async () => {
          running += 1
          most = Math.max(most, running)
          await new Promise((resolve) => setImmediate(resolve))
          running -= 1
        },
        { concurrency: 2 }
      )
    )
    await using shift = await testShift({ handlers: [order] })
    await Promise.all(Array.from({ length: 8 }, (_, id) => shift.start(order, { id: String(id) })))
    await shift.drain()
    expect([most, await shift.workflows.count({ state: "done" })]).toEqual([2, 8])
  })

  it("steps start at the rate of their limit, and wait without a slot", async () => {
    const mailer = RateLimit.make("mailer", { capacity: 1, rate: 1 })
    const at: Array<number> = []
    const order = workflow("order", settings, async (_, step) =>
      step.run("mail", () => void at.push(shift.now().getTime()), { limit: mailer })
    )
    await using shift = await testShift({ handlers: [order], limits: [mailer], slots: 1 })
    await Promise.all(Array.from({ length: 4 }, (_, id) => shift.start(order, { id: String(id) })))
    await shift.drain()
    expect(at.map((time) => Math.floor((time - Number(at[0])) / 1000))).toEqual([0, 1, 2, 3])
  })
})

it("times, ids and random numbers of the code are the same in every run", async () => {
  const runs: Array<ReadonlyArray<unknown>> = []
  const order = workflow("order", settings, async (_, step) => {
    const values = [(await step.now()).getTime(), await step.uuid(), await step.random()]
    await step.sleepUntil("tomorrow", new Date(Number(values[0]) + 86_400_000))
    runs.push(values)
    await step.waitFor("go")
    runs.push(values)
    return (await step.now()).getTime() - Number(values[0])
  })
  await using shift = await testShift({ handlers: [order] })
  const run = await shift.start(order, { id: "A" })
  await shift.advance("1 day")
  await run.signal("go")
  expect(await run.result()).toBe(86_400_000)
  expect(new Set(runs.map((values) => JSON.stringify(values))).size).toBe(1)
})
