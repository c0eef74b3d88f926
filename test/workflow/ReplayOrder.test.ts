import { describe, expect, it } from "vitest"
import { z } from "zod"
import { type StepContext, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { gate } from "../support/Gate.js"

// When a replay gives results to the code, and when the code counts as stopped.

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { readonly id: string }) => id }

describe("the winner of a race", () => {
  /** A step behind helpers, each of which needs more turns of promises than the step alone. */
  const inHelpers = async <A>(act: () => Promise<A>): Promise<A> => {
    const inner = async () => await act()
    const outer = async () => await inner()
    return await outer()
  }

  it("is the same in a replay if it is a step behind helpers, and the loser was recorded right behind it", async () => {
    const { open, opened } = gate()
    const winners: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const winner = await Promise.race([
        inHelpers(() => step.run("dhl", () => "dhl")),
        step.run("ups", async () => {
          await opened
          return "ups"
        })
      ])
      winners.push(winner)
      await step.run("let the loser end", async () => {
        open()
        await opened
      })
      await step.sleep("nap", "1h")
      return winner
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    expect(await run.result()).toBe("dhl")
    expect((await run.status()).steps.slice(0, 2).map(({ name }) => name)).toEqual(["dhl", "ups"])
    expect(winners.length).toBeGreaterThan(1)
    expect(new Set(winners)).toEqual(new Set(["dhl"]))
  })

  it("is the same in a replay if both results are recorded together", async () => {
    const gates = { ups: gate(), dhl: gate() }
    const winners: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const quote = (name: keyof typeof gates) =>
        step.run(name, async () => {
          await gates[name].opened
          return name
        })
      const [ups, dhl] = [quote("ups"), inHelpers(() => quote("dhl"))]
      const winner = await Promise.race([dhl, ups])
      winners.push(winner)
      await Promise.all([dhl, ups])
      await step.sleep("nap", "1h")
      return winner
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    gates.dhl.open()
    gates.ups.open()
    expect(await run.result()).toBe("dhl")
    expect((await run.status()).steps.slice(0, 2).map(({ name }) => name)).toEqual(["dhl", "ups"])
    expect(winners.length).toBeGreaterThan(1)
    expect(new Set(winners)).toEqual(new Set(["dhl"]))
  })
})

describe("an execution to undo whose code awaits something of its own before a step that is done", () => {
  const charging = (log: Array<string>, own: Promise<void>) => {
    let runs = 0
    return workflow("order", settings, async (_, step) => {
      runs += 1
      if (runs > 1) await own
      await step.run("charge", () => void log.push("charge"), { undo: () => void log.push("refund") })
      await step.sleep("cooling-off", "1h")
    })
  }

  it("waits for the code if it was cancelled, and undoes the step", async () => {
    const { open, opened } = gate()
    const log: Array<string> = []
    const order = charging(log, opened)
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await run.cancel()
    await shift.settle()
    expect([log, (await run.status()).state]).toEqual([["charge"], "running"])
    open()
    await shift.drain()
    expect([log, (await run.status()).state]).toEqual([["charge", "refund"], "cancelled"])
  })

  it("waits for the code too if the execution dies of crashes", async () => {
    const { open, opened } = gate()
    const log: Array<string> = []
    const order = charging(log, opened)
    await using shift = await testShift({ handlers: [order], log: false })
    const run = await shift.start(order, { id: "A" })
    for (let crashes = 0; crashes < 6; crashes += 1) {
      await shift.settle()
      await shift.crash()
      await shift.advance("1h")
    }
    expect([log, (await run.status()).state]).toEqual([["charge"], "running"])
    open()
    await shift.drain()
    expect(log).toEqual(["charge", "refund"])
    expect(await run.status()).toMatchObject({ state: "failed", reason: "poison" })
  })
})

