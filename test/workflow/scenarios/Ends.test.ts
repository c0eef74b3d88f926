import { describe, expect, it } from "vitest"
import { z } from "zod"
import { ChildrenFailedError, Outcome, StepFailedError, workflow } from "../../../src/client/index.js"
import { testShift } from "../../../src/testing/index.js"

// What the test suites of other engines check about failures, cancels, children and changed code, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

const stopped = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))

describe("a cancel in each phase", () => {
  const child = workflow("child", settings, async (_, step) => step.sleep("long", "1 day"))

  /** An order that stays in a phase. */
  const orderIn = (phase: string, log: Array<string>) =>
    workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => void log.push("reserve"), { undo: () => void log.push("release") })
      if (phase === "a step") await step.run("render", ({ signal }) => stopped(signal))
      if (phase === "a retry") await step.run("flaky", () => Promise.reject(new Error("busy")), { backoff: "1 day" })
      if (phase === "a sleep") await step.sleep("long", "1 day")
      if (phase === "a wait") await step.waitFor("approval")
      if (phase === "children") await step.all("children", ["x", "y"], (id) => child({ id }))
    })

  it.each([
    ["before the first run", []],
    ["a step", ["reserve", "release"]],
    ["a retry", ["reserve", "release"]],
    ["a sleep", ["reserve", "release"]],
    ["a wait", ["reserve", "release"]],
    ["children", ["reserve", "release"]]
  ])("%s", async (phase, expected) => {
    const log: Array<string> = []
    const order = orderIn(phase, log)
    await using shift = await testShift({ handlers: [order, child], log: false })
    const delay = phase === "before the first run" ? { delay: "1h" as const } : {}
    const run = await shift.start(order, { id: "A" }, delay)
    await shift.settle()
    await run.cancel()
    await shift.drain()
    expect([log, (await run.status()).state]).toEqual([expected, "cancelled"])
    await expect(run.result()).rejects.toMatchObject({ code: "JOB_CANCELLED" })
    // A cancel that is repeated undoes nothing again.
    await run.cancel()
    await shift.drain()
    expect(log).toEqual(expected)
  })
})

describe("failures", () => {
  it("a step that will never succeed ends its retries, and one that knows better sets the delay", async () => {
    const at: Array<number> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("throttled", ({ attempt }) => {
        at.push(shift.now().getTime())
        if (attempt === 1) throw Outcome.retry("too fast", "1h")
      })
      await step.run("declined", () => {
        at.push(shift.now().getTime())
        throw Outcome.dead("the card was stolen")
      })
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toThrow("the card was stolen")
    expect(at.map((time) => (time - Number(at[0])) / 3_600_000)).toEqual([0, 1, 1])
  })

  it("code may catch the failure of a step and take another way, also in a replay", async () => {
    const order = workflow("order", settings, async (_, step) => {
      const way = await step
        .run("express", () => Promise.reject(new Error("no rider")), { attempts: 1 })
        .catch((error: unknown) => (error instanceof StepFailedError ? "post" : "unknown"))
      await step.sleep("a while", "1h")
      return step.run(way, () => way)
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    expect(await run.result()).toBe("post")
    expect((await run.status()).steps.map(({ name, outcome }) => `${name} ${outcome}`)).toEqual([
      "express failed",
      "a while done",
      "post done"
    ])
  })

  it("a failed execution is retried from its failed step", async () => {
    const log: Array<string> = []
    let stock = 0
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => void log.push("charge"))
      await step.run("ship", () => (stock > 0 ? log.push("ship") : Promise.reject(new Error("no stock"))), {
        attempts: 1
      })
      return log.length
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toThrow("no stock")
    stock = 1
    await run.retry()
    expect([await run.result(), log]).toEqual([2, ["charge", "ship"]])
  })

  it("a fork runs again from a step, with the results before it, and leaves the original alone", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const paid = await step.run("charge", () => log.push("charge"))
      const sent = await step.run("ship", () => log.push("ship"))
      return [paid, sent]
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    expect(await run.result()).toEqual([1, 2])
    const fork = await run.fork("ship", { as: "B" })
    expect([fork.key, await fork.result(), await run.result()]).toEqual(["B", [1, 3], [1, 2]])
    expect(log).toEqual(["charge", "ship", "ship"])
  })

  it("a result of 64 KiB is kept, and a larger one fails its step and says why", async () => {
    const order = workflow("order", settings, async (_, step) => {
      const large = await step.run("large", () => "x".repeat(65_000))
      const message = await step.run("larger", () => "x".repeat(66_000)).catch((error: Error) => error.message)
      return [large.length, message]
    })
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    expect(await run.result()).toEqual([65_000, expect.stringContaining("65536 bytes")])
  })
})

