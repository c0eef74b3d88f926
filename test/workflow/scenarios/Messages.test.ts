import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about messages, queries and updates, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

describe("a mailbox", () => {
  const chat = workflow("chat", { ...settings, signals: { message: z.string() } }, async (_, step) => {
    const heard: Array<string> = []
    while (heard.at(-1) !== "bye") {
      heard.push(await step.next("message"))
      if (heard.length % 2 === 0) await step.sleep("think", "1h")
    }
    return heard
  })

  it("keeps the order of messages from before the start, from while it runs and over crashes, each once", async () => {
    await using shift = await testShift({ handlers: [chat] })
    const run = shift.execution(chat, "A")
    for (const text of ["one", "two"]) await run.signal("message", text)
    await shift.start(chat, { id: "A" })
    await shift.settle()
    for (const text of ["three", "four", "five"]) await run.signal("message", text)
    await shift.crash()
    await shift.advance("3h")
    await run.signal("message", "bye")
    expect(await run.result()).toEqual(["one", "two", "three", "four", "five", "bye"])
  })

  it("stores a message that is sent again with its id once", async () => {
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "A" })
    const outcomes: Array<string> = []
    for (const id of ["1", "2", "2", "1"]) outcomes.push(await run.signal("message", `message ${id}`, { id }))
    await run.signal("message", "bye")
    expect(outcomes).toEqual(["completed", "appended", "repeated", "repeated"])
    expect(await run.result()).toEqual(["message 1", "message 2", "bye"])
  })

  it("times out, and takes the message in the next call", async () => {
    const patient = workflow("patient", settings, async (_, step) => [
      await step.next("message", { timeout: "1h" }),
      await step.next("message")
    ])
    await using shift = await testShift({ handlers: [patient] })
    const run = await shift.start(patient, { id: "A" })
    await shift.advance("1h")
    await run.signal("message", "late")
    expect(await run.result()).toEqual([null, "late"])
  })
})

it("a query reads what the execution last set: while it waits, after a crash and after its end", async () => {
  const order = workflow("order", settings, async (_, step) => {
    await step.set("stage", "charging")
    await step.waitFor("go")
    await step.set("stage", "shipping")
    await step.waitFor("arrived")
    await step.set("stage", { arrived: true })
  })
  await using shift = await testShift({ handlers: [order] })
  const run = await shift.start(order, { id: "A" })
  await shift.settle()
  const seen = [await run.get("stage"), await run.get("nothing")]
  await run.signal("go")
  await shift.settle()
  await shift.crash()
  seen.push(await run.get("stage"))
  await run.signal("arrived")
  await shift.drain()
  expect([...seen, await run.get("stage")]).toEqual(["charging", undefined, "shipping", { arrived: true }])
})

it("an update is answered by the execution that waits, once for its id, and is part of its journal", async () => {
  const asks = { addItem: { payload: z.string(), result: z.number() } }
  const cart = workflow("cart", { ...settings, asks }, async (_, step) => {
    const items: Array<string> = []
    step.answer("addItem", (item) => items.push(item))
    await step.waitFor("checkout")
    return items
  })
  await using shift = await testShift({ handlers: [cart] })
  const run = await shift.start(cart, { id: "A" })
  await shift.settle()
  const answers = [await run.ask("addItem", "book", { id: "1" }), await run.ask("addItem", "lamp")]
  await shift.crash()
  answers.push(await run.ask("addItem", "book", { id: "1" }))
  await run.signal("checkout")
  expect([answers, await run.result()]).toEqual([
    [1, 2, 1],
    ["book", "lamp"]
  ])
})
