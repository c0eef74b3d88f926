import { scrypt } from "node:crypto"
import { promisify } from "node:util"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import type { Step } from "../../src/client/workflow/Step.js"
import { testShift } from "../../src/testing/index.js"

// Code that is deployed while executions wait, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }
type Code = (step: Step) => Promise<unknown>

/** A shift that runs the workflow "order" with the code of the last `deploy`. */
const deployed = async (code: Code) => {
  const current = { code }
  const order = workflow("order", settings, async (_, step) => current.code(step))
  const shift = await testShift({ allowChanged: true, handlers: [order] })
  return {
    order,
    shift,
    deploy: (next: Code) => {
      current.code = next
    },
    [Symbol.asyncDispose]: () => shift[Symbol.asyncDispose]()
  }
}

const say = (log: Array<string>, step: Step, name: string) => step.run(name, () => void log.push(name))

/** Something that the code awaits without a step, which takes this many turns of the event loop. */
const ownWait = async (turns: number) => {
  for (let turn = 0; turn < turns; turn += 1) await new Promise(setImmediate)
}

describe("code that awaits something of its own between steps", () => {
  it("has not changed if a recorded step comes later than a new one", async () => {
    let runs = 0
    await using test = await deployed(async (step) => {
      runs += 1
      const hash = async (item: string) => {
        if (item === "a" && runs > 1) await ownWait(20)
        return step.run(item, () => item)
      }
      const [first, second] = await Promise.all([
        hash("a"),
        step.sleep("pause", "1h").then(() => step.run("c", () => "c"))
      ])
      return [first, second]
    })
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(runs).toBeGreaterThan(1)
    expect(await shift.execution(order, "A").result()).toEqual(["a", "c"])
  })
})

describe("changed code", () => {
  it("is found while the threads of the process are busy for longer than a test waits for other runs", async () => {
    await using test = await deployed(async (step) => {
      await step.run("charge", () => 1)
      await step.sleep("cool off", "1h")
    })
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.settle()
    test.deploy((step) => step.run("pay", () => 1))
    const busy = Array.from({ length: 24 }, () => promisify(scrypt)("password", "salt", 64))
    await shift.advance("1h")
    expect((await shift.execution(order, "A").status()).state).toBe("changed")
    await Promise.all(busy)
  })
})

describe("patched before a wait", () => {
  it("is false for an execution that already waits behind it, and true for later ones", async () => {
    const log: Array<string> = []
    await using test = await deployed(async (step) => {
      await step.run("charge", () => 1)
      await step.sleep("cool off", "3 days")
    })
    const { order, shift } = test
    await shift.start(order, { id: "old" })
    await shift.settle()
    test.deploy(async (step) => {
      await step.run("charge", () => 1)
      if (await step.patched("tax")) await say(log, step, "report tax")
      await step.sleep("cool off", "3 days")
      await step.sleep("and more", "1h")
    })
    await shift.start(order, { id: "new" })
    await shift.drain()
    expect(log).toEqual(["report tax"])
    const names = async (id: string) => (await shift.execution(order, id).status()).steps.map(({ name }) => name)
    expect(await names("old")).toEqual(["charge", "cool off", "and more"])
    expect(await names("new")).toEqual(["charge", "patch:tax", "report tax", "cool off", "and more"])
  })

  it("is answered for each branch: false where the branch waits behind it, true where it comes later", async () => {
    const branches = (patches: boolean) => async (step: Step) => {
      const left = async () => {
        await step.run("left", () => 1)
        const isNew = patches && (await step.patched("before"))
        await step.waitFor("go left")
        return isNew
      }
      const right = async () => {
        await step.waitFor("go right")
        const isNew = patches && (await step.patched("behind"))
        await step.sleep("right", "1h")
        return isNew
      }
      return Promise.all([left(), right(), step.sleep("long", "10h")])
    }
    await using test = await deployed(branches(false))
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.settle()
    test.deploy(branches(true))
    await shift.execution(order, "A").signal("go right")
    await shift.settle()
    await shift.execution(order, "A").signal("go left")
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual([false, true, null])
  })

  it("is false for an execution that is retried behind it", async () => {
    const log: Array<string> = []
    const code = (stock: boolean, patches: boolean) => async (step: Step) => {
      await step.run("charge", () => 1)
      if (patches && (await step.patched("tax"))) await say(log, step, "report tax")
      await step.run("ship", () => (stock ? log.push("ship") : Promise.reject(new Error("no stock"))), { attempts: 1 })
    }
    await using test = await deployed(code(false, false))
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.settle()
    test.deploy(code(true, true))
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect([log, (await shift.execution(order, "A").status()).state]).toEqual([["ship"], "done"])
  })
})

