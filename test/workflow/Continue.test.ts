import { describe, expect, it } from "vitest"
import { z } from "zod"
import { event, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Executions that go on with a new journal, on virtual time.

const settings = { payload: z.object({ id: z.string(), round: z.number() }), key: ({ id }: { id: string }) => id }

describe("step.continueAs", () => {
  it("lets an execution live for ten years with a bounded journal", async () => {
    const rounds: Array<number> = []
    const lengths = new Set<number>()
    const billing = workflow("billing", settings, async ({ id, round }, step) => {
      await step.sleep("a month", "30 days")
      await step.run("bill", async () => {
        rounds.push(round)
        lengths.add((await shift.execution(billing, id).status()).steps.length)
      })
      if (round === 121) return `billed ${id} ${round + 1} times`
      return step.continueAs({ id, round: round + 1 })
    })
    await using shift = await testShift({ handlers: [billing] })
    const run = await shift.start(billing, { id: "ada", round: 0 })
    const waiting = run.result()
    await shift.drain()
    expect(await waiting).toBe("billed ada 122 times")
    expect(rounds).toEqual([...Array(122).keys()])
    expect(shift.now().getUTCFullYear()).toBe(1980)
    expect([...lengths]).toEqual([1])
    expect(await run.status()).toMatchObject({ id: run.id, continued: 121, payload: { id: "ada", round: 121 } })
  })

  it("gives the steps of each journal new idempotency keys, and children new ids", async () => {
    const keys: Array<string> = []
    const child = workflow("child", { payload: z.number() }, async (_, step) => step.execution)
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      await step.run("pay", ({ idempotencyKey }) => void keys.push(idempotencyKey))
      keys.push(...(await step.all("ship", [1], (item) => child(item))))
      if (round < 2) return step.continueAs({ id, round: round + 1 })
    })
    await using shift = await testShift({ handlers: [loop, child], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.drain()
    expect(await run.status()).toMatchObject({ state: "done", continued: 2 })
    const names = ["loop/A/pay", "loop/A/ship/0", "loop/A@1/pay", "loop/A@1/ship/0", "loop/A@2/pay", "loop/A@2/ship/0"]
    expect([...new Set(keys)].sort()).toEqual([...names].sort())
  })

  it("keeps signals that were not received, and lets those that were received be sent again", async () => {
    const got: Array<unknown> = []
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      got.push(await step.waitFor(round === 1 ? "later" : "now"))
      if (round < 2) return step.continueAs({ id, round: round + 1 })
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await run.signal("later", "early")
    await run.signal("now", 1)
    await shift.settle()
    expect(await run.status()).toMatchObject({ state: "waiting", continued: 2, unclaimed: [] })
    expect(await run.signal("now", 2)).toBe("completed")
    await shift.settle()
    expect(await run.status()).toMatchObject({ state: "done" })
    expect([...new Set(got)]).toEqual([1, "early", 2])
  })

  it("rejects a payload that an async validator refuses, in every run", async () => {
    const payload = z.object({ round: z.number().refine(async (round) => round >= 0, "must not be negative") })
    const errors: Array<unknown> = []
    const loop = workflow("loop", { payload, key: () => "only" }, async (_, step) => {
      await step.continueAs({ round: -1 }).catch((error: unknown) => errors.push(error))
      await step.sleep("later", "1h")
      return "end"
    })
    await using shift = await testShift({ handlers: [loop] })
    const run = await shift.start(loop, { round: 0 })
    expect(await run.result()).toBe("end")
    expect(errors.length).toBeGreaterThan(1)
    const issues = [{ path: ["round"], message: "must not be negative" }]
    for (const error of errors) expect(error).toMatchObject({ name: "InvalidPayloadError", kind: "loop", issues })
  })

  it("keeps a signal that arrived after the wait for it had timed out, and delivers it once", async () => {
    const got: Array<unknown> = []
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      got.push([round, await step.waitFor("stop", { timeout: "1h" }), await step.waitFor("stop", { timeout: "1h" })])
      await step.sleep("bill", "1h")
      if (round < 2) return step.continueAs({ id, round: round + 1 })
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.advance("150 minutes")
    expect(await run.signal("stop", "ada")).toBe("completed")
    expect((await run.status()).unclaimed).toEqual(["stop"])
    await shift.drain()
    expect(await run.status()).toMatchObject({ state: "done", unclaimed: [] })
    expect([...new Set(got.map((each) => JSON.stringify(each)))]).toEqual([
      "[0,null,null]",
      '[1,"ada",null]',
      "[2,null,null]"
    ])
  })

  it("can be forked behind a wait for an event, also from a later journal", async () => {
    const paid = event("paid", z.object({ order: z.string() }))
    const shipped: Array<unknown> = []
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      if (round === 0) return step.continueAs({ id, round: 1 })
      const first = await step.waitForEvent(paid)
      await step.run("ship", ({ idempotencyKey }) => void shipped.push(idempotencyKey))
      const second = await step.waitForEvent(paid, { timeout: "1h" })
      return [first.order, second?.order]
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.settle()
    await shift.publish(paid, { order: "one" })
    await shift.advance("1 minute")
    const fork = await run.fork("ship", { as: "B" })
    await shift.settle()
    await shift.publish(paid, { order: "two" })
    await shift.advance("2h")
    expect(await fork.status()).toMatchObject({ state: "done", continued: 1, result: ["one", "two"] })
    expect(await run.result()).toEqual(["one", "two"])
    expect(shipped).toEqual(["loop/A@1/ship", "loop/B@1/ship"])
  })

  it("does not keep waits for events that lost a race", async () => {
    const paid = event("paid", z.object({ order: z.string() }))
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      if (round < 3) {
        await Promise.race([step.waitForEvent(paid), step.waitFor("next")])
        return step.continueAs({ id, round: round + 1 })
      }
      await step.waitFor("next")
      return await step.waitForEvent(paid)
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    for (const _ of [0, 1, 2]) {
      await shift.settle()
      await run.signal("next")
    }
    await shift.settle()
    await shift.publish(paid, { order: "one" })
    expect(await run.status()).toMatchObject({ continued: 3, unclaimed: [], deferreds: [{ name: "next" }] })
    await run.signal("next")
    await shift.settle()
    expect(await run.status()).toMatchObject({ state: "done", result: { order: "one" } })
  })

  it("runs nothing behind the call, and rejects an invalid payload", async () => {
    const after: Array<string> = []
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      if (round === 1) return "end"
      const fault = await step.continueAs({ id, round: "one" as never }).catch((error: Error) => error)
      after.push(`${fault.name}: ${fault.message}`)
      await step.continueAs({ id, round: 1 }).finally(() => after.push("finally"))
      after.push("behind")
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.drain()
    expect(await run.result()).toBe("end")
    expect(after).toEqual([
      'InvalidPayloadError: The payload of job "loop" is invalid: payload.round: Invalid input: expected number, received string.'
    ])
  })

  it("is refused inside a step and inside an undo", async () => {
    const errors: Array<string> = []
    const loop = workflow("loop", settings, async ({ id }, step) => {
      await step.run("pay", () => 1, {
        undo: () => step.continueAs({ id, round: 1 }).catch((error: Error) => void errors.push(error.name))
      })
      await step
        .run("inside", () => step.continueAs({ id, round: 1 }))
        .catch((error: Error) => void errors.push(error.message))
      throw new Error("no stock")
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.drain()
    expect(await run.status()).toMatchObject({ state: "failed", continued: 0 })
    expect([...new Set(errors)]).toEqual([expect.stringContaining("continueAs"), "InvalidOptionError"])
  })

  it("forgets the undos of the steps before, and leaves children that still run alone", async () => {
    const undone: Array<number> = []
    const child = workflow("child", { payload: z.number() }, async (_, step) => step.sleep("nap", "1 day"))
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      await step.run("pay", () => round, { undo: (paid) => void undone.push(paid) })
      if (round === 0) {
        await Promise.race([step.all("ship", [1], (item) => child(item)), step.sleep("soon", "1h")])
        return step.continueAs({ id, round: 1 })
      }
      await step.waitFor("never")
    })
    await using shift = await testShift({ handlers: [loop, child], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.advance("2h")
    expect(await run.status()).toMatchObject({ state: "waiting", continued: 1, children: [] })
    await run.cancel()
    await shift.drain()
    expect(undone).toEqual([1])
    const [left] = await shift.workflows.list({ workflow: "child" }).toArray()
    expect(left?.state).toBe("done")
  })

  it("undoes the steps of the journal if the cancel arrives before the new one begins", async () => {
    const undone: Array<number> = []
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      await step.run("pay", () => round, { undo: (paid) => void undone.push(paid) })
      await step.run("cancel", () => shift.execution(loop, id).cancel())
      return step.continueAs({ id, round: round + 1 })
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "A", round: 0 })
    await shift.drain()
    expect(await run.status()).toMatchObject({ state: "cancelled", continued: 0 })
    expect(undone).toEqual([0])
  })

  it("survives a crash right before it and right after it", async () => {
    let calls = 0
    const loop = workflow("loop", settings, async ({ id, round }, step) => {
      await step.run("count", () => {
        calls += 1
      })
      await step.sleep("nap", "1h")
      return round < 3 ? step.continueAs({ id, round: round + 1 }) : calls
    })
    await using shift = await testShift({ handlers: [loop] })
    const run = await shift.start(loop, { id: "A", round: 0 })
    for (let hour = 0; hour < 8; hour += 1) {
      await shift.settle()
      await shift.crash()
      await shift.advance("1h")
    }
    await shift.drain()
    expect(await run.result()).toBe(4)
    expect((await run.status()).continued).toBe(3)
  })
})

it("a journal of 5,000 steps is reported once", async () => {
  const lines: Array<string> = []
  const loop = workflow("loop", settings, async (_, step) => {
    await Promise.all([...Array(5_001).keys()].map((index) => step.run(`${index}`, () => index)))
    await step.sleep("nap", "1h")
  })
  const log = { debug: () => {}, info: () => {}, error: () => {}, warn: (text: string) => void lines.push(text) }
  await using shift = await testShift({ handlers: [loop], log })
  const run = await shift.start(loop, { id: "A", round: 0 })
  await shift.drain()
  expect((await run.status()).state).toBe("done")
  expect(lines.filter((line) => line.includes("5000 steps"))).toHaveLength(1)
})
