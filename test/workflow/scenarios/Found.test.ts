import { expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about the search for executions, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

it("executions are found by their tags, together with their state and their key", async () => {
  const order = workflow("order", settings, async (_, step) => step.waitFor("go"))
  await using shift = await testShift({ handlers: [order] })
  const tagged = { customer: "42", country: "de" }
  const first = await shift.start(order, { id: "A-1" }, { tags: tagged })
  await shift.start(order, { id: "A-2" }, { tags: { customer: "42" } })
  const third = await shift.start(order, { id: "B-1" })
  await third.tag({ customer: "42" })
  await first.signal("go")
  await shift.settle()
  const found = async (filter: Parameters<typeof shift.workflows.list>[0]) =>
    (await shift.workflows.list(filter).toArray()).map(({ execution }) => execution).sort()
  expect(await found({ tag: { customer: "42" } })).toEqual(["order/A-1", "order/A-2", "order/B-1"])
  expect(await found({ tag: tagged })).toEqual(["order/A-1"])
  expect(await found({ tag: { customer: "42" }, state: "waiting" })).toEqual(["order/A-2", "order/B-1"])
  expect(await found({ tag: { customer: "42" }, prefix: "order/A" })).toEqual(["order/A-1", "order/A-2"])
  expect(await found({ tag: { customer: "43" } })).toEqual([])
})
