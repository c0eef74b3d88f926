import { describe, expect, it } from "vitest"
import { z } from "zod"
import { ChildrenFailedError, child, job, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Races of children, children that are undone, and children that a cancel leaves alone, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }

/** A child that takes this many hours, or fails after them. */
const delivery = (undone: Array<number>) =>
  workflow(
    "delivery",
    { payload: z.object({ hours: z.number(), fails: z.boolean().optional() }) },
    async (given, step) => {
      await step.run("book", () => given.hours, { undo: (hours) => void undone.push(hours) })
      await step.sleep("drive", given.hours * 3_600_000)
      if (given.fails === true) throw new Error("puncture")
      return `${given.hours}h`
    }
  )

describe("step.race", () => {
  it("continues with the first child that ends, and cancels the others, which undo their steps", async () => {
    const undone: Array<number> = []
    const carrier = delivery(undone)
    const order = workflow("order", settings, async (_, step) =>
      step.race("carriers", [9, 2, 5], (hours) => carrier({ hours }))
    )
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("2h")
    expect(await run.result()).toEqual({ index: 1, value: "2h" })
    await shift.settle()
    expect(undone.sort()).toEqual([5, 9])
    const states = (await run.status()).children.map(({ owned, state }) => [state, owned])
    expect(states).toEqual([
      ["cancelled", false],
      ["done", true],
      ["cancelled", false]
    ])
  })

  it("leaves the losers alone on request", async () => {
    const carrier = delivery([])
    const order = workflow("order", settings, async (_, step) => {
      const { value } = await step.race("carriers", [1, 2], (hours) => carrier({ hours }), { losers: "leave" })
      await step.waitFor("never")
      return value
    })
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("1h")
    await run.cancel()
    await shift.advance("1h")
    expect((await run.status()).children.map(({ state }) => state)).toEqual(["done", "done"])
  })

  it("rejects if the first child to end has failed", async () => {
    const carrier = delivery([])
    const order = workflow("order", settings, async (_, step) => {
      const failed = await step
        .race("carriers", [1, 2], (hours) => carrier({ hours, fails: hours === 1 }))
        .catch((error: unknown) => error)
      return [failed instanceof ChildrenFailedError, (failed as Error).message]
    })
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    const message = 'the first child of "carriers" to end, items[0], failed: puncture'
    expect(await run.result()).toEqual([true, message])
  })

  it("takes plain jobs, and has one winner after a crash", async () => {
    const print = job("print", { payload: z.number() })
    const order = workflow("order", settings, async (_, step) => {
      const { index } = await step.race("printers", [1, 2, 3], (item) => child(print, item))
      await step.sleep("nap", "1h")
      return index
    })
    await using shift = await testShift({ handlers: [order, print.handle(async () => "printed")], slots: 1 })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.drain()
    const { children } = await run.status()
    expect(children[await run.result()]?.state).toBe("done")
  })

  it("waits for its children before it undoes, if it is cancelled while they race", async () => {
    const undone: Array<number> = []
    const carrier = delivery(undone)
    const order = workflow("order", settings, async (_, step) => {
      await step.run("pay", () => 0, { undo: () => void undone.push(0) })
      await step.race("carriers", [9, 2], (hours) => carrier({ hours }))
    })
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("1h")
    await run.cancel()
    await shift.drain()
    expect((await run.status()).state).toBe("cancelled")
    expect(undone).toHaveLength(3)
    expect(undone.at(-1)).toBe(0)
  })

  it("refuses a race without children and unknown choices", async () => {
    const carrier = delivery([])
    const order = workflow("order", settings, async (_, step) => {
      const errors = [
        step.race("none", [], () => carrier({ hours: 1 })),
        step.race("carriers", [1], () => carrier({ hours: 1 }), { losers: "kill" as never }),
        step.all("ship", [1], () => carrier({ hours: 1 }), { onParentCancel: "stay" as never })
      ].map((call) => call.then(String, (error: Error) => error.message))
      return Promise.all(errors)
    })
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await run.result()).toEqual([
      'The race "none" needs at least one item.',
      'losers of "carriers" must be "cancel" or "leave", got "kill".',
      'onParentCancel of "ship" must be "cancel" or "leave", got "stay".'
    ])
  })
})

