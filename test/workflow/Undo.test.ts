import { describe, expect, it } from "vitest"
import { z } from "zod"
import { type Step, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { gate } from "../support/Gate.js"

// What branches that run in parallel leave to undo, in the run in which the code fails and in those that replay it.

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { readonly id: string }) => id }

const fails = (message: string) => (): never => {
  throw new Error(message)
}

describe("a step that ended after another one failed", () => {
  it("is undone by a later run too, whose replay fails before it delivers the step", async () => {
    const { open, opened } = gate()
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const charge = step.run("charge", () => opened, {
        undo: () => {
          log.push("refund")
          if (log.length === 1) throw new Error("bank closed")
        }
      })
      await Promise.all([charge, step.run("reserve", fails("sold out"), { attempts: 1 })])
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    open()
    await shift.drain()
    expect(log).toEqual(["refund", "refund"])
    expect(await run.status()).toMatchObject({ state: "failed", reason: "rejected", lastError: "sold out" })
  })

  it("is undone by the run after a cancel", async () => {
    const [charged, reserved] = [gate(), gate()]
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const reserve = async () => {
        await reserved.opened
        throw new Error("sold out")
      }
      await Promise.all([
        step.run("charge", () => charged.opened, { undo: () => void log.push("refund") }),
        step.run("reserve", reserve, { attempts: 1, undo: () => void log.push("release") })
      ])
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await run.cancel()
    reserved.open()
    await shift.settle()
    charged.open()
    await shift.drain()
    expect(log).toEqual(["refund"])
    expect(await run.status()).toMatchObject({
      steps: [{ name: "reserve" }, { name: "charge" }, { name: "undo:charge" }]
    })
  })

  it("is undone though its branch does something of its own before it requests the step", async () => {
    const [begun, ended] = [gate(), gate()]
    const log: Array<string> = []
    let runs = 0
    const order = workflow("order", settings, async (_, step) => {
      runs += 1
      // The first run would suspend if this took it too long.
      const isReplay = runs > 1
      const charge = async () => {
        await step.run("look up", () => 1)
        for (let hashes = 0; isReplay && hashes < 10; hashes++)
          await crypto.subtle.digest("SHA-256", new Uint8Array(16))
        const body = () => {
          begun.open()
          return ended.opened
        }
        await step.run("charge", body, {
          undo: () => {
            log.push("refund")
            if (log.length === 1) throw new Error("bank closed")
          }
        })
      }
      const reserve = async () => {
        await step.sleep("offer", "1m")
        await step.run("reserve", fails("sold out"), { attempts: 1 })
      }
      await Promise.all([charge(), reserve()])
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await begun.opened
    await shift.advance("2m")
    ended.open()
    await shift.drain()
    expect(log).toEqual(["refund", "refund"])
    expect(await run.status()).toMatchObject({ state: "failed", reason: "rejected" })
  })
})

describe("a step with an undo that a crash cut off", () => {
  const orders = (log: Array<string>, isFirst: boolean, charge: () => unknown) =>
    workflow("order", settings, async (_, step) => {
      const branches = [
        () => step.run("charge", charge, { backoff: "1h", undo: () => void log.push("refund") }),
        () => step.run("reserve", fails("sold out"), { attempts: 1 })
      ]
      await Promise.all((isFirst ? branches : branches.reverse()).map((branch) => branch()))
    })

  for (const isFirst of [true, false]) {
    it(`runs again and is undone if another one has failed, requested ${isFirst ? "before" : "after"} it`, async () => {
      const log: Array<string> = []
      const order = orders(log, isFirst, () => {
        log.push("charge")
        return log.length === 1 ? new Promise(() => {}) : 1
      })
      await using shift = await testShift({ handlers: [order] })
      const run = await shift.start(order, { id: "A" })
      await shift.settle()
      expect((await run.status()).steps.map(({ name, outcome }) => [name, outcome])).toEqual([["reserve", "failed"]])
      await shift.crash()
      await shift.drain()
      expect(log).toEqual(["charge", "charge", "refund"])
      expect(await run.status()).toMatchObject({ state: "failed", reason: "rejected", lastError: "sold out" })
    })
  }

  it("runs again with its retries", async () => {
    const log: Array<string> = []
    const order = orders(log, true, () => {
      log.push("charge")
      if (log.length === 1) return new Promise(() => {})
      if (log.length === 2) throw new Error("bank closed")
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.drain()
    expect(log).toEqual(["charge", "charge", "charge", "refund"])
    expect(await run.status()).toMatchObject({ state: "failed", reason: "rejected" })
  })

  it("runs again with its retries after a cancel", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const charge = () => {
        log.push("charge")
        if (log.length === 1) return new Promise(() => {})
        if (log.length === 2) throw new Error("bank closed")
      }
      await step.run("charge", charge, { backoff: "1h", undo: () => void log.push("refund") })
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await run.cancel()
    await shift.drain()
    expect(log).toEqual(["charge", "charge", "charge", "refund"])
    expect((await run.status()).state).toBe("cancelled")
  })

  it("runs again and is undone if a retry of the execution had begun it", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const charge = () => {
        log.push("charge")
        if (log.length === 1) throw new Error("declined")
        return log.length === 2 ? new Promise(() => {}) : 1
      }
      await step.run("charge", charge, { attempts: 1, undo: () => void log.push("refund") })
      await step.sleep("cooling-off", "1h")
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    await run.retry()
    await shift.settle()
    await shift.crash()
    await run.cancel()
    await shift.drain()
    expect(log).toEqual(["charge", "charge", "charge", "refund"])
    expect((await run.status()).state).toBe("cancelled")
  })
})

describe("a failure while another branch", () => {
  const child = workflow("child", { payload: z.object({}) }, async (_, step) => step.waitFor("go"))
  const later = () => new Promise((resolve) => setImmediate(() => setImmediate(resolve)))
  const slowPayload = z.object({}).refine(async () => {
    await later()
    return true
  })
  const slow = workflow("slow", { payload: slowPayload }, async (_, step) => step.waitFor("go"))
  const branches: Readonly<Record<string, (step: Step) => Promise<unknown>>> = {
    "waits for a signal": (step) => step.waitFor("approval"),
    "starts children": (step) => step.all("ship", [1], () => child({})),
    "starts children slowly": (step) => step.all("ship", [1], () => slow({})),
    "is about to wait for a retry": (step) => step.run("ship", () => later().then(fails("down")), { backoff: "3h" })
  }
  for (const [name, branch] of Object.entries(branches)) {
    it(`${name} is followed by the undos at once`, async () => {
      const log: Array<string> = []
      const order = workflow("order", settings, async (_, step) => {
        await step.run("charge", () => 1, { undo: () => void log.push("refund") })
        await Promise.all([step.run("reserve", fails("sold out"), { attempts: 1 }), branch(step as Step)])
      })
      await using shift = await testShift({ handlers: [order, child, slow] })
      const run = await shift.start(order, { id: "A" })
      await shift.advance("1 minute")
      expect(log).toEqual(["refund"])
      expect(await run.status()).toMatchObject({ state: "failed", reason: "rejected", lastError: "sold out" })
    })
  }
})

describe("children of a step with an undo", () => {
  it("are undone by a cancel if a retry has started them again", async () => {
    const log: Array<unknown> = []
    let isBroken = true
    const parcel = workflow("parcel", { payload: z.object({ item: z.string() }) }, async ({ item }, step) => {
      if (item === "b" && isBroken) throw new Error("no address")
      if (item === "b") await step.waitFor("address")
      return `parcel of ${item}`
    })
    const order = workflow("order", settings, async (_, step) => {
      const undo = (booked: string) => void log.push(booked)
      await step.all("ship", ["a", "b"], (item) => parcel({ item }), { undo })
    })
    await using shift = await testShift({ handlers: [order, parcel] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(log).toEqual(["parcel of a"])
    isBroken = false
    await run.retry()
    await shift.settle()
    await run.cancel()
    await shift.drain()
    expect(log).toEqual(["parcel of a", "parcel of a"])
    expect((await run.status()).state).toBe("cancelled")
  })

  for (const call of ["all", "allSettled"] as const) {
    it(`are undone if their results are too large for the result of ${call}`, async () => {
      const log: Array<number> = []
      const part = workflow("part", { payload: z.object({}) }, async () => "x".repeat(60_000))
      const order = workflow("order", settings, async (_, step) => {
        const items = Array.from({ length: 20 }, (_, index) => index)
        const undo = (result: string, { index }: { readonly index: number }) => {
          expect(result).toHaveLength(60_000)
          log.push(index)
        }
        await step[call]("parts", items, () => part({}), { undo })
      })
      await using shift = await testShift({ handlers: [order, part] })
      const run = await shift.start(order, { id: "A" })
      await shift.drain()
      expect(log.toReversed()).toEqual(Array.from({ length: 20 }, (_, index) => index))
      const { lastError, reason } = await run.status()
      expect(reason).toBe("rejected")
      expect(lastError).toMatch(
        /must be at most 1048576 bytes as JSON, got 1200\d+\. Store large data elsewhere and return its key\.$/
      )
    })
  }

  it("keep their keys in a retry if none could be started before", async () => {
    let isStrict = true
    const item = z.object({ item: z.string().refine((text) => !isStrict || text !== "b", "unknown item") })
    const parcel = workflow("parcel", { payload: item, key: ({ item }) => item }, async ({ item }) => item)
    const order = workflow("order", settings, async (_, step) =>
      step.all("ship", ["a", "b"], (item) => parcel({ item }))
    )
    await using shift = await testShift({ handlers: [order, parcel] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await run.status()).lastError).toContain("unknown item")
    isStrict = false
    await run.retry()
    await shift.drain()
    expect((await run.status()).children.map(({ execution }) => execution)).toEqual(["parcel/a", "parcel/b"])
  })
})

describe("the steps inside an undo", () => {
  for (const backoff of ["50ms", "1h"] as const) {
    it(`run once, if the undo is tried again after ${backoff}`, async () => {
      const keys: Array<string> = []
      let isDown = true
      const order = workflow("order", settings, async (_, step) => {
        await step.run("charge", () => 1, {
          backoff,
          undo: async () => {
            await step.run("refund", ({ idempotencyKey }) => void keys.push(idempotencyKey))
            const wasDown = isDown
            isDown = false
            if (wasDown) throw new Error("mail is down")
            keys.push("mail")
          }
        })
        await step.sleep("cooling-off", "10h")
      })
      await using shift = await testShift({ handlers: [order] })
      const run = await shift.start(order, { id: "A" })
      await shift.settle()
      await run.cancel()
      await shift.drain()
      expect(keys).toEqual(["order/A/undo:charge/refund", "mail"])
      expect((await run.status()).state).toBe("cancelled")
    })
  }

  for (const waits of [false, true]) {
    it(`may fail if the undo ${waits ? "waits behind them" : "goes on"}`, async () => {
      const order = workflow("order", settings, async (_, step) => {
        await step.run("charge", () => 1, {
          undo: async () => {
            await step.run("tell", fails("gone"), { attempts: 1 }).catch(() => {})
            if (waits) await step.sleep("pause", "1h")
          }
        })
        await step.sleep("cooling-off", "10h")
      })
      await using shift = await testShift({ handlers: [order] })
      const run = await shift.start(order, { id: "A" })
      await shift.settle()
      await run.cancel()
      await shift.drain()
      expect(await run.status()).toMatchObject({ state: "cancelled" })
    })
  }

  it("wait for a declared signal", async () => {
    const log: Array<unknown> = []
    const order = workflow("order", { ...settings, signals: { ok: z.number() } }, async (_, step) => {
      await step.run("charge", () => 1, { undo: async () => void log.push(await step.waitFor("ok")) })
      await step.sleep("cooling-off", "10h")
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await run.cancel()
    await shift.settle()
    await expect(run.signal("undo:charge/ok", "yes" as never)).rejects.toThrow(/"undo:charge\/ok".* is invalid/)
    await expect(run.signal("undo:charge/fine" as never, 1 as never)).rejects.toThrow(/is not a signal of the workflow/)
    await run.signal("undo:charge/ok", 5)
    await shift.settle()
    expect(log).toEqual([5])
    expect((await run.status()).state).toBe("cancelled")
  })
})
