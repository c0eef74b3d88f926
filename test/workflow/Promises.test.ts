import { describe, expect, it } from "vitest"
import { z } from "zod"
import { JobDeadError, Outcome, type Step, StepFailedError, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// The promises that workflows make, on virtual time.

const Order = z.object({ id: z.string() })
const settings = { payload: Order, key: (order: { id: string }) => order.id }

describe("a recorded step", () => {
  it("never runs again: not after a suspension, not after a crash", async () => {
    const calls: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const paid = await step.run("charge", () => {
        calls.push("charge")
        return { receipt: 7 }
      })
      await step.sleep("cool off", "3 days")
      await step.run("ship", () => void calls.push(`ship ${paid.receipt}`))
      return paid.receipt
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A-17" })
    await shift.settle()
    expect(calls).toEqual(["charge"])
    await shift.crash()
    await shift.advance("3 days")
    expect(calls).toEqual(["charge", "ship 7"])
    expect(await shift.execution(order, "A-17").result()).toBe(7)
  })

  it("is not repeated by a step that crashed its pod before the record", async () => {
    let calls = 0
    const order = workflow("order", settings, async (_, step) => {
      await step.run("first", () => {
        calls += 1
      })
      await step.run("hangs once", ({ signal }) => {
        if (shift.now().getTime() > 0) return
        return new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))
      })
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.advance("2h")
    expect(calls).toBe(1)
    expect((await shift.execution(order, "A").status()).state).toBe("done")
  })
})

describe("waiting", () => {
  it("takes no slot: one slot serves twenty sleepers", async () => {
    const done: Array<string> = []
    const order = workflow("order", settings, async ({ id }, step) => {
      await step.sleep("nap", "1h")
      done.push(id)
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order], slots: 1 })
    for (let id = 0; id < 20; id += 1) await shift.start(order, { id: String(id) })
    await shift.settle()
    expect(await shift.jobs.count({ state: "scheduled" })).toBe(20)
    await shift.advance("1h")
    expect(done.length).toBe(20)
  })

  it("adds nothing to the history and uses no attempt", async () => {
    const order = workflow("order", settings, async (_, step) => {
      for (let day = 0; day < 40; day += 1) await step.sleep("a day", "1 day")
    })
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await shift.job(id)).toMatchObject({ state: "done", attempt: 1, history: [] })
    expect((await shift.execution(order, "A").status()).steps.map(({ name }) => name).slice(-2)).toEqual([
      "a day#39",
      "a day#40"
    ])
  })

  it("never runs catch or finally of the code early", async () => {
    const ran: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      try {
        await step.sleep("nap", "1h")
        ran.push("woke")
      } catch {
        ran.push("catch")
      } finally {
        ran.push("finally")
      }
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect(ran).toEqual([])
    await shift.drain()
    expect(ran).toEqual(["woke", "finally"])
  })
})

describe("signals", () => {
  const order = workflow("order", settings, async (_, step) => {
    const approval = await step.waitFor<{ by: string }>("approval", { timeout: "7 days" })
    return approval === undefined ? "expired" : `approved by ${approval.by}`
  })

  it("are received before the start, during suspension and twice", async () => {
    await using shift = await testShift({ handlers: [order] })
    await shift.execution(order, "early").signal("approval", { by: "ada" })
    await shift.start(order, { id: "early" })
    await shift.start(order, { id: "late" })
    await shift.settle()
    expect(await shift.execution(order, "early").result()).toBe("approved by ada")
    expect(await shift.execution(order, "late").signal("approval", { by: "grace" })).toBe("completed")
    expect(await shift.execution(order, "late").signal("approval", { by: "linus" })).toBe("appended")
    expect(await shift.execution(order, "late").result()).toBe("approved by grace")
  })

  it("are sent by the key or by the job's id, and not by the id of the execution", async () => {
    await using shift = await testShift({ handlers: [order] })
    const { execution, id, key } = await shift.start(order, { id: "A" })
    expect({ execution, key }).toEqual({ execution: "order/A", key: "A" })
    expect(() => shift.execution(order, execution)).toThrow('"order/A" is the id of an execution. Pass its key: "A".')
    await shift.execution(order, id).signal("approval", { by: "ada" })
    await shift.settle()
    expect(await shift.execution(order, id).result()).toBe("approved by ada")
    // A key may look like an id.
    const uuid = "01890a5d-ac96-774b-bcce-b302099a8057"
    await shift.execution(order, uuid).signal("approval", { by: "grace" })
    await shift.start(order, { id: uuid })
    expect(await shift.execution(order, uuid).result()).toBe("approved by grace")
  })

  it("time out, and a signal after that changes nothing", async () => {
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.advance("7 days")
    await shift.execution(order, "A").signal("approval", { by: "ada" })
    expect(await shift.execution(order, "A").result()).toBe("expired")
  })
})

