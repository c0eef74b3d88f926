import { expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Values that differ from run to run, and sleeps until an instant.

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }

it("now, uuid and random are recorded: every run of the code sees the same", async () => {
  const seen: Array<unknown> = []
  const order = workflow("order", settings, async (_, step) => {
    const before = [await step.now(), await step.uuid(), await step.uuid(), await step.random()] as const
    seen.push(before)
    await step.sleep("a day", "1 day")
    const after = await step.now()
    return { before, passed: after.getTime() - before[0].getTime() }
  })
  await using shift = await testShift({ handlers: [order] })
  const run = await shift.start(order, { id: "A" })
  const { before, passed } = await run.result()
  const [now, first, second, random] = before
  expect(passed).toBe(86_400_000)
  expect(new Date(now as unknown as string).getTime()).toBe(0)
  expect(first).toMatch(/^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  expect(second).not.toBe(first)
  expect(random).toBeGreaterThanOrEqual(0)
  expect(random).toBeLessThan(1)
  expect(seen.length).toBeGreaterThan(1)
  expect(new Set(seen.map((each) => JSON.stringify(each))).size).toBe(1)
  const { steps } = await run.status()
  expect(steps.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
    "value now",
    "value uuid",
    "value uuid#2",
    "value random",
    "sleep a day",
    "value now#2"
  ])
})

it("a fork has the values before its step, and new ones from there on", async () => {
  const order = workflow("order", settings, async (_, step) => {
    const first = await step.uuid("first")
    await step.run("work", () => 1)
    return [first, await step.uuid("second")]
  })
  await using shift = await testShift({ handlers: [order] })
  const run = await shift.start(order, { id: "A" })
  const [first, second] = await run.result()
  const fork = await run.fork("work", { as: "B" })
  const [same, other] = await fork.result()
  expect(same).toBe(first)
  expect(other).not.toBe(second)
})

it("sleeps until an instant, and not at all if it has passed", async () => {
  const order = workflow("order", settings, async (_, step) => {
    await step.sleepUntil("noon", new Date("1970-01-01T12:00:00Z"))
    const noon = await step.now()
    await step.sleepUntil("long ago", "1970-01-01T11:00:00Z")
    return [noon, await step.now("again")]
  })
  await using shift = await testShift({ handlers: [order] })
  const run = await shift.start(order, { id: "A" })
  await shift.settle()
  expect(await run.status()).toMatchObject({ state: "sleeping", waits: [{ kind: "sleep", name: "noon" }] })
  expect(await run.result()).toEqual(["1970-01-01T12:00:00.000Z", "1970-01-01T12:00:00.000Z"])
})

it.each([
  ["not a date", 'instant must be a Date, an ISO 8601 string or epoch milliseconds, got "not a date".'],
  [new Date(Number.NaN), "instant must be a Date, an ISO 8601 string or epoch milliseconds, got an invalid Date."],
  [-1, 'The end of the sleep "nap" must be between the years 1970 and 9999.']
])("refuses to sleep until %s", async (instant, message) => {
  const order = workflow("order", settings, (_, step) => step.sleepUntil("nap", instant as never))
  await using shift = await testShift({ handlers: [order] })
  await expect((await shift.start(order, { id: "A" })).result()).rejects.toThrow(message)
})

it("refuses a name that is no text", async () => {
  const order = workflow("order", settings, (_, step) => step.uuid(7 as never))
  await using shift = await testShift({ handlers: [order] })
  await expect((await shift.start(order, { id: "A" })).result()).rejects.toThrow(
    "The name of a step must be a string, got 7."
  )
})