describe("code that differs from what the execution waits for", () => {
  const before: Code = async (step) => {
    await step.run("charge", () => 1)
    await step.sleep("cool off", "3 days")
    return "old"
  }

  it.each<[string, Code, string]>([
    [
      "does something new first",
      async (step) => {
        await step.run("charge", () => 1)
        await step.run("report tax", () => Promise.reject(new Error("must not run")))
        await step.sleep("cool off", "3 days")
      },
      'it waits for "cool off", but its code does "report tax" instead'
    ],
    [
      "waits for something else",
      async (step) => {
        await step.run("charge", () => 1)
        await step.waitFor("approval")
      },
      'it waits for "cool off", but its code does "approval" instead'
    ],
    ["ends", async (step) => step.run("charge", () => 1), 'it waits for "cool off", but its code ended without it']
  ])("is changed, however often it is tried: %s", async (_, code, text) => {
    await using test = await deployed(before)
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.settle()
    test.deploy(code)
    await shift.advance("3 days")
    for (let turn = 0; turn < 3; turn += 1) {
      const { lastError, state, steps } = await shift.execution(order, "A").status()
      expect([state, steps.map(({ name }) => name)]).toEqual(["changed", ["charge"]])
      expect(lastError).toContain(text)
      await shift.advance("10 minutes")
    }
    test.deploy(before)
    await shift.advance("10 minutes")
    expect(await shift.execution(order, "A").result()).toBe("old")
  })

  it("is tried again within seconds, then less often, and at once by a retry", async () => {
    await using test = await deployed(before)
    const { order, shift } = test
    const tries: Array<number> = []
    await shift.start(order, { id: "A" })
    await shift.settle()
    const started = shift.now().getTime()
    test.deploy(async (step) => {
      tries.push(Math.round((shift.now().getTime() - started) / 1_000) - 3 * 86_400)
      await step.run("pay", () => 1)
    })
    await shift.advance("3 days")
    await shift.advance("20 seconds")
    expect(tries).toEqual([0, 1, 2, 3, 5, 7, 10, 15])
    await shift.advance("2h")
    const { dueAt } = await shift.execution(order, "A").status()
    expect((dueAt?.getTime() ?? 0) - shift.now().getTime()).toBeLessThanOrEqual(600_000)
    expect(tries.length).toBeLessThan(40)
    test.deploy(before)
    await shift.execution(order, "A").retry()
    await shift.settle()
    expect([(await shift.execution(order, "A").status()).state, await shift.execution(order, "A").result()]).toEqual([
      "done",
      "old"
    ])
  })

  it("is changed if recorded steps are in another order", async () => {
    await using test = await deployed(async (step) => {
      await step.run("charge", () => 1)
      await step.run("ship", () => 2)
      await step.sleep("cool off", "1h")
    })
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.settle()
    test.deploy(async (step) => {
      await step.run("ship", () => 2)
      await step.run("charge", () => 1)
      await step.sleep("cool off", "1h")
    })
    await shift.advance("1h")
    const { lastError, state } = await shift.execution(order, "A").status()
    expect([state, lastError]).toEqual([
      "changed",
      expect.stringContaining('step "charge" is recorded, but its code does "ship" instead')
    ])
  })
})

describe("code that has not changed", () => {
  it("starts steps in one branch while another branch waits", async () => {
    const log: Array<string> = []
    await using test = await deployed(async (step) => {
      const branch = async (name: string) => {
        // Every branch reaches its waits after a different number of turns.
        for (let turn = 0; turn < name.length; turn += 1) await Promise.resolve()
        for (const round of [1, 2, 3]) {
          await say(log, step, `${name} ${round}`)
          await step.waitFor(`${name} may go on`)
        }
      }
      const race = async () => {
        const winner = await Promise.race([
          step.sleep("deadline", "100 days").then(() => "late"),
          step.waitFor("answer").then(() => "answered")
        ])
        await say(log, step, winner)
        await step.sleep("after the race", "50 days")
      }
      await Promise.all([branch("a"), branch("bbbb"), race(), step.sleep("long", "200 days")])
    })
    const { order, shift } = test
    await shift.start(order, { id: "A" })
    await shift.settle()
    const signals = ["a may go on", "answer", "a may go on#2", "bbbb may go on", "bbbb may go on#2", "a may go on#3"]
    for (const name of [...signals, "bbbb may go on#3"]) {
      await shift.execution(order, "A").signal(name)
      await shift.settle()
      expect(["waiting", "sleeping"]).toContain((await shift.execution(order, "A").status()).state)
      await shift.crash()
      await shift.advance("2h")
    }
    await shift.drain()
    expect(log.sort()).toEqual(["a 1", "a 2", "a 3", "answered", "bbbb 1", "bbbb 2", "bbbb 3"])
    expect((await shift.execution(order, "A").status()).state).toBe("done")
  })
})