describe("compensation", () => {
  const make = (log: Array<string>, fails: boolean) =>
    workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => 1, { undo: (seat) => void log.push(`release ${seat}`) })
      await step.run("charge", () => 2, { undo: (payment) => void log.push(`refund ${payment}`) })
      await step.sleep("cool off", "1h")
      if (fails) await step.run("ship", () => Promise.reject(new Error("no stock")), { attempts: 1 })
      return "shipped"
    })

  it("runs in reverse order when the execution fails, and the execution is dead", async () => {
    const log: Array<string> = []
    const order = make(log, true)
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(log).toEqual(["refund 2", "release 1"])
    expect(await shift.job(id)).toMatchObject({ state: "dead", reason: "rejected", lastError: "no stock" })
    await expect(shift.execution(order, "A").result()).rejects.toBeInstanceOf(JobDeadError)
  })

  it("runs when the execution is cancelled", async () => {
    const log: Array<string> = []
    const order = make(log, false)
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel()
    await shift.settle()
    expect(log).toEqual(["refund 2", "release 1"])
    expect((await shift.job(id)).state).toBe("cancelled")
    await expect(shift.execution(order, "A").result()).rejects.toMatchObject({
      code: "JOB_CANCELLED",
      message: expect.stringContaining('Retry the execution (shift.workflows.retry("order/A")) to run it again.')
    })
  })

  it("is skipped by cancel with now, which the job records", async () => {
    const log: Array<string> = []
    const order = make(log, false)
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").cancel({ now: true })
    await shift.drain()
    expect(log).toEqual([])
    expect(await shift.job(id)).toMatchObject({ state: "cancelled", lastError: "cancelled without undoing its steps" })
  })

  it("never runs because of a crash", async () => {
    const log: Array<string> = []
    const order = make(log, false)
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.advance("3h")
    expect(log).toEqual([])
    expect(await shift.execution(order, "A").result()).toBe("shipped")
  })
})

describe("one execution per key", () => {
  it("is returned by every start while it is retained", async () => {
    let runs = 0
    const order = workflow("order", settings, async () => {
      runs += 1
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order] })
    const first = await shift.start(order, { id: "A" })
    await shift.settle()
    const again = await shift.start(order, { id: "A" })
    await shift.settle()
    expect([first.outcome, again.outcome, again.id === first.id, runs]).toEqual(["started", "existing", true, 1])
  })
})

describe("changed code", () => {
  type Code = (payload: { id: string }, step: Step) => Promise<string>

  const before: Code = async (_, step) => {
    await step.run("charge", () => 1)
    await step.sleep("cool off", "1h")
    return "old"
  }

  /** A workflow whose code can be replaced. */
  const replaceable = () => {
    const versions = { current: before }
    return { versions, order: workflow("order", settings, (payload, step) => versions.current(payload, step)) }
  }

  it("suspends the execution with the reason changed, names the step, and loses nothing", async () => {
    const { order, versions } = replaceable()
    await using shift = await testShift({ allowChanged: true, handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    versions.current = async (_, step) => {
      await step.run("pay", () => 1)
      await step.sleep("cool off", "1h")
      return "new"
    }
    await shift.advance("1h")
    const shown = await shift.execution(order, "A").status()
    expect(shown.state).toBe("changed")
    expect(shown.lastError).toContain('step "charge" is recorded, but its code does "pay" instead')
    versions.current = before
    await shift.advance("10 minutes")
    expect(await shift.execution(order, "A").result()).toBe("old")
  })

  it("is distinguished by patched: old executions keep the old path, new ones take the new one", async () => {
    const { order, versions } = replaceable()
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "old" })
    await shift.settle()
    versions.current = async (_, step) => {
      const isNew = await step.patched("tax")
      await step.run("charge", () => 1)
      if (isNew) await step.run("tax", () => 2)
      await step.sleep("cool off", "1h")
      return isNew ? "with tax" : "old"
    }
    await shift.start(order, { id: "new" })
    await shift.drain()
    expect([await shift.execution(order, "old").result(), await shift.execution(order, "new").result()]).toEqual([
      "old",
      "with tax"
    ])
    expect((await shift.execution(order, "new").status()).steps.map(({ name }) => name)).toEqual([
      "patch:tax",
      "charge",
      "tax",
      "cool off"
    ])
  })
})

describe("a step that fails", () => {
  it("is retried after durable delays, and its last error reaches the code", async () => {
    const at: Array<number> = []
    const order = workflow("order", settings, async (_, step) => {
      try {
        await step.run(
          "charge",
          ({ attempt }) => {
            at.push(shift.now().getTime() / 60_000)
            throw new TypeError(`declined ${attempt}`)
          },
          { attempts: 3, backoff: ["1m", "10m"] }
        )
      } catch (error) {
        return error instanceof StepFailedError ? [error.step, error.errorName, error.message] : error
      }
      return "charged"
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.advance("11 minutes")
    expect(at).toEqual([0, 1, 11])
    expect(await shift.execution(order, "A").result()).toEqual(["charge", "TypeError", "declined 3"])
  })

  it("reports an outcome that steps do not support", async () => {
    const order = workflow("order", settings, async (_, step) =>
      step.run("later", () => Promise.reject(Outcome.snooze("1h")), { attempts: 1 })
    )
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await shift.job(id)).lastError).toMatch(/A step cannot end with the outcome Snooze/)
  })

  it("refuses a result of more than 64 KiB with the limit", async () => {
    const order = workflow("order", settings, async (_, step) => step.run("report", () => "x".repeat(70_000)))
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await shift.job(id)).lastError).toMatch(
      /"report" is invalid: its value must be at most 65536 bytes as JSON/
    )
  })
})
