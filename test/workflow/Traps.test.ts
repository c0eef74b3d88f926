import { describe, expect, it } from "vitest"
import { z } from "zod"
import { Outcome, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { gate } from "../support/Gate.js"

// Mistakes that other engines make, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

describe("concurrent waits and steps", () => {
  it("a signal that arrives while a step runs is not lost", async () => {
    const { open, opened } = gate()
    const order = workflow("order", settings, async (_, step) => {
      const [, approval] = await Promise.all([step.run("slow", () => opened), step.waitFor("approval")])
      return approval
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.execution(order, "A").signal("approval", "yes")
    open()
    expect(await shift.execution(order, "A").result()).toBe("yes")
  })

  it("a step is not recorded as failed when its pod stops", async () => {
    let tries = 0
    const order = workflow("order", settings, async (_, step) =>
      step.run("slow", async ({ signal }) => {
        tries += 1
        if (tries > 1) return "done"
        await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error("aborted"))))
      })
    )
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.crash()
    await shift.advance("2h")
    expect(await shift.execution(order, "A").result()).toBe("done")
    expect((await shift.execution(order, "A").status()).steps.map(({ outcome }) => outcome)).toEqual(["done"])
  })

  it("a failed step that the code does not await does not end the process", async () => {
    const rejections: Array<unknown> = []
    const hear = (reason: unknown) => void rejections.push(reason)
    process.on("unhandledRejection", hear)
    const order = workflow("order", settings, async (_, step) => {
      void step.run("forgotten", () => Promise.reject(new Error("no")), { attempts: 1 })
      return step.run("charge", () => new Promise((resolve) => setImmediate(() => setImmediate(resolve, "paid"))))
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    expect(await shift.execution(order, "A").result()).toBe("paid")
    await new Promise((resolve) => setImmediate(resolve))
    process.off("unhandledRejection", hear)
    expect(rejections).toEqual([])
    expect((await shift.execution(order, "A").status()).steps).toMatchObject([
      { name: "forgotten", outcome: "failed" },
      { name: "charge" }
    ])
  })

  it("a step that runs while another waits is not suspended", async () => {
    const { open, opened } = gate()
    const order = workflow("order", settings, async (_, step) => {
      await Promise.all([step.sleep("nap", "1h"), step.run("slow", () => opened)])
      return shift.now().getTime() / 3_600_000
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect((await shift.execution(order, "A").status()).state).toBe("running")
    open()
    await shift.settle()
    expect((await shift.execution(order, "A").status()).state).toBe("sleeping")
    expect(await shift.execution(order, "A").result()).toBe(1)
  })

  it("a replay has the same winner of a race, although the loser was recorded later", async () => {
    const { open, opened } = gate()
    const winners: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      const winner = await Promise.race([
        step.run("slow", async () => {
          await opened
          return "slow"
        }),
        step.run("fast", () => "fast")
      ])
      winners.push(winner)
      await step.run("let the loser end", async () => {
        open()
        await opened
      })
      await step.sleep("nap", "1h")
      return winner
    })
    await using shift = await testShift({ allowChanged: true, handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect((await shift.execution(order, "A").status()).steps.map(({ name }) => name)).toContain("slow")
    expect([winners, await shift.execution(order, "A").result()]).toEqual([["fast", "fast"], "fast"])
  })

  it("a timeout of a step by a sleep fires while the step runs", async () => {
    const { opened } = gate()
    const order = workflow("order", settings, async (_, step) =>
      Promise.race([
        step.run("hangs", ({ signal }) => {
          const stopped = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve()))
          return Promise.race([opened, stopped])
        }),
        step.sleep("patience", "1m").then(() => "too late")
      ])
    )
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.advance("2m")
    expect(await shift.execution(order, "A").result()).toBe("too late")
  })
})

describe("results that JSON cannot express", () => {
  it.each<[string, unknown, string]>([
    ["NaN", Number.NaN, "The result must not contain NaN or Infinity"],
    ["a function", () => 1, "The result must be a JSON value"],
    ["a Map", { of: new Map([["a", 1]]) }, "The result must not contain a Map or a Set"],
    ["a BigInt", { n: 1n }, "The result cannot be encoded as JSON"]
  ])("fail the step at once: %s", async (_, value, text) => {
    let calls = 0
    const order = workflow("order", settings, async (_, step) =>
      step.run("measure", () => {
        calls += 1
        return value as never
      })
    )
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    const { lastError, state } = await shift.execution(order, "A").status()
    expect([state, calls]).toEqual(["failed", 1])
    expect(lastError).toContain(text)
  })
})

describe("errors that a step throws", () => {
  it.each<[string, object, string, string]>([
    [
      "a message that PostgreSQL cannot store",
      { message: "bad byte \u0000 in \ud800" },
      "Error",
      "bad byte \ufffd in \ufffd"
    ],
    ["a message that is an object", { message: { code: 7 } }, "Error", '{"code":7}'],
    ["no message", { message: undefined }, "Error", "undefined"],
    ["a name that is no text", { name: 1n }, "Error", "sold out"],
    ["a long name", { name: "E".repeat(100_000) }, "E".repeat(256), "sold out"]
  ])("are retried and reported: %s", async (_, fields, name, message) => {
    let calls = 0
    const order = workflow("order", settings, async (_, step) => {
      const fail = () => {
        calls += 1
        throw Object.assign(new Error("sold out"), fields)
      }
      return step.run("reserve", fail, { attempts: 2 }).catch(({ errorName, message }) => [errorName, message])
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    expect([await run.result(), calls]).toEqual([[name, message], 2])
  })

  it("may be outcomes that an error was given to", async () => {
    const order = workflow("order", settings, async (_, step) =>
      step.run("reserve", () => {
        throw Outcome.dead(new Error("sold out") as never)
      })
    )
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toMatchObject({ reason: "rejected", lastError: "sold out" })
  })

  it("end the execution if its code throws them", async () => {
    const order = workflow("order", settings, () => {
      throw Object.assign(new Error("sold out"), { message: { code: 7 } })
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toThrow('{"code":7}')
  })
})

describe("signals that the execution does not wait for", () => {
  it("are listed until the code receives them", async () => {
    const order = workflow("order", settings, async (_, step) => {
      await step.waitFor("approval")
      await step.waitFor("shipped")
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    for (const name of ["aproval", "shipped"]) await shift.execution(order, "A").signal(name)
    await shift.settle()
    expect((await shift.execution(order, "A").status()).unclaimed).toEqual(["aproval", "shipped"])
    await shift.execution(order, "A").signal("approval")
    await shift.settle()
    expect([
      (await shift.execution(order, "A").status()).unclaimed,
      (await shift.execution(order, "A").status()).state
    ]).toEqual([["aproval"], "done"])
  })
})

describe("names", () => {
  it("used again in a loop are numbered, so that each call has its own result", async () => {
    const order = workflow("order", settings, async (_, step) => {
      const drawn: Array<number> = []
      for (let turn = 1; turn <= 3; turn += 1) {
        drawn.push(await step.run("draw", () => turn))
        await step.sleep("nap", "1h")
      }
      return drawn
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual([1, 2, 3])
  })

  it("that undos use are refused for steps", async () => {
    const order = workflow("order", settings, async (_, step) => step.run("undo:charge", () => 1))
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.settle()
    expect((await shift.job(id)).lastError).toContain('must not start with "undo:"')
  })
})

describe("undo", () => {
  it("may wait, and continues where it was", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => 1, { undo: () => void log.push("release") })
      await step.run("charge", () => 2, {
        undo: async () => {
          await step.run("ask bank", () => void log.push("ask"))
          await step.sleep("bank day", "1 day")
          const answer = await step.waitFor("bank")
          log.push(`refund ${answer}`)
        }
      })
      throw new Error("no stock")
    })
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.advance("1 day")
    expect(log).toEqual(["ask"])
    await shift.execution(order, "A").signal("undo:charge/bank", "ok")
    await shift.settle()
    expect(log).toEqual(["ask", "refund ok", "release"])
    expect((await shift.job(id)).lastError).toBe("no stock")
  })

  it("is retried, and a failure of it is reported and does not stop the others", async () => {
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("reserve", () => 1, { undo: () => void log.push("release") })
      await step.run("charge", () => 2, {
        attempts: 2,
        backoff: "1h",
        undo: () => {
          log.push("refund")
          throw new Error("bank closed")
        }
      })
      throw new Error("no stock")
    })
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(log).toEqual(["refund", "refund", "release"])
    expect((await shift.job(id)).lastError).toBe("no stock; undo of charge failed: bank closed")
  })

  it("includes a step that ended while another one failed", async () => {
    const { open, opened } = gate()
    const log: Array<string> = []
    const order = workflow("order", settings, async (_, step) => {
      await Promise.all([
        step.run("charge", () => opened, { undo: () => void log.push("refund") }),
        step.run("reserve", () => Promise.reject(new Error("sold out")), { attempts: 1 })
      ])
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect(log).toEqual([])
    open()
    await shift.settle()
    expect(log).toEqual(["refund"])
  })
})
