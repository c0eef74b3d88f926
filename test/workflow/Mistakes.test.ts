import { describe, expect, it } from "vitest"
import { z } from "zod"
import { child, job, StepFailedError, workflow } from "../../src/client/index.js"
import type { Step } from "../../src/client/workflow/Step.js"
import { testShift } from "../../src/testing/index.js"

// Mistakes in the code of a workflow, on virtual time: each rejects at the call, where the code can catch it.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }
const part = workflow("part", settings, async () => "made")

/** Runs the code behind a step with an undo and a sleep. Returns what the code caught, and what happens if it does not. */
const mistake = async (code: (step: Step) => Promise<unknown>) => {
  const undone: Array<string> = []
  const order = workflow("order", settings, async ({ id }, step) => {
    await step.run("charge", () => 1, { undo: () => void undone.push("refund") })
    await step.sleep("nap", "1h")
    if (id === "thrown") return code(step)
    return code(step).catch((error: unknown) => (error instanceof Error ? error : new Error(String(error))).message)
  })
  await using shift = await testShift({ handlers: [order, part] })
  for (const id of ["caught", "thrown"]) await shift.start(order, { id })
  await shift.advance("1h")
  const { lastError, state } = await shift.execution(order, "thrown").status()
  return { caught: await shift.execution(order, "caught").result(), thrown: { lastError, state }, undone }
}

const expectRejection = async (code: (step: Step) => Promise<unknown>, message: string) =>
  expect(await mistake(code)).toEqual({
    caught: message,
    thrown: { lastError: message, state: "failed" },
    undone: ["refund"]
  })

describe("an error in the code that describes a step rejects, is caught and undoes", () => {
  it("in the mapper of step.all", async () => {
    await expectRejection(
      (step) =>
        step.all("parts", ["a"], () => {
          throw new Error("no such part")
        }),
      "no such part"
    )
  })

  it("in a mapper that returns no child", async () => {
    await expectRejection(
      (step) => step.all("parts", ["a"], () => undefined as never),
      '"parts" needs a child for items[0]: call a workflow, or child(job, payload), got undefined.'
    )
  })

  it("in the timeout of a signal", async () => {
    await expectRejection(
      (step) => step.waitFor("approval", { timeout: "7 fortnights" as never }),
      'timeout of "approval" must be a duration like 90s, 30m, 1h30m or 7d, or a number of milliseconds, got "7 fortnights".'
    )
  })

  it("in the duration of a sleep, which must be finite", async () => {
    await expectRejection(
      (step) => step.sleep("forever", Number.POSITIVE_INFINITY),
      'duration of "forever" must be at most 36500 days, got infinite.'
    )
    await expectRejection(
      (step) => step.sleep("tea", "soon" as never),
      'duration of "tea" must be a duration like 90s, 30m, 1h30m or 7d, or a number of milliseconds, got "soon".'
    )
  })

  it("in the backoff and the attempts of a step", async () => {
    await expectRejection(
      (step) => step.run("charge", () => 1, { backoff: ["1s", "later" as never] }),
      'backoff[1] of "charge" must be a duration like 90s, 30m, 1h30m or 7d, or a number of milliseconds, got "later".'
    )
    await expectRejection(
      (step) => step.run("charge", () => 1, { attempts: 0 }),
      'attempts of "charge" must be a whole number from 1 to 10000, got 0.'
    )
  })

  it("in a validator of a signal that throws", async () => {
    const schema = z.string().refine(() => {
      throw new Error("no dictionary")
    })
    const order = workflow("order", settings, async (_, step) =>
      step
        .waitFor("word", { schema })
        .catch((error: unknown) => (error instanceof StepFailedError ? error.message : error))
    )
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.execution(order, "A").signal("word", "tea")
    await shift.settle()
    expect(await shift.execution(order, "A").result()).toBe("no dictionary")
  })
})

