import { describe, expect, it } from "vitest"
import { z } from "zod"
import { child, job, type StepFailedError, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// An operator retries a failed or cancelled execution, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }
const once = { attempts: 1 }

describe("a retry continues from the failed step", () => {
  it("when a step without undo follows one that was undone", async () => {
    const log: Array<string> = []
    let stock = false
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => log.push("charge"), { undo: () => void log.push("refund") })
      await step.run("price", () => log.push("price"))
      await step.sleep("cool off", "1h")
      await step.run("ship", () => (stock ? log.push("ship") : Promise.reject(new Error("no stock"))), once)
      await step.sleep("after", "1h")
      await step.run("thank", () => log.push("thank"))
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(log).toEqual(["charge", "price", "refund"])
    stock = true
    await shift.execution(order, "A").retry()
    await shift.settle()
    await shift.crash()
    await shift.drain()
    const { lastError, state, steps } = await shift.execution(order, "A").status()
    expect([state, lastError]).toEqual(["done", undefined])
    expect(log).toEqual(["charge", "price", "refund", "charge", "ship", "thank"])
    expect(
      steps.map(({ attempt, name, outcome, reopenedAt }) => [name, attempt, outcome, reopenedAt !== undefined])
    ).toEqual([
      ["charge", 1, "done", true],
      ["charge", 2, "done", false],
      ["price", 1, "done", false],
      ["cool off", 1, "done", false],
      ["ship", 1, "failed", true],
      ["ship", 2, "done", false],
      ["after", 1, "done", false],
      ["thank", 1, "done", false]
    ])
  })

  it("when a step follows one whose failure the code caught, and that fails again", async () => {
    const log: Array<string> = []
    let stock = false
    const order = workflow("order", settings, async (_, step) => {
      const paid = await step
        .run("card", () => Promise.reject(new Error(`declined ${log.push("card")}`)), once)
        .catch((error: StepFailedError) => error.message)
      await step.run("invoice", () => log.push("invoice"))
      await step.run("ship", () => (stock ? log.push("ship") : Promise.reject(new Error("no stock"))), once)
      return paid
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    stock = true
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect(log).toEqual(["card", "invoice", "card", "ship"])
    expect(await shift.execution(order, "A").result()).toBe("declined 3")
  })

  it("when a caught failure succeeds now and the code takes another path", async () => {
    const log: Array<string> = []
    let works = false
    const order = workflow("order", settings, async (_, step) => {
      const charge = () => (works ? log.push("card") : Promise.reject(new Error("declined")))
      const paid = await step.run("card", charge, once).catch(() => undefined)
      if (paid === undefined) await step.run("invoice", () => log.push("invoice"))
      await step.run("ship", () => (works ? log.push("ship") : Promise.reject(new Error("no stock"))), once)
      await step.sleep("after", "1h")
      await step.run("thank", () => log.push("thank"))
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    works = true
    await shift.execution(order, "A").retry()
    await shift.drain()
    expect((await shift.execution(order, "A").status()).state).toBe("done")
    expect(log).toEqual(["invoice", "card", "ship", "thank"])
  })

  it("with concurrent steps: results keep their order, and recorded ones are not repeated", async () => {
    const log: Array<string> = []
    let works = false
    const order = workflow("order", settings, async (_, step) => {
      const slow = () => (works ? log.push("a") : Promise.reject(new Error("a failed")))
      const [a, b] = await Promise.all([
        step.run("a", slow, { ...once, undo: () => void log.push("undo a") }),
        step.run("b", () => log.push("b")).then((n) => step.run("c", () => n + log.push("c")))
      ])
      return [a, b]
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    works = true
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect((await shift.execution(order, "A").status()).state).toBe("done")
    expect(log.filter((name) => name === "b").length).toBe(1)
  })

  it("twice, with all attempts of the step again", async () => {
    let fails = 5
    const at: Array<number> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("first", () => 1, { undo: () => {} })
      await step.run("second", () => 2)
      await step.run(
        "flaky",
        () => {
          at.push(shift.now().getTime() / 60_000)
          fails -= 1
          if (fails >= 0) throw new Error("again")
        },
        { attempts: 2, backoff: "1m" }
      )
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    for (const _ of [1, 2]) {
      await shift.drain()
      expect((await shift.execution(order, "A").status()).state).toBe("failed")
      await shift.execution(order, "A").retry()
    }
    await shift.drain()
    expect((await shift.execution(order, "A").status()).state).toBe("done")
    expect(at).toEqual([0, 1, 1, 2, 2, 3])
  })

  it("of a cancelled execution", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => log.push("charge"), { undo: () => void log.push("refund") })
      await step.run("price", () => log.push("price"))
      await step.sleep("cool off", "1h")
      await step.run("ship", () => log.push("ship"))
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.settle()
    await shift.execution(order, "A").retry()
    await shift.drain()
    expect([(await shift.execution(order, "A").status()).state, log]).toEqual([
      "done",
      ["charge", "price", "refund", "charge", "ship"]
    ])
  })

  it("and changed code is still noticed", async () => {
    let isOld = true
    const order = workflow("order", settings, async (_, step) => {
      await step.run(isOld ? "charge" : "pay", () => 1, { undo: () => {} })
      await step.run("price", () => 1)
      await step.run("ship", () => Promise.reject(new Error("no stock")), once)
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    isOld = false
    await shift.execution(order, "A").retry()
    await shift.settle()
    const { lastError, state } = await shift.execution(order, "A").status()
    expect(state).toBe("changed")
    expect(lastError).toContain('step "price" is recorded, but its code does "pay" instead')
  })
})

describe("the idempotency key of a step", () => {
  it("stays the same when the step failed, and changes when the step was undone", async () => {
    const keys: Array<string> = []
    let works = false
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", ({ idempotencyKey }) => keys.push(idempotencyKey), {
        undo: (_result, { idempotencyKey }) => void keys.push(idempotencyKey)
      })
      await step.run(
        "ship",
        ({ idempotencyKey }) => {
          keys.push(idempotencyKey)
          if (!works) throw new Error("no stock")
        },
        once
      )
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect(keys).toEqual(["order/A/charge", "order/A/ship", "order/A/undo:charge"])
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect(keys.slice(3)).toEqual(["order/A/charge/after-undo-1", "order/A/ship", "order/A/undo:charge/after-undo-1"])
    works = true
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect(keys.slice(6)).toEqual(["order/A/charge/after-undo-2", "order/A/ship"])
  })
})

describe("a step whose undo failed", () => {
  it("counts as done: a retry keeps it and undoes it again if it must", async () => {
    const log: Array<string> = []
    let refunds = false
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => log.push("charge"), {
        ...once,
        undo: () => (refunds ? log.push("refund") : Promise.reject(new Error("bank closed")))
      })
      await step.run("ship", () => Promise.reject(new Error("no stock")), once)
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect((await shift.execution(order, "A").status()).lastError).toContain("undo of charge failed: bank closed")
    refunds = true
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect(log).toEqual(["charge", "refund"])
  })
})

describe("a fork of a failed execution", () => {
  it("runs steps again that were undone", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async ({ id }, step) => {
      await step.run("charge", () => log.push(`charge ${step.execution}`), { undo: () => void log.push("refund") })
      await step.run("price", () => log.push(`price ${id}`))
      await step.run("ship", () => (step.execution === "order/A" ? Promise.reject(new Error("x")) : 1), once)
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").fork("ship", { as: "B" })
    await shift.settle()
    expect((await shift.execution(order, "B").status()).state).toBe("done")
    expect(log).toEqual(["charge order/A", "price A", "refund", "charge order/B"])
  })
})

describe("a retry of a parent whose child failed", () => {
  const broken = new Set(["b"])
  const log: Array<string> = []
  const ship = workflow("ship", settings, async ({ id }, step) => {
    await step.run("label", () => log.push(`label ${id}`))
    await step.run("send", () => (broken.has(id) ? Promise.reject(new Error(`${id} broke`)) : id), once)
    return `parcel ${id}`
  })
  const mail = job("mail", { payload: settings.payload, attempts: 1 })
  const sent = mail.handle(async ({ id }) => {
    log.push(`mail ${id}`)
    if (broken.has(id)) throw new Error(`${id} bounced`)
    return `mail ${id}`
  })
  const begin = () => {
    log.length = 0
    broken.add("b")
  }

  it("retries that child from its failed step, and keeps the others", async () => {
    begin()
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => log.push("charge"), { undo: () => void log.push("refund") })
      const all = await step.all("parcels", ["a", "b", "c"], (id) => ship({ id }))
      await step.sleep("after", "1h")
      return all
    })
    await using shift = await testShift({ handlers: [order, ship] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await shift.execution(order, "A").status()).lastError).toContain("b broke")
    broken.clear()
    await shift.execution(order, "A").retry()
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual(["parcel a", "parcel b", "parcel c"])
    expect(log).toEqual(["charge", "label a", "label b", "label c", "refund", "charge"])
  })

  it("retries plain jobs, and children whose ends the code got by allSettled", async () => {
    begin()
    const order = workflow("order", settings, async (_, step) => {
      const ends = await step.allSettled("mails", ["a", "b"], (id) => child(mail, { id }))
      if (ends.some(({ state }) => state === "dead")) throw new Error("a mail was not sent")
      return ends
    })
    await using shift = await testShift({ handlers: [order, sent] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    broken.clear()
    await shift.execution(order, "A").retry()
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual([
      { state: "done", value: "mail a" },
      { state: "done", value: "mail b" }
    ])
    expect(log).toEqual(["mail a", "mail b", "mail b"])
  })

  it("fails again if the child fails again, and can be retried again", async () => {
    begin()
    const order = workflow("order", settings, async (_, step) => step.all("parcels", ["b"], (id) => ship({ id })))
    await using shift = await testShift({ handlers: [order, ship] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    await shift.execution(order, "A").retry()
    await shift.drain()
    expect((await shift.execution(order, "A").status()).state).toBe("failed")
    broken.clear()
    await shift.execution(order, "A").retry()
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual(["parcel b"])
  })
})