describe("children", () => {
  const parcel = workflow("parcel", settings, async ({ id }, step) => {
    await step.sleep("transport", "1h")
    if (id === "broken") throw new Error("broken in transit")
    return `parcel ${id}`
  })

  it("the failure of a child is that of the parent's step, which the parent may catch", async () => {
    const order = workflow("order", settings, async (_, step) => {
      const failed = await step
        .all("ship", ["a", "broken"], (id) => parcel({ id }))
        .catch((error: unknown) => (error instanceof ChildrenFailedError ? error.failures : []))
      return [failed, await step.allSettled("again", ["a", "b"], (id) => parcel({ id }))]
    })
    await using shift = await testShift({ handlers: [order, parcel], log: false })
    const run = await shift.start(order, { id: "A" })
    expect(await run.result()).toEqual([
      [{ position: 1, error: "broken in transit" }],
      [
        { state: "done", value: "parcel a" },
        { state: "done", value: "parcel b" }
      ]
    ])
  })

  it("a child that is cancelled by itself is cancelled in its parent's view, and its siblings go on", async () => {
    const order = workflow("order", settings, async (_, step) =>
      step.allSettled("ship", ["a", "b"], (id) => parcel({ id }))
    )
    await using shift = await testShift({ handlers: [order, parcel] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(parcel, "a").cancel()
    expect(await run.result()).toEqual([
      { state: "cancelled", error: expect.any(String) },
      { state: "done", value: "parcel b" }
    ])
  })

  it("a tree of three generations is cancelled and undone from its leaves", async () => {
    const log: Array<string> = []
    const leaf = workflow("leaf", settings, async ({ id }, step) => {
      await step.run("book", () => id, { undo: () => void log.push(`unbook ${id}`) })
      await step.sleep("long", "1 day")
    })
    const branch = workflow("branch", settings, async ({ id }, step) => {
      await step.run("open", () => id, { undo: () => void log.push(`close ${id}`) })
      await step.all("leaves", ["l"], (leafId) => leaf({ id: leafId }))
    })
    const root = workflow("root", settings, async (_, step) => {
      await step.run("plant", () => 1, { undo: () => void log.push("fell") })
      await step.all("branches", ["b"], (id) => branch({ id }))
    })
    await using shift = await testShift({ handlers: [root, branch, leaf] })
    const run = await shift.start(root, { id: "A" })
    await shift.settle()
    expect(await run.cancel()).toEqual({ cancelled: 3 })
    await shift.drain()
    expect(log).toEqual(["unbook l", "close b", "fell"])
  })
})

describe("changed code", () => {
  it("a patch leaves old executions on their path, and new ones take the new path", async () => {
    let release = 1
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => 1)
      const taxed = release === 2 && (await step.patched("tax"))
      await step.waitFor("go")
      return taxed ? "with tax" : "without tax"
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order] })
    const old = await shift.start(order, { id: "old" })
    await shift.settle()
    release = 2
    const next = await shift.start(order, { id: "new" })
    await shift.settle()
    for (const run of [old, next]) await run.signal("go")
    expect([await old.result(), await next.result()]).toEqual(["without tax", "with tax"])
  })

  it("code that does not follow its journal runs no step, is named, and goes on when it is repaired", async () => {
    const log: Array<string> = []
    let name = "charge"
    const order = workflow("order", settings, async (_, step) => {
      await step.run(name, () => void log.push(name))
      await step.waitFor("go")
      return step.run("ship", () => log.push("ship"))
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    name = "charge card"
    await run.signal("go")
    await shift.settle()
    expect(await run.status()).toMatchObject({ state: "changed", lastError: expect.stringContaining('"charge') })
    name = "charge"
    await run.retry()
    expect([await run.result(), log]).toEqual([2, ["charge", "ship"]])
  })

  it("a test fails if code between steps is not deterministic", async () => {
    let runs = 0
    const order = workflow("order", settings, async (_, step) => {
      runs += 1
      await step.run(`step ${runs}`, () => 1)
    })
    await using shift = await testShift({ handlers: [order], log: false })
    await shift.start(order, { id: "A" })
    await expect(shift.settle()).rejects.toThrow("order/A does not follow its journal")
  })
})

describe("queues", () => {
  it("a queue runs no more executions at once than it has workers, and those that wait take none", async () => {
    let [running, most] = [0, 0]
    const order = workflow("order", { ...settings, queue: "orders" }, async (_, step) => {
      await step.run("work", async () => {
        running += 1
        most = Math.max(most, running)
        await new Promise((resolve) => setImmediate(resolve))
        running -= 1
      })
      await step.waitFor("go")
      return "done"
    })
    await using shift = await testShift({ handlers: [order], slots: 2 })
    const runs = await Promise.all(Array.from({ length: 12 }, (_, id) => shift.start(order, { id: String(id) })))
    await shift.settle()
    expect([most, await shift.workflows.count({ state: "waiting" })]).toEqual([2, 12])
    for (const run of runs) await run.signal("go")
    expect(new Set(await Promise.all(runs.map((run) => run.result())))).toEqual(new Set(["done"]))
  })
})
