import { describe, expect, it } from "vitest"
import { z } from "zod"
import { type StepOptions, workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about crashes and starts, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

describe("recovery after a crash at each point", () => {
  const parcel = workflow("parcel", { payload: z.object({ item: z.string() }) }, async ({ item }, step) =>
    step.run("label", () => `label of ${item}`)
  )

  /** An order that stops at a point, once, until its process is killed. */
  const orderThatStopsAt = (point: string, effects: Array<string>) => {
    let hasStopped = false
    const at = async (here: string) => {
      if (here !== point || hasStopped) return
      hasStopped = true
      await new Promise(() => {})
    }
    const effect = (name: string) => async () => {
      await at(`before ${name}`)
      effects.push(name)
      await at(`after ${name}`)
    }
    return workflow("order", settings, async ({ id }, step) => {
      await at("the first line")
      await step.run("charge", effect("charge"))
      await at("between two steps")
      await step.sleep("cool off", "1h")
      const by = await step.waitFor<string>("approval")
      const labels = await step.all("ship", ["book", "lamp"], (item) => parcel({ item }))
      await step.run("thank", effect("thank"))
      await at("the last line")
      return `${id} by ${by}: ${labels.join(", ")}`
    })
  }

  it.each([
    ["the first line", { charge: 1, thank: 1 }],
    ["before charge", { charge: 1, thank: 1 }],
    // The process dies between the effect and its record: the step runs again, with the same idempotency key.
    ["after charge", { charge: 2, thank: 1 }],
    ["between two steps", { charge: 1, thank: 1 }],
    ["before thank", { charge: 1, thank: 1 }],
    ["after thank", { charge: 1, thank: 2 }],
    ["the last line", { charge: 1, thank: 1 }]
  ])("%s", async (point, times) => {
    const effects: Array<string> = []
    const order = orderThatStopsAt(point, effects)
    await using shift = await testShift({ allowChanged: true, handlers: [order, parcel], log: false })
    const run = await shift.start(order, { id: "A" })
    await run.signal("approval", "ada")
    await shift.advance("1h")
    await shift.crash()
    expect(await run.result()).toBe("A by ada: label of book, label of lamp")
    const count = (name: string) => effects.filter((each) => each === name).length
    expect({ charge: count("charge"), thank: count("thank") }).toEqual(times)
  })
})

describe("starts", () => {
  it("a start that is repeated returns the execution, even after its end, and runs nothing", async () => {
    let runs = 0
    const order = workflow("order", settings, async ({ id }, step) => step.run("charge", () => `${id} ${++runs}`))
    await using shift = await testShift({ handlers: [order] })
    const first = await shift.start(order, { id: "A" })
    const second = await shift.start(order, { id: "A" })
    expect(await first.result()).toBe("A 1")
    const third = await shift.start(order, { id: "A" })
    expect([first, second, third].map(({ id, outcome }) => [id, outcome])).toEqual([
      [first.id, "started"],
      [first.id, "existing"],
      [first.id, "existing"]
    ])
    expect([await third.result(), runs]).toEqual(["A 1", 1])
  })

  it("a start with a delay runs at its time, and a second start does not change it", async () => {
    const order = workflow("order", settings, async () => "ran")
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" }, { delay: "1 day" })
    await shift.start(order, { id: "A" })
    await shift.advance("23h")
    expect((await run.status()).state).toBe("scheduled")
    await shift.advance("1h")
    expect((await run.status()).state).toBe("done")
  })
})

describe("signals", () => {
  const order = workflow("order", settings, async ({ id }, step) => {
    const by = await step.waitFor<string>("approval", { timeout: "1 day" })
    return by === undefined ? `${id} expired` : `${id} by ${by}`
  })

  it("a signal before the start, one with the start and one after it all arrive", async () => {
    await using shift = await testShift({ handlers: [order] })
    await shift.execution(order, "before").signal("approval", "ada")
    await shift.advance("1h")
    await shift.start(order, { id: "before" })
    await Promise.all([shift.start(order, { id: "with" }), shift.execution(order, "with").signal("approval", "bob")])
    const after = await shift.start(order, { id: "after" })
    await shift.settle()
    await after.signal("approval", "cyd")
    const results = ["before", "with", "after"].map((key) => shift.execution(order, key).result())
    expect(await Promise.all(results)).toEqual(["before by ada", "with by bob", "after by cyd"])
  })

  it("a wait that times out goes on without the signal, and a late signal changes nothing", async () => {
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("1 day")
    await run.signal("approval", "too late")
    expect(await run.result()).toBe("A expired")
  })
})

describe("time", () => {
  it("a sleep of a year survives restarts and ends at its instant", async () => {
    const order = workflow("order", settings, async (_, step) => {
      await step.sleep("a year", "365 days")
      return step.run("woke", () => shift.now().getTime())
    })
    await using shift = await testShift({ handlers: [order] })
    const begun = shift.now().getTime()
    const run = await shift.start(order, { id: "A" })
    for (let quarter = 0; quarter < 4; quarter += 1) {
      await shift.advance("91 days")
      await shift.crash()
    }
    expect((await run.status()).state).toBe("sleeping")
    await shift.advance("1 day")
    expect(await run.result()).toBe(begun + 365 * 86_400_000)
  })

  it.each<[string, StepOptions<never>, ReadonlyArray<number>]>([
    ["the default", {}, [0, 1, 11, 71]],
    ["attempts and a fixed delay", { attempts: 3, backoff: "30s" }, [0, 30, 60]],
    ["a list of delays, whose last is repeated", { attempts: 4, backoff: ["1s", "1m"] }, [0, 1, 61, 121]]
  ])("a step is retried after the delays of its policy: %s", async (_, options, expected) => {
    const at: Array<number> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "flaky",
        () => {
          at.push(shift.now().getTime())
          throw new Error("busy")
        },
        options
      )
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toThrow("busy")
    expect(at.map((time) => (time - Number(at[0])) / 1000)).toEqual(expected)
  })
})