describe("names and options", () => {
  it("a name that is no string, or that undos and patches use, is refused", async () => {
    await expectRejection(
      (step) => step.run(undefined as never, () => 1),
      "The name of a step must be a string, got undefined."
    )
    await expectRejection(
      (step) => step.run((() => 1) as never, undefined as never),
      "The name of a step must be a string, got a function."
    )
    await expectRejection(
      (step) => step.sleep("patch:tax", "1h"),
      'The name of a step must not start with "patch:": "patch:tax".'
    )
    await expectRejection(
      (step) => step.waitFor("next:tax"),
      'The name of a step must not start with "next:": "next:tax".'
    )
  })

  it("options that do not exist are refused with the nearest name", async () => {
    await expectRejection(
      (step) => step.run("pay", () => 1, { atempts: 3 } as never),
      "atempts is not an option of a step: use attempts, backoff, timeout, heartbeatTimeout, limit, concurrency, undo. Did you mean attempts?"
    )
    await expectRejection(
      (step) => step.waitFor("approval", { timout: "1h" } as never),
      "timout is not an option of waitFor: use timeout, schema. Did you mean timeout?"
    )
    await expectRejection(
      (step) => step.next("message", { timout: "1h" } as never),
      "timout is not an option of next: use timeout, schema. Did you mean timeout?"
    )
    await expectRejection(
      (step) => step.run("pay", "charge" as never),
      'The code of "pay" must be a function, got "charge".'
    )
    await expectRejection(
      (step) => step.all("parts", "ab" as never, () => part({ id: "a" })),
      'The items of "parts" must be an array, got "ab".'
    )
  })

  it("a step named like a numbered one gets its own result", async () => {
    const order = workflow("order", settings, async (_, step) => {
      const run = (name: string, value: number) => step.run(name, () => value)
      const first = [await run("x", 1), await run("x", 2), await run("x#2", 3), await run("x#3", 4), await run("x", 5)]
      await step.sleep("nap", "1h")
      return [...first, await run("x", 6)]
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await shift.execution(order, "A").result()).toEqual([1, 2, 3, 4, 5, 6])
    expect(new Set((await shift.execution(order, "A").status()).steps.map(({ name }) => name)).size).toBe(7)
  })

  it("a patch and a step may have the same name", async () => {
    const order = workflow("order", settings, async (_, step) => {
      const isNew = await step.patched("tax")
      return [isNew, await step.run("tax", () => 19), await step.patched("tax")]
    })
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect(await shift.execution(order, "A").result()).toEqual([true, 19, true])
    expect((await shift.execution(order, "A").status()).steps.map(({ name }) => name)).toEqual([
      "patch:tax",
      "tax",
      "patch:tax#2"
    ])
  })

  it("a key that is undefined is refused, of an execution and of a child", async () => {
    const keyed = workflow("keyed", { ...settings, key: () => undefined as never }, async () => 1)
    const order = workflow("order", settings, async (_, step) => step.all("parts", [1], () => keyed({ id: "a" })))
    await using shift = await testShift({ handlers: [order, keyed] })
    const fault = 'The key of an execution of "keyed" must be a string that is not empty, got undefined.'
    await expect(shift.start(keyed, { id: "A" })).rejects.toThrow(fault)
    await shift.start(order, { id: "A" })
    await shift.settle()
    expect((await shift.execution(order, "A").status()).lastError).toBe(fault)
    expect(await shift.jobs.count()).toBe(1)
  })

  it("a workflow is not enqueued, and the message names what to call", async () => {
    const relay = job("relay", { payload: z.null() })
    const handler = relay.handle(async (_, { enqueue }) => enqueue(part as never, {} as never))
    await using shift = await testShift({ handlers: [part, handler] })
    const what = '"part" is a workflow, not a job: '
    const start = `${what}start an execution with shift.start(workflow, payload).`
    expect(part.name).toBe("part")
    await expect(shift.enqueue(part as never, {} as never)).rejects.toThrow(start)
    await expect(shift.enqueueMany(part as never, [])).rejects.toThrow(start)
    await expect(shift.result(part as never, "x")).rejects.toThrow(
      `${what}read the result of an execution with shift.execution(workflow, key).result()`
    )
    expect(() => child(part as never, {} as never)).toThrow(`${what}call the workflow itself with the payload`)
    const { id } = await shift.enqueue(relay, null, { attempts: 1 })
    await shift.settle()
    expect((await shift.job(id)).lastError).toContain(start)
  })
})
