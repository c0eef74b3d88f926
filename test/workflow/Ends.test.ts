import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Executions that their own code does not end: by crashes, by timeouts, and after a change of their payload.

const Order = z.object({ id: z.string() })
const settings = { payload: Order, key: (order: { id: string }) => order.id }

const crashes = async (shift: Awaited<ReturnType<typeof testShift>>, count: number) => {
  for (let times = 0; times < count; times += 1) {
    await shift.settle()
    await shift.crash()
    await shift.advance("1h")
  }
}

describe("an execution that crashes its pod again and again", () => {
  const make = (log: Array<string>, undo: () => unknown = () => {}) =>
    workflow("order", settings, async (_, step) => {
      await step.run("charge", () => void log.push("charge"), {
        undo: () => {
          log.push("refund")
          return undo()
        }
      })
      await step.run("print", () => new Promise(() => {}))
    })

  it("undoes its steps once, and is dead as poison", async () => {
    const log: Array<string> = []
    const order = make(log)
    await using shift = await testShift({ handlers: [order], log: false })
    const { id } = await shift.start(order, { id: "A" })
    await crashes(shift, 5)
    expect(log).toEqual(["charge", "refund"])
    expect(await shift.job(id)).toMatchObject({ state: "dead", reason: "poison" })
    expect((await shift.execution(order, "A").status()).state).toBe("failed")
  })

  it("is dead as not undone if its undo crashes too, and names the step", async () => {
    const log: Array<string> = []
    const order = make(log, () => new Promise(() => {}))
    await using shift = await testShift({ handlers: [order], log: false })
    const { id } = await shift.start(order, { id: "A" })
    await crashes(shift, 10)
    expect(await shift.job(id)).toMatchObject({ state: "dead", reason: "not_undone" })
    expect((await shift.job(id)).lastError).toMatch(/; not undone: charge$/)
    expect((await shift.why(id)).detail).toContain("not all of its steps are undone")
  })
})

describe("an execution that crashes its pod in a step with an undo", () => {
  it("is dead as not undone, because the step may have taken effect", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => void log.push("reserve"), { undo: () => void log.push("release") })
      await step.run("charge", () => new Promise(() => {}), { undo: () => void log.push("refund") })
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const { id } = await shift.start(order, { id: "A" })
    await crashes(shift, 5)
    expect(log).toEqual(["reserve", "release"])
    expect(await shift.job(id)).toMatchObject({ state: "dead", reason: "not_undone" })
    expect((await shift.job(id)).lastError).toMatch(/^charge may have taken effect/)
  })
})

describe("an execution whose runs time out", () => {
  it("has all attempts again after each step, and undoes its steps when they are used up", async () => {
    const log: Array<string> = []
    const tries = new Map<string, number>()
    /** Hangs in its first two runs. */
    const slow = (name: string, most: number) => {
      const times = (tries.get(name) ?? 0) + 1
      tries.set(name, times)
      return times <= most ? new Promise(() => {}) : undefined
    }
    const limits = { timeout: "1m", attempts: 3, backoff: "1s" } as const
    const order = workflow("order", { ...settings, ...limits }, async (_, step) => {
      await step.run("first", () => slow("first", 2), { undo: () => void log.push("undo first") })
      await step.run("second", () => slow("second", 2), { undo: () => void log.push("undo second") })
      await step.run("third", () => slow("third", 9))
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const { id } = await shift.start(order, { id: "A" })
    await shift.advance("1h")
    expect([...tries.values()]).toEqual([3, 3, 3])
    expect(log).toEqual(["undo second", "undo first"])
    expect(await shift.job(id)).toMatchObject({ state: "dead", reason: "exhausted" })
  })
})

describe("a new version of a workflow", () => {
  const key = (order: { id: string }) => order.id
  const old = workflow("order", { payload: Order, key }, async () => {})

  it("keeps the payload of executions of the old one if it has no upcaster", async () => {
    const order = workflow("order", { payload: Order, key, version: 3 }, async ({ id }, step) => {
      await step.sleep("nap", "1h")
      return id
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(old, { id: "A" })
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toBe("A")
  })

  it("suspends executions whose payload it cannot decode, until a release can", async () => {
    const payload = z.object({ id: z.string(), cents: z.number() })
    const order = workflow("order", { payload, key, version: 2 }, async (_, step) => step.sleep("nap", "1h"))
    await using shift = await testShift({ allowChanged: true, handlers: [order], log: false })
    const { id } = await shift.start(old, { id: "A" })
    await shift.advance("3 days")
    expect((await shift.execution(order, "A").status()).state).toBe("changed")
    expect((await shift.job(id)).lastError).toMatch(/cannot decode the payload of this execution: .*cents/)
    expect(await shift.why(id)).toMatchObject({ reason: "changed", detail: expect.stringContaining("cannot decode") })
  })
})