describe("a step with an undo that a crash cut off beside a branch that failed", () => {
  const cases: ReadonlyArray<readonly [string, () => Promise<unknown>]> = [
    [
      "the code needs more turns of promises to request it again",
      async () => {
        for (let turn = 0; turn < 20; turn += 1) await undefined
      }
    ],
    ["the code awaits something of its own", () => crypto.subtle.digest("SHA-256", new Uint8Array(16))]
  ]

  it.each(cases)("runs again and is undone, although %s", async (_, own) => {
    const log: Array<string> = []
    let runs = 0
    const order = workflow("order", settings, async (_, step) => {
      runs += 1
      const isReplay = runs > 1
      const charge = async () => {
        await step.run("price", () => 1)
        if (isReplay) await own()
        const pay = () => {
          log.push("charge")
          return log.length === 1 ? new Promise(() => {}) : 1
        }
        await step.run("charge", pay, { undo: () => void log.push("refund") })
      }
      const fails = () => {
        throw new Error("sold out")
      }
      await Promise.all([charge(), step.run("reserve", fails, { attempts: 1 })])
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    expect(log).toEqual(["charge"])
    await shift.crash()
    await shift.drain()
    expect(log).toEqual(["charge", "charge", "refund"])
    expect(await run.status()).toMatchObject({ state: "failed", lastError: "sold out" })
  })
})

const untilAborted = (signal: AbortSignal) =>
  new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))

describe("a retried execution that is cancelled while a step runs again", () => {
  it("is cancelled though results behind that step are not requested", async () => {
    let sends = 0
    const order = workflow("order", settings, async (_, step) => {
      const send = () => {
        sends += 1
        if (sends === 1) throw new Error("mailbox full")
        return new Promise(() => {})
      }
      const fails = () => {
        throw new Error("sold out")
      }
      const email = async () => {
        await step.run("email", send, { attempts: 1 }).catch(() => {})
        await step.run("report", () => 1)
      }
      const ship = async () => {
        await step.waitFor("go")
        await step.run("ship", fails, { attempts: 1 })
      }
      await Promise.all([email(), ship()])
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    await run.signal("go")
    await shift.drain()
    expect((await run.status()).steps.map(({ name }) => name)).toEqual(["email", "report", "go", "ship"])
    await run.retry()
    await shift.settle()
    expect(sends).toBe(2)
    await shift.crash()
    await run.cancel()
    await shift.drain()
    expect((await run.status()).state).toBe("cancelled")
  })

  it("is cancelled though it awaits something of its own before the steps", async () => {
    const { open, opened } = gate()
    let pays = 0
    let isCancelled = false
    const order = workflow("order", settings, async (_, step) => {
      if (isCancelled) await opened
      await step.run("price", () => 1)
      const pay = ({ signal }: StepContext) => {
        pays += 1
        if (pays === 1) throw new Error("declined")
        return untilAborted(signal)
      }
      await step.run("pay", pay, { attempts: 1 })
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    await run.retry()
    await shift.settle()
    expect(pays).toBe(2)
    isCancelled = true
    await run.cancel()
    await shift.settle()
    const before = shift.now()
    open()
    await shift.drain()
    expect((await run.status()).state).toBe("cancelled")
    // Not after the timeout of the run.
    expect(shift.now()).toEqual(before)
  })

  it("undoes a step that the retry ran again though it awaits something of its own before the step", async () => {
    const log: Array<string> = []
    let isRetried = false
    let isCancelled = false
    const order = workflow("order", settings, async (_, step) => {
      for (let hashes = 0; isCancelled && hashes < 30; hashes++)
        await crypto.subtle.digest("SHA-256", new Uint8Array(16))
      await step.run("charge", () => void log.push("charge"), { undo: () => void log.push("refund") })
      const ship = ({ signal }: StepContext) => {
        if (!isRetried) throw new Error("no stock")
        return untilAborted(signal)
      }
      await step.run("ship", ship, { attempts: 1 })
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(log).toEqual(["charge", "refund"])
    isRetried = true
    await run.retry()
    await shift.settle()
    expect(log).toEqual(["charge", "refund", "charge"])
    isCancelled = true
    await run.cancel()
    await shift.drain()
    expect(log).toEqual(["charge", "refund", "charge", "refund"])
    expect((await run.status()).state).toBe("cancelled")
  })
})
