import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { onceValidator } from "../support/OnceValidator.js"

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }

/** Takes messages until one is "end". */
const chat = workflow("chat", { ...settings, signals: { message: z.string() } }, async (_, step) => {
  const taken: Array<string> = []
  for (;;) {
    const message = await step.next("message")
    if (message === "end") return taken
    taken.push(message)
  }
})

describe("a mailbox", () => {
  it("gives the values of a signal one after another, in the order of their arrival, each once", async () => {
    await using shift = await testShift({ handlers: [chat] })
    const run = shift.execution(chat, "1")
    expect(await run.signal("message", "a")).toBe("completed")
    expect(await run.signal("message", "b")).toBe("appended")
    await shift.start(chat, { id: "1" })
    await shift.settle()
    expect(await run.signal("message", "c")).toBe("appended")
    await shift.crash()
    for (const message of ["d", "end", "late"]) await run.signal("message", message)
    await shift.advance("2h")
    expect(await run.result()).toEqual(["a", "b", "c", "d"])
    const { steps, unclaimed } = await run.status()
    expect(steps.map(({ kind, name }) => `${kind} ${name}`)).toEqual([
      "message next:message",
      "message next:message#2",
      "message next:message#3",
      "message next:message#4",
      "message next:message#5"
    ])
    expect(unclaimed).toEqual(["message"])
  })

  it("does not give a value twice that was sent twice with the same id", async () => {
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "1" })
    expect(await run.signal("message", "a", { id: "m1" })).toBe("completed")
    expect(await run.signal("message", "a", { id: "m1" })).toBe("repeated")
    expect(await run.signal("message", "b", { id: "m2" })).toBe("appended")
    expect(await run.signal("message", "b", { id: "m2" })).toBe("repeated")
    await run.signal("message", "end")
    expect(await run.result()).toEqual(["a", "b"])
    await expect(run.signal("message", "x", { ids: "m3" } as never)).rejects.toMatchObject({ code: "INVALID_OPTION" })
  })

  it("is separate from waitFor, which returns the first value and takes none", async () => {
    const both = workflow("both", settings, async (_, step) => {
      const [first, second] = [await step.next<string>("m"), await step.waitFor<string>("m")]
      return [first, second, await step.next("m"), await step.waitFor("m", { timeout: "1h" })]
    })
    await using shift = await testShift({ handlers: [both] })
    const run = await shift.start(both, { id: "1" })
    await shift.settle()
    await run.signal("m", 1)
    await shift.settle()
    await run.signal("m", 2)
    expect(await run.result()).toEqual([1, 1, 2, null])
  })

  it("gives values to concurrent calls in the order of the calls", async () => {
    const pair = workflow("pair", settings, async (_, step) =>
      Promise.all([step.next("m"), step.next("m"), step.next("n")])
    )
    await using shift = await testShift({ handlers: [pair] })
    const run = await shift.start(pair, { id: "1" })
    await shift.settle()
    for (const [name, value] of [
      ["n", 9],
      ["m", 1],
      ["m", 2]
    ] as const) {
      await run.signal(name, value)
      await shift.settle()
    }
    expect(await run.result()).toEqual([1, 2, 9])
  })

  it("times out without taking a value, which the next call gets", async () => {
    const patient = workflow("patient", settings, async (_, step) => {
      const taken: Array<unknown> = []
      for (let call = 0; call < 4; call += 1) taken.push((await step.next("m", { timeout: "1h" })) ?? "none")
      return taken
    })
    await using shift = await testShift({ handlers: [patient] })
    const run = await shift.start(patient, { id: "1" })
    await shift.advance("90m")
    await run.signal("m", 1)
    await shift.advance("59m")
    expect((await run.status()).waits).toMatchObject([{ kind: "message", name: "next:m#3" }])
    await shift.crash()
    await shift.advance("30m")
    await run.signal("m", 2)
    expect(await run.result()).toEqual(["none", 1, "none", 2])
  })

  it("validates each value where it is received: an invalid one is taken, and fails only its own call", async () => {
    const numbers = workflow("numbers", settings, async (_, step) => {
      const refused = await step.next("n", { schema: z.number() }).catch((error: Error) => error.message)
      return [refused, await step.next("n", { schema: z.number() })]
    })
    await using shift = await testShift({ handlers: [numbers] })
    const run = await shift.start(numbers, { id: "1" })
    await run.signal("n", "one")
    await run.signal("n", 2)
    expect(await run.result()).toEqual([
      expect.stringMatching(
        /^The value of the signal "n" is invalid: .*a retry of the execution waits for the next value/
      ),
      2
    ])
  })

  it("after a retry gives the failed call the next value", async () => {
    const numbers = workflow("numbers", settings, async (_, step) => {
      const first = await step.next("n", { schema: z.number() })
      return [first, await step.next("n", { schema: z.number() })]
    })
    await using shift = await testShift({ handlers: [numbers] })
    const run = await shift.start(numbers, { id: "1" })
    for (const value of ["bad", 1, 2]) await run.signal("n", value)
    await expect(run.result()).rejects.toMatchObject({ code: "JOB_DEAD" })
    await run.retry()
    expect(await run.result()).toEqual([1, 2])
  })

  it("of a fork has the values that were not taken before the step", async () => {
    await using shift = await testShift({ handlers: [chat] })
    const run = await shift.start(chat, { id: "1" })
    for (const value of ["a", "b", "end"]) await run.signal("message", value)
    expect(await run.result()).toEqual(["a", "b"])
    const fork = await run.fork("next:message#2")
    expect(await fork.result()).toEqual(["a", "b"])
  })

  it("goes on after the execution has continued with a new journal, with the values that are left", async () => {
    const payload = z.object({ id: z.string(), taken: z.array(z.string()).default([]) })
    const endless = workflow(
      "endless",
      { payload, key: ({ id }) => id },
      async ({ id, taken }, step): Promise<unknown> => {
        const two = [await step.next<string>("m"), await step.next<string>("m")]
        if (taken.length === 4) return [...taken, ...two]
        return step.continueAs({ id, taken: [...taken, ...two] })
      }
    )
    await using shift = await testShift({ handlers: [endless] })
    const run = await shift.start(endless, { id: "1" })
    for (const value of ["a", "b", "c"]) await run.signal("m", value, { id: value })
    await shift.settle()
    expect(await run.signal("m", "c", { id: "c" })).toBe("repeated")
    for (const value of ["d", "e", "f"]) await run.signal("m", value)
    expect(await run.result()).toEqual(["a", "b", "c", "d", "e", "f"])
  })

  it("can be read by an undo, in a cancelled and in a failed execution", async () => {
    const seen: Array<unknown> = []
    const careful = workflow("careful", settings, async ({ id }, step) => {
      await step.run("charge", () => 1, { undo: async () => void seen.push(await step.next("reason")) })
      if (id === "fails") throw new Error("no")
      await step.next("reason")
    })
    await using shift = await testShift({ handlers: [careful] })
    const failing = await shift.start(careful, { id: "fails" })
    const cancelled = await shift.start(careful, { id: "cancelled" })
    await shift.settle()
    await cancelled.cancel()
    await shift.settle()
    await failing.signal("reason", "f")
    await cancelled.signal("reason", "c")
    await shift.settle()
    expect(seen.toSorted()).toEqual(["c", "f"])
    expect((await failing.status()).state).toBe("failed")
    expect((await cancelled.status()).state).toBe("cancelled")
  })

  it("has the types of the declared signals", () => {
    workflow("typed", { ...settings, signals: { message: z.string() } }, async (_, step) => {
      expectTypeOf(step.next("message")).resolves.toEqualTypeOf<string>()
      expectTypeOf(step.next("message", { timeout: "1h" })).resolves.toEqualTypeOf<string | undefined>()
      // @ts-expect-error the name is not declared
      void (() => step.next("other"))
    })
  })
})

