import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { type ExecutionHandle, job, type StartedExecution, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

const payload = z.object({ id: z.string() })
const key = (order: { id: string }) => order.id
const signals = { approval: z.object({ by: z.string(), at: z.coerce.date() }), stop: z.null() }

const order = workflow("order", { payload, key, signals }, async ({ id }, step) => {
  const { at, by } = await step.waitFor("approval")
  return `${id} by ${by} in ${at.getUTCFullYear()}`
})

describe("the handle of an execution", () => {
  it("comes from a start, or from a key without a request", async () => {
    await using shift = await testShift({ handlers: [order] })
    const early = shift.execution(order, "A")
    await expect(early.status()).rejects.toMatchObject({ code: "EXECUTION_NOT_FOUND" })
    expect(await early.signal("approval", { by: "ada", at: new Date("2026-05-01") })).toBe("completed")
    const run = await shift.start(order, { id: "A" })
    expect(run).toMatchObject({ key: "A", execution: "order/A", outcome: "started" })
    expect(await run.result()).toBe("A by ada in 2026")
    expect(await early.result()).toBe("A by ada in 2026")
    expect(await early.status()).toMatchObject({ id: run.id, state: "done", workflow: "order" })
    const again = await shift.start(order, { id: "A" })
    expect([again.id, again.outcome]).toEqual([run.id, "existing"])
  })

  it("is of the shift that made it, however many are open", async () => {
    await using one = await testShift({ handlers: [order] })
    await using two = await testShift({ handlers: [order] })
    const run = await two.start(order, { id: "A" })
    expect([await one.workflows.count(), await two.workflows.count()]).toEqual([0, 1])
    await run.signal("approval", { by: "eve", at: "2027-01-01" })
    expect(await run.result()).toBe("A by eve in 2027")
  })

  it("may be found by the id of its job, as in the path of a URL", async () => {
    await using shift = await testShift({ handlers: [order] })
    const { id } = await shift.start(order, { id: "A" })
    const found = shift.execution(order, id)
    expect(await found.signal("approval", { by: "ada", at: "2026-01-01" })).toBe("completed")
    expect(await found.result()).toBe("A by ada in 2026")
  })

  it("has the types of the workflow's result and signals", () => {
    expectTypeOf<Parameters<typeof order>>().toEqualTypeOf<[payload: { id: string }]>()
    const types = (run: StartedExecution<string, typeof signals>) => {
      expectTypeOf(run.result()).toEqualTypeOf<Promise<string>>()
      const sent = [run.signal("stop"), run.signal("stop", null), run.signal("approval#2", { by: "a", at: 1 })]
      // @ts-expect-error: it has no such signal.
      sent.push(run.signal("aproval", { by: "ada", at: 1 }))
      // @ts-expect-error: the value is missing.
      sent.push(run.signal("approval"))
      // @ts-expect-error: the value is of another type.
      sent.push(run.signal("approval", { by: 7, at: 1 }))
      return sent
    }
    const untyped = (run: ExecutionHandle) => [run.signal("any"), run.signal("other", { by: 7 })]
    expect([types, untyped]).toHaveLength(2)
  })

  it("is refused for what is not a workflow, and for what is not a key", async () => {
    await using shift = await testShift({ handlers: [order] })
    const mail = job("mail", { payload })
    await expect(shift.start(mail as never, { id: "A" })).rejects.toThrow(
      '"mail" is a job, not a workflow: store it with shift.enqueue.'
    )
    expect(() => shift.execution(undefined as never, "A")).toThrow(
      "The first argument of execution must be a workflow that workflow(…) returned, got undefined."
    )
    expect(() => shift.execution(order, "order/A")).toThrow('"order/A" is the id of an execution. Pass its key: "A".')
    await expect(shift.enqueue(order as never, { id: "A" })).rejects.toThrow(
      '"order" is a workflow, not a job: start an execution with shift.start(workflow, payload).'
    )
    const run = await shift.start(order, { id: "A" })
    await expect(run.cancel({ fast: true } as never)).rejects.toThrow("fast is not an option of cancel: use now.")
    await expect(run.fork("charge", { key: "B" } as never)).rejects.toThrow("key is not an option of fork: use as.")
  })
})
