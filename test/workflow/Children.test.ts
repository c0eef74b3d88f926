import { describe, expect, it } from "vitest"
import { z } from "zod"
import { ChildrenFailedError, child, job, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

describe("children", () => {
  const ship = workflow("ship", { payload: z.object({ item: z.string() }) }, async ({ item }, step) => {
    await step.sleep("transport", "1h")
    if (item === "broken") throw new Error("broken in transit")
    return `parcel of ${item}`
  })

  it("run in parallel, wake their parent once and pass on their results", async () => {
    let runs = 0
    const order = workflow("order", settings, async (_, step) => {
      runs += 1
      return step.all("ship", ["a", "b", "c"], (item) => ship({ item }))
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order, ship] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect([await shift.execution(order, "A").result(), runs]).toEqual([
      ["parcel of a", "parcel of b", "parcel of c"],
      2
    ])
    const { children } = await shift.execution(order, "A").status()
    expect(children.map(({ execution }) => execution)).toEqual(["order/A/ship/0", "order/A/ship/1", "order/A/ship/2"])
  })

  it("that fail do not hang their parent: it learns which, when all have ended", async () => {
    const order = workflow("order", settings, async (_, step) => {
      try {
        return await step.all("ship", ["a", "broken"], (item) => ship({ item }))
      } catch (error) {
        if (!(error instanceof ChildrenFailedError)) throw error
        return [error.message, ...error.failures.map(({ error: reason, position }) => `${position} ${reason}`)]
      }
    })
    await using shift = await testShift({ handlers: [order, ship] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual([
      '1 of 2 children of "ship" failed; items[1]: broken in transit',
      "1 broken in transit"
    ])
  })

  it("shared by two parents wake both", async () => {
    const once = workflow("once", settings, async (_, step) => step.sleep("work", "1h").then(() => "result"))
    const order = workflow("order", settings, async (_, step) => step.all("once", ["x"], (id) => once({ id })))
    await using shift = await testShift({ handlers: [order, once] })
    for (const id of ["A", "B"]) await shift.start(order, { id })
    await shift.drain()
    expect([await shift.execution(order, "A").result(), await shift.execution(order, "B").result()]).toEqual([
      ["result"],
      ["result"]
    ])
  })

  it("may be plain jobs", async () => {
    const mail = job("mail", { payload: z.string() })
    const order = workflow("order", settings, async (_, step) =>
      step.allSettled("mail", ["ada", "nobody"], (to) => child(mail, to))
    )
    const mailer = mail.handle(async (to) => {
      if (to === "nobody") throw new Error("bounced")
      return `sent to ${to}`
    })
    await using shift = await testShift({ handlers: [order, mailer] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual([
      { state: "done", value: "sent to ada" },
      { state: "dead", error: "bounced" }
    ])
  })

  it("are cancelled with their parent and undo their steps, unless they were started detached", async () => {
    const log: Array<string> = []
    const leaf = workflow("leaf", settings, async ({ id }, step) => {
      await step.run("book", () => id, { undo: (seat) => void log.push(`unbook ${seat}`) })
      await step.sleep("long", "1 day")
      log.push(`${id} done`)
    })
    const order = workflow("order", settings, async (_, step) => {
      await step.start("audit", leaf({ id: "detached" }))
      await step.all("leaves", ["x", "y"], (id) => leaf({ id }))
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order, leaf] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect(await shift.execution(order, "A").cancel()).toEqual({ cancelled: 3 })
    await shift.drain()
    expect(log.sort()).toEqual(["detached done", "unbook x", "unbook y"])
    expect((await shift.execution(order, "A").status()).state).toBe("cancelled")
  })
})