describe("undo of children", () => {
  const shop = (undone: Array<string>, fails: () => boolean, more: ReadonlyArray<number> = []) => {
    const carrier = delivery([])
    const order = workflow("order", settings, async (_, step) => {
      await step.run("pay", () => "paid", { undo: () => void undone.push("pay") })
      const times = await step.all("ship", [1, 2, ...more], (hours) => carrier({ hours, fails: hours > 5 }), {
        undo: (result, { index, idempotencyKey }) => void undone.push(`${index} ${result} ${idempotencyKey}`)
      })
      if (fails()) throw new Error("no stock")
      return times
    })
    return { carrier, order }
  }

  it("undoes each child that is done, the last one first, before the steps before it", async () => {
    const undone: Array<string> = []
    const { carrier, order } = shop(undone, () => true)
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await run.status()).state).toBe("failed")
    expect(undone).toEqual(["1 2h order/A/undo:ship/items[1]", "0 1h order/A/undo:ship/items[0]", "pay"])
  })

  it("undoes the children that are done if another one failed", async () => {
    const undone: Array<string> = []
    const { carrier, order } = shop(undone, () => false, [6])
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await run.status()).state).toBe("failed")
    expect(undone.map((each) => each.slice(0, 4))).toEqual(["1 2h", "0 1h", "pay"])
  })

  it("undoes the children that are done if the execution is cancelled while others run", async () => {
    const undone: Array<string> = []
    const { carrier, order } = shop(undone, () => false, [4])
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("3h")
    await run.cancel()
    await shift.drain()
    const { children, state } = await run.status()
    expect([state, children.map((each) => each.state)]).toEqual(["cancelled", ["done", "done", "cancelled"]])
    expect(undone.map((each) => each.slice(0, 4))).toEqual(["1 2h", "0 1h", "pay"])
  })

  it("starts the children again after a retry, because they were undone", async () => {
    const undone: Array<string> = []
    let isEmpty = true
    const { carrier, order } = shop(undone, () => isEmpty)
    await using shift = await testShift({ handlers: [order, carrier], allowChanged: true })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    isEmpty = false
    await run.retry()
    await shift.drain()
    expect(await run.result()).toEqual(["1h", "2h"])
    const ids = (await shift.workflows.list({ workflow: "delivery" }).toArray()).map(({ execution }) => execution)
    expect(ids.sort()).toEqual(["order/A/ship/0", "order/A/ship/0/again-1", "order/A/ship/1", "order/A/ship/1/again-1"])
  })

  it("retries the undo of a child, and reports it if it fails", async () => {
    let tries = 0
    const carrier = delivery([])
    const order = workflow("order", settings, async (_, step) => {
      await step.all("ship", [1], (hours) => carrier({ hours }), {
        undo: () => {
          tries += 1
          throw new Error("the truck is gone")
        }
      })
      throw new Error("no stock")
    })
    await using shift = await testShift({ handlers: [order, carrier] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(tries).toBe(4)
    const { lastError, reason } = await run.status()
    expect([reason, lastError]).toEqual(["not_undone", expect.stringContaining("the truck is gone")])
  })
})

it("children that a cancel leaves alone run on, and the parent does not wait for them", async () => {
  const carrier = delivery([])
  const order = workflow("order", settings, async (_, step) => {
    await step.allSettled("ship", [5], (hours) => carrier({ hours }), { onParentCancel: "leave" })
  })
  await using shift = await testShift({ handlers: [order, carrier] })
  const run = await shift.start(order, { id: "A" })
  await shift.advance("1h")
  await run.cancel()
  await shift.settle()
  expect((await run.status()).state).toBe("cancelled")
  await shift.advance("4h")
  expect((await run.status()).children).toMatchObject([{ state: "done", owned: false }])
})
