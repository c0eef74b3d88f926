import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

describe("operators", () => {
  it("retry a failed execution from its failed step: undone steps run again, others do not", async () => {
    const log: Array<string> = []
    let stock = false
    const order = workflow("order", settings, async (_, step) => {
      await step.run("price", () => void log.push("price"))
      await step.run("charge", () => void log.push("charge"), { undo: () => void log.push("refund") })
      await step.run("ship", () => (stock ? log.push("ship") : Promise.reject(new Error("no stock"))), { attempts: 1 })
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    stock = true
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect(log).toEqual(["price", "charge", "refund", "charge", "ship"])
    expect((await shift.execution(order, "A").status()).state).toBe("done")
  })

  it("fork an execution from a step", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => void log.push("charge"))
      await step.run("ship", () => void log.push("ship"))
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    const fork = await shift.execution(order, "A").fork("ship", { as: "A2" })
    expect([fork.key, fork.execution, fork.outcome]).toEqual(["A2", "order/A2", "started"])
    await shift.settle()
    expect([log, (await fork.status()).state]).toEqual([["charge", "ship", "ship"], "done"])
  })

  it("do not retry a done execution, and do not fork to an id that is taken", async () => {
    const order = workflow("order", settings, async (_, step) => step.run("charge", () => 1))
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await expect(shift.execution(order, "A").retry()).rejects.toThrow(
      "is done: retry needs a job that is dead or cancelled"
    )
    await shift.execution(order, "A").fork("charge", { as: "B" })
    await expect(shift.execution(order, "A").fork("charge", { as: "B" })).rejects.toThrow(
      'Execution "order/B" already exists. Fork under another id.'
    )
  })

  it("fork an execution with children of its own, even if they have keys", async () => {
    const log: Array<string> = []
    const label = workflow("label", settings, async ({ id }, step) => {
      await step.run("print", () => void log.push(`${id} by ${step.execution}`))
      return id
    })
    const parcel = workflow("parcel", settings, async ({ id }, step) => step.all("label", [id], () => label({ id })))
    const order = workflow("order", settings, async (_, step) => step.all("ship", ["p"], (id) => parcel({ id })))
    await using shift = await testShift({ handlers: [order, parcel, label] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").fork("ship", { as: "B" })
    await shift.settle()
    expect(await shift.execution(order, "B").result()).toEqual([["p"]])
    expect(log).toEqual(["p by label/p", "p by label/p@parcel/p@order/B"])
    const { children } = await shift.execution(order, "B").status()
    expect(children.map(({ execution, owned }) => [execution, owned])).toEqual([["parcel/p@order/B", true]])
  })
})