describe("a value that is received", () => {
  it("may have 64 KiB", async () => {
    const long = workflow("long", settings, async (_, step) => [
      (await step.waitFor<string>("text")).length,
      (await step.next<string>("text")).length,
      (await step.next<string>("text")).length
    ])
    await using shift = await testShift({ handlers: [long] })
    const run = await shift.start(long, { id: "1" })
    await run.signal("text", "x".repeat(65_534))
    await shift.crash()
    await run.signal("text", "x")
    expect(await run.result()).toEqual([65_534, 65_534, 1])
    await expect(run.signal("text", "x".repeat(65_535))).rejects.toThrow("65536")
  })

  it("is given although its validator, which is asynchronous, rejects when it is not awaited", async () => {
    const { calls, schema } = onceValidator()
    const order = workflow("order", settings, async (_, step) => step.next("text", { schema }))
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "1" })
    await run.signal("text", "a")
    expect(await run.result()).toBe("a")
    expect(calls()).toBeGreaterThan(1)
  })
})

describe("values that an execution sets", () => {
  const staged = workflow("staged", settings, async (_, step) => {
    await step.set("stage", "started")
    await step.run("work", () => 1)
    await step.set("stage", "waits")
    await step.set("count", { items: 2 })
    await step.waitFor("go")
    await step.set("stage", undefined)
  })

  it("are the last of each name, read by name and with the status", async () => {
    await using shift = await testShift({ handlers: [staged] })
    const run = await shift.start(staged, { id: "1" })
    expect(await run.get("stage")).toBeUndefined()
    await shift.settle()
    expect(await run.get("stage")).toBe("waits")
    expect(await run.get("toString")).toBeUndefined()
    expect((await run.status()).values).toEqual({ stage: "waits", count: { items: 2 } })
    await run.signal("go")
    await run.result()
    expect(await run.get("stage")).toBeNull()
    await expect(shift.execution(staged, "none").get("stage")).rejects.toMatchObject({ code: "EXECUTION_NOT_FOUND" })
  })

  it("are bounded in size and number", async () => {
    const large = workflow("large", settings, async ({ id }, step) => {
      if (id === "size") await step.set("text", "x".repeat(5_000))
      for (let index = 0; index <= 100; index += 1) await step.set(`name ${index}`, index)
    })
    await using shift = await testShift({ handlers: [large] })
    const results = await Promise.allSettled(
      ["size", "number"].map(async (id) => (await shift.start(large, { id })).result())
    )
    expect(results.map((each) => String((each as PromiseRejectedResult).reason))).toEqual([
      expect.stringContaining('The value of "text" must be at most 4096 bytes as JSON'),
      expect.stringContaining('"name 100" is one name too many: an execution sets at most 100 names.')
    ])
  })

  it("can be added to and removed from the code of an execution that waits", async () => {
    for (const [from, to] of [
      [[], ["before", "after"]],
      [["before", "after"], []]
    ] as const) {
      let marks: ReadonlyArray<string> = from
      const current = workflow("marked", settings, async (_, step) => {
        if (marks.includes("before")) await step.set("before", 1)
        await step.run("work", () => 1)
        if (marks.includes("after")) await step.set("after", 1)
        await step.waitFor("go")
        return "done"
      })
      await using shift = await testShift({ handlers: [current], allowChanged: true })
      const run = await shift.start(current, { id: "1" })
      await shift.settle()
      marks = to
      await run.signal("go")
      expect(await run.result({ timeout: "1m" })).toBe("done")
    }
  })

  it("can be added with a name that is set again later", async () => {
    let isNew = false
    const current = workflow("restaged", settings, async (_, step) => {
      await step.set("stage", "starts")
      if (isNew) await step.set("stage", "charges")
      await step.run("charge", () => 1)
      await step.set("stage", "waits")
      await step.waitFor("go")
      await step.set("stage", "ends")
      return "done"
    })
    await using shift = await testShift({ handlers: [current], allowChanged: true })
    const run = await shift.start(current, { id: "1" })
    await shift.settle()
    isNew = true
    await run.signal("go")
    expect(await run.result({ timeout: "1m" })).toBe("done")
    expect(await run.get("stage")).toBe("ends")
  })
})
