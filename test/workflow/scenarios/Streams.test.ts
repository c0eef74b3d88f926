import { expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about streams, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

it("a stream is complete and in order, and a step that is tried again begins it anew", async () => {
  const agent = workflow("agent", settings, async (_, step) => {
    const { generation, value } = await step.stream(
      "tokens",
      async function* ({ attempt }) {
        for (const token of ["a", "b", "c"]) {
          if (attempt === 1 && token === "c") throw new Error("cut off")
          yield `${token}${attempt}`
        }
        return "the end"
      },
      { backoff: "1s" }
    )
    return [generation, value]
  })
  await using shift = await testShift({ handlers: [agent], log: false })
  const run = await shift.start(agent, { id: "A" })
  expect(await run.result()).toEqual([2, "the end"])
  const read: Array<unknown> = []
  for await (const chunk of run.stream("tokens")) read.push(chunk)
  expect(read).toMatchObject([{ value: "a2" }, { value: "b2" }, { value: "c2" }])
})
