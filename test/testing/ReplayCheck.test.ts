import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { readonly id: string }) => id }

/** Each run of the code reads another value, like Math.random() and Date.now(). */
const makeImpure = () => {
  let reads = 0
  return () => reads++
}

describe("testShift throws if the code of a workflow depends on more than its steps", () => {
  it("and does not follow its journal after a wait", async () => {
    const read = makeImpure()
    const order = workflow("order", settings, async (_, step) => {
      await step.run(read() % 2 === 0 ? "heads" : "tails", () => 1)
      await step.sleep("a while", "1h")
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    const advanced = shift.advance("1h")
    await expect(advanced).rejects.toMatchObject({
      name: "NonDeterministicError",
      code: "NON_DETERMINISTIC",
      execution: "order/A"
    })
    await expect(advanced).rejects.toThrow(
      'Execution order/A does not follow its journal: step "heads" is recorded, but its code does "tails" instead. '
    )
    await expect(advanced).rejects.toThrow(
      "Read clocks, random numbers and changing variables in a step (step.run, or an Activity)."
    )
  })

  it("from drain and result, too, and not only if it never follows it again", async () => {
    const read = makeImpure()
    const order = workflow("order", settings, async (_, step) => {
      const name = read() === 1 ? "rare" : "usual"
      await step.run(name, () => 1)
      await step.sleep("a while", "1h")
      return name
    })
    await using first = await testShift({ handlers: [order] })
    await first.start(order, { id: "A" })
    await expect(first.drain()).rejects.toThrow('step "usual" is recorded, but its code does "rare" instead')
    const again = makeImpure()
    const other = workflow("other", settings, async (_, step) => {
      await step.run(again() === 1 ? "rare" : "usual", () => 1)
      await step.sleep("a while", "1h")
    })
    await using second = await testShift({ handlers: [other] })
    await second.start(other, { id: "A" })
    await expect(second.execution(other, "A").result()).rejects.toThrow("Execution other/A does not follow its journal")
  })

  it("even if it never waits, because a finished execution is replayed once", async () => {
    const read = makeImpure()
    const ran: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const name = read() === 0 ? "heads" : "tails"
      await step.run(name, () => void ran.push(name))
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await expect(shift.settle()).rejects.toThrow('step "heads" is recorded, but its code does "tails" instead')
    expect(ran).toEqual(["heads"])
  })

  it("and requests another step at its end, or one step less", async () => {
    const read = makeImpure()
    const ran: Array<string> = []
    const more = workflow("more", settings, async (_, step) => {
      await step.run("charge", () => void ran.push("charge"))
      if (read() === 1) await step.run("extra", () => void ran.push("extra"))
    })
    await using shift = await testShift({ handlers: [more] })
    await shift.start(more, { id: "A" })
    await expect(shift.settle()).rejects.toThrow(
      'Execution more/A does not follow its journal: it is at its end, but its code does "extra" in a second run. '
    )
    expect(ran).toEqual(["charge"])
    const again = makeImpure()
    const less = workflow("less", settings, async (_, step) => {
      if (again() === 0) await step.run("charge", () => 1)
    })
    await using other = await testShift({ handlers: [less] })
    await other.start(less, { id: "A" })
    await expect(other.drain()).rejects.toThrow('step "charge" is recorded, but its code ended without it')
  })
})

describe("testShift accepts", () => {
  it.each([
    [
      "steps that lose a race",
      workflow("race", settings, async (_, step) => {
        const slow = step.run("slow", ({ signal }) => new Promise((end) => signal.addEventListener("abort", end)))
        await Promise.race([slow, step.run("fast", () => 1)])
        await new Promise(setImmediate)
        return "raced"
      })
    ],
    [
      "steps that nothing awaits",
      workflow("loose", settings, async (_, step) => {
        void step.run("loose", () => 1)
        await step.sleep("a while", "1h")
        return "raced"
      })
    ],
    [
      "failures that the code catches",
      workflow("caught", settings, async (_, step) => {
        const fail = () => {
          throw new Error("no")
        }
        await step.run("try", fail, { attempts: 1 }).catch(() => step.run("instead", () => 1))
        return "raced"
      })
    ],
    [
      "signals and parallel steps",
      workflow("signals", settings, async (_, step) => {
        await Promise.all([step.run("a", () => 1), step.run("b", () => 2)])
        await step.waitFor("never", { timeout: "1d" })
        return "raced"
      })
    ]
  ])("%s", async (_, flow) => {
    await using shift = await testShift({ handlers: [flow] })
    const { id } = await shift.start(flow, { id: "A" })
    expect(await shift.result(id)).toBe("raced")
  })

  it("failed executions whose steps are undone, and undoes each once", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => void log.push("charge"), { undo: () => void log.push("refund") })
      throw new Error("no stock")
    })
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(log).toEqual(["charge", "refund"])
    expect(await shift.job(id)).toMatchObject({ state: "dead", lastError: "no stock" })
  })

  it("code that the test changes on purpose, with allowChanged", async () => {
    let name = "charge"
    const order = workflow("order", settings, async (_, step) => {
      await step.run(name, () => 1)
      await step.sleep("a while", "1h")
    })
    await using shift = await testShift({ handlers: [order], allowChanged: true })
    await shift.start(order, { id: "A" })
    await shift.settle()
    name = "pay"
    await shift.advance("1h")
    expect((await shift.execution(order, "A").status()).state).toBe("changed")
    name = "charge"
    await shift.drain()
    expect((await shift.execution(order, "A").status()).state).toBe("done")
  })
})
