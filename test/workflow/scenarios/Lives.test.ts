import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about loops that live for years, schedules and races, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

describe("continue as new", () => {
  const Counter = z.object({ id: z.string(), total: z.number() })

  it("goes on under its key with an empty journal, and keeps signals that it has not received", async () => {
    const counter = workflow("counter", { payload: Counter, key: ({ id }) => id }, async ({ id, total }, step) => {
      const add = await step.waitFor<number>(`add to ${total}`)
      if (total + add < 6) return step.continueAs({ id, total: total + add })
      return total + add
    })
    await using shift = await testShift({ handlers: [counter] })
    const run = await shift.start(counter, { id: "A", total: 0 })
    for (const [name, value] of [
      ["add to 0", 1],
      ["add to 1", 2],
      ["add to 3", 3]
    ] as const)
      await run.signal(name, value)
    expect(await run.result()).toBe(6)
    expect((await run.status()).steps.length).toBe(1)
  })

  it("a loop of a month keeps a journal of one day", async () => {
    const daily = workflow("daily", { payload: Counter, key: ({ id }) => id }, async ({ id, total }, step) => {
      await step.sleep("a day", "1 day")
      await step.run("report", () => total)
      return total < 30 ? step.continueAs({ id, total: total + 1 }) : total
    })
    await using shift = await testShift({ handlers: [daily] })
    const run = await shift.start(daily, { id: "A", total: 1 })
    await shift.advance("20 days")
    await shift.crash()
    expect(await run.result()).toBe(30)
    expect((await run.status()).steps.map(({ name }) => name)).toEqual(["a day", "report"])
  })
})

it("a schedule starts an execution at each of its times, and catches up on missed ones once", async () => {
  const days: Array<string> = []
  const nightly = workflow("nightly", { payload: z.object({}) }, async (_, step) => {
    const at = await step.run("at", () => shift.now().toISOString().slice(0, 13))
    days.push(at)
  })
  const schedule = nightly.schedule("nightly", { payload: {}, cron: "0 3 * * *", missed: "one" })
  await using shift = await testShift({ allowChanged: true, handlers: [nightly], schedules: [schedule] })
  await shift.advance("3 days")
  expect(days).toEqual(["1970-01-01T03", "1970-01-02T03", "1970-01-03T03"])
})

describe("a race of children", () => {
  it("continues with the first, and cancels and undoes the others", async () => {
    const log: Array<string> = []
    const offer = workflow("offer", settings, async ({ id }, step) => {
      await step.run("reserve", () => id, { undo: () => void log.push(`release ${id}`) })
      await step.sleep("think", id === "fast" ? "1h" : "1 day")
      return `offer of ${id}`
    })
    const order = workflow("order", settings, async (_, step) => {
      const { index, value } = await step.race("offers", ["slow", "fast"], (id) => offer({ id }))
      await step.sleep("a while", "2 days")
      return [index, value]
    })
    await using shift = await testShift({ handlers: [order, offer] })
    const run = await shift.start(order, { id: "A" })
    expect([await run.result(), log]).toEqual([[1, "offer of fast"], ["release slow"]])
  })
})

it("a cancel leaves children alone that are to be left, and undoes children that are done", async () => {
  const log: Array<string> = []
  const leaf = workflow("leaf", settings, async ({ id }, step) => {
    await step.sleep("work", "1h")
    log.push(`${id} done`)
    return id
  })
  const order = workflow("order", settings, async (_, step) => {
    await step.all("book", ["a", "b"], (id) => leaf({ id }), { undo: (id) => void log.push(`unbook ${id}`) })
    await step.all("print", ["c"], (id) => leaf({ id }), { onParentCancel: "leave" })
  })
  await using shift = await testShift({ allowChanged: true, handlers: [order, leaf] })
  const run = await shift.start(order, { id: "A" })
  await shift.advance("90m")
  await run.cancel()
  await shift.drain()
  expect(log).toEqual(["a done", "b done", "unbook b", "unbook a", "c done"])
})
