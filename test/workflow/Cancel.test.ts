import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { gate } from "../support/Gate.js"

// A cancelled execution undoes everything that it has done, once. Bodies of steps are held open by the tests.

const Order = z.object({ id: z.string() })
const settings = { payload: Order, key: (order: { id: string }) => order.id }

describe("a cancel during a step", () => {
  it("lets the step end, records it and undoes it once", async () => {
    const log: Array<string> = []
    const { open, opened } = gate()
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "charge",
        async ({ signal }) => {
          log.push("charge")
          await opened
          return signal.aborted
        },
        { undo: (aborted) => void log.push(`refund, aborted ${aborted}`) }
      )
      await step.run("ship", () => void log.push("ship"))
    })
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.settle()
    expect(log).toEqual(["charge"])
    // Longer than an interrupted handler gets before it is abandoned.
    await shift.advance("30s")
    open()
    await shift.settle()
    expect(log).toEqual(["charge", "refund, aborted false"])
    expect((await shift.job(id)).state).toBe("cancelled")
    expect((await shift.execution(order, "A").status()).steps.map(({ name, outcome }) => [name, outcome])).toEqual([
      ["charge", "done"],
      ["undo:charge", "done"]
    ])
  })

  it("aborts a step that has no undo", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => void log.push("reserve"), { undo: () => void log.push("release") })
      await step.run(
        "render",
        ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))
      )
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.settle()
    expect(log).toEqual(["reserve", "release"])
    expect((await shift.execution(order, "A").status()).state).toBe("cancelled")
  })

  it("records a step that fails, and does not retry it", async () => {
    let calls = 0
    const { open, opened } = gate()
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "charge",
        async () => {
          calls += 1
          await opened
          throw new Error("declined")
        },
        { undo: () => {} }
      )
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    open()
    await shift.drain()
    expect(calls).toBe(1)
    expect(await shift.execution(order, "A").status()).toMatchObject({
      state: "cancelled",
      steps: [{ name: "charge", outcome: "retrying", exit: { error: { message: "declined" } } }]
    })
  })
})

describe("a cancel during an undo", () => {
  const failing = (log: Array<string>, undo: () => Promise<void>) =>
    workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => void log.push("reserve"), { undo: () => void log.push("release") })
      await step.run("charge", () => void log.push("charge"), {
        undo: async () => {
          log.push("refund")
          await undo()
        }
      })
      throw new Error("no stock")
    })

  it("does not interrupt or repeat the undo of a failed execution", async () => {
    const log: Array<string> = []
    const { open, opened } = gate()
    const order = failing(log, () => opened)
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect(log).toEqual(["reserve", "charge", "refund"])
    await shift.execution(order, "A").cancel()
    await shift.advance("1m")
    open()
    await shift.drain()
    expect(log).toEqual(["reserve", "charge", "refund", "release"])
    expect((await shift.execution(order, "A").status()).state).toBe("cancelled")
  })

  it("does not repeat an undo that takes longer than a heartbeat", async () => {
    const log: Array<string> = []
    const { open, opened } = gate()
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => void log.push("charge"), {
        undo: async () => {
          log.push("refund")
          await opened
        }
      })
      await step.waitFor("approval")
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.advance("1m")
    await shift
      .execution(order, "A")
      .cancel()
      .catch(() => {})
    await shift.advance("1m")
    open()
    await shift.drain()
    expect(log).toEqual(["charge", "refund"])
    expect((await shift.execution(order, "A").status()).state).toBe("cancelled")
  })
})

describe("the end of a process during a step", () => {
  it("records a step that ends while the process waits for it", async () => {
    let calls = 0
    const { open, opened } = gate()
    const order = workflow("order", { ...settings, timeout: "10s" }, async (_, step) => {
      await step.run("charge", async () => {
        calls += 1
        await opened
      })
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    // The run times out; its step may still end before the slot is abandoned.
    await shift.advance("11s")
    open()
    await shift.drain()
    expect(calls).toBe(1)
    expect((await shift.execution(order, "A").status()).state).toBe("done")
  })
})

describe("a cancel after a crash", () => {
  it("finishes the step that the crash cut off, with the same idempotency key, and undoes it", async () => {
    const charged: Array<string> = []
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "charge",
        ({ idempotencyKey }) => {
          charged.push(idempotencyKey)
          // The charge is made, but the process ends before its result is recorded.
          return charged.length === 1 ? new Promise<void>(() => {}) : undefined
        },
        { undo: () => void log.push("refund") }
      )
      await step.run("ship", () => void log.push("ship"), { undo: () => void log.push("return") })
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.execution(order, "A").cancel()
    await shift.advance("2h")
    expect([charged.length, new Set(charged).size, log]).toEqual([2, 1, ["refund"]])
    expect((await shift.execution(order, "A").status()).state).toBe("cancelled")
  })

  /** An execution whose step `charge` takes effect and is cut off in its first call. */
  const cutOff = (log: Array<string>, charge: (call: number) => unknown = () => undefined) => {
    let calls = 0
    return workflow("order", settings, async (_, step) => {
      const shipment = step.all("parcel", ["P"], (id) => parcel({ id }))
      await step.run(
        "charge",
        () => {
          calls += 1
          log.push("charge")
          return calls === 1 ? new Promise<void>(() => {}) : charge(calls)
        },
        { backoff: "1 day", undo: () => void log.push("refund") }
      )
      await step.run("ship", () => void log.push("ship"), { undo: () => void log.push("return") })
      await shipment
    })
  }
  const parcel = workflow("parcel", settings, async (_, step) => {
    await step.run("label", () => {}, { undo: () => {} })
    await step.sleep("on its way", "30 days")
  })

  /** A shift whose pod crashed in the step. */
  const crashed = async (order: ReturnType<typeof cutOff>) => {
    const shift = await testShift({ handlers: [order, parcel] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    return shift
  }
  const failsOnce = (call: number) => {
    if (call === 2) throw new Error("timed out")
  }

  it("finishes that step although the execution waits for its children first", async () => {
    const log: Array<string> = []
    const order = cutOff(log)
    await using shift = await crashed(order)
    await shift.execution(order, "A").cancel()
    await shift.advance("2h")
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([
      ["charge", "charge", "refund"],
      "cancelled"
    ])
    expect((await shift.execution(parcel, "P").status()).state).toBe("cancelled")
  })

  it("finishes that step although it fails and is retried later", async () => {
    const log: Array<string> = []
    const order = cutOff(log, failsOnce)
    await using shift = await crashed(order)
    await shift.execution(order, "A").cancel()
    await shift.advance("2 days")
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([
      ["charge", "charge", "charge", "refund"],
      "cancelled"
    ])
  })

  it("finishes that step if it failed again before the cancel", async () => {
    const log: Array<string> = []
    const order = cutOff(log, failsOnce)
    await using shift = await crashed(order)
    await shift.advance("2h")
    expect(log).toEqual(["charge", "charge"])
    await shift.execution(order, "A").cancel()
    await shift.advance("2 days")
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([
      ["charge", "charge", "charge", "refund"],
      "cancelled"
    ])
  })

  it("starts no later step if the runs that undo crash too", async () => {
    const log: Array<string> = []
    const { open, opened } = gate()
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "charge",
        async () => {
          log.push("charge")
          await opened
        },
        {
          undo: () => {
            log.push("refund")
            return log.length < 4 ? new Promise<void>(() => {}) : undefined
          }
        }
      )
      await step.run("ship", () => void log.push("ship"), { undo: () => void log.push("return") })
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    open()
    await shift.settle()
    expect(log).toEqual(["charge", "refund"])
    await shift.crash()
    await shift.advance("1h")
    await shift.crash()
    await shift.advance("1h")
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([
      ["charge", "refund", "refund", "refund"],
      "cancelled"
    ])
  })

  it("finishes a step that a retry of the execution runs again, and undoes it again", async () => {
    const keys: Array<string> = []
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "charge",
        ({ idempotencyKey }) => {
          keys.push(idempotencyKey)
          log.push("charge")
          return keys.length === 2 ? new Promise<void>(() => {}) : undefined
        },
        { undo: () => void log.push("refund") }
      )
      await step.sleep("a day", "1 day")
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.settle()
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect(log).toEqual(["charge", "refund", "charge"])
    await shift.crash()
    await shift.execution(order, "A").cancel()
    await shift.advance("2h")
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([
      ["charge", "refund", "charge", "charge", "refund"],
      "cancelled"
    ])
    expect(keys[2]).toBe(keys[1])
  })

  it("starts no step if the last run ended in order", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.waitFor("approval", { timeout: "1h" })
      await step.run("charge", () => void log.push("charge"), { undo: () => void log.push("refund") })
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.execution(order, "A").signal("approval")
    await shift.execution(order, "A").cancel()
    await shift.drain()
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([[], "cancelled"])
  })
})

describe("a cancel of a parent", () => {
  it("undoes the steps of its children first, in reverse order over the whole tree", async () => {
    const log: Array<string> = []
    const done = (name: string) => ({ undo: () => void log.push(`undo ${name}`) })
    const parcel = workflow("parcel", settings, async ({ id }, step) => {
      await step.run("wrap", () => id, done(`wrap ${id}`))
      await step.waitFor("courier")
    })
    const shipment = workflow("shipment", settings, async ({ id }, step) => {
      await step.run("pick", () => id, done(`pick ${id}`))
      await step.all("parcels", ["1", "2"], (parcelId) => parcel({ id: `${id}/${parcelId}` }))
    })
    const order = workflow("order", settings, async ({ id }, step) => {
      await step.run("charge", () => id, done("charge"))
      await step.all("ship", ["S"], (shipmentId) => shipment({ id: shipmentId }))
    })
    await using shift = await testShift({ handlers: [order, shipment, parcel] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.drain()
    expect(log.slice(0, 2).sort()).toEqual(["undo wrap S/1", "undo wrap S/2"])
    expect(log.slice(2)).toEqual(["undo pick S", "undo charge"])
    expect((await shift.execution(order, "A").status()).state).toBe("cancelled")
  })
})
