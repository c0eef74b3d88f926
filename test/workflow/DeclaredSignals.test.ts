import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { InvalidSignalError, type Step, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

const payload = z.object({ id: z.string() })
const key = (order: { id: string }) => order.id
const signals = { approval: z.object({ by: z.string() }), "price#1": z.number().default(7), when: z.coerce.date() }

describe("declared signals", () => {
  it("have the types of their validators where they are received", () => {
    const order = workflow("order", { payload, key, signals }, async (_, step) => {
      expectTypeOf(step).toEqualTypeOf<Step<typeof signals, { id: string }>>()
      expectTypeOf(await step.waitFor("approval")).toEqualTypeOf<{ by: string }>()
      expectTypeOf(await step.waitFor("when", { timeout: "1d" })).toEqualTypeOf<Date | undefined>()
      // @ts-expect-error: the workflow does not declare it.
      await step.waitFor("review")
      // @ts-expect-error: the validator is declared.
      await step.waitFor("approval", { schema: signals.when })
    })
    expectTypeOf(order).toBeFunction()
  })

  it("are validated by the sender: an invalid value is not stored", async () => {
    const order = workflow("order", { payload, key, signals }, async (_, step) => {
      const { by } = await step.waitFor("approval")
      const second = await step.waitFor("approval")
      const when = await step.waitFor("when")
      return `${by}, ${second.by}, ${when.toISOString().slice(0, 10)}`
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    const error = await run.signal("approval", { by: 7 } as never).catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(InvalidSignalError)
    expect(error).toMatchObject({
      code: "INVALID_SIGNAL",
      workflow: "order",
      signal: "approval",
      issues: [{ path: ["by"] }],
      message: expect.stringMatching(
        /^The value of the signal "approval" of the workflow "order" is invalid: value\.by: .+\. Nothing was sent\.$/
      )
    })
    await expect(run.signal("approval#2", {} as never)).rejects.toBeInstanceOf(InvalidSignalError)
    expect((await run.status()).deferreds.filter(({ completedAt }) => completedAt !== undefined)).toEqual([])
    expect(await run.signal("approval", { by: "ada" })).toBe("completed")
    expect(await run.signal("approval#2", { by: "eve" })).toBe("completed")
    // Stored as JSON, and decoded where it is received.
    expect(await run.signal("when", new Date("2026-05-01"))).toBe("completed")
    expect(await run.result()).toBe("ada, eve, 2026-05-01")
  })

  it("refuse other names, at the sender and in the code, with the declared ones", async () => {
    const order = workflow("order", { payload, key, signals }, async (_, step) => {
      const wait = step.waitFor as (name: string, options?: object) => Promise<unknown>
      const messageOf = (error: Error) => error.message
      return [await wait("aproval").catch(messageOf), await wait("approval", { schema: signals.when }).catch(messageOf)]
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    const refusal =
      '"aproval" is not a signal of the workflow "order": it declares approval, price#1 or when. Did you mean approval?'
    await expect(run.signal("aproval" as "when", 1)).rejects.toThrow(refusal)
    expect(await run.signal("price#1", 1)).toBe("completed")
    expect(await run.result()).toEqual([
      refusal,
      '"approval" is a declared signal with a validator: remove the option schema.'
    ])
  })

  it("are refused in a definition that is no object of validators", () => {
    const define = (given: unknown) => () => workflow("order", { payload, signals: given as never }, async () => {})
    expect(define([])).toThrow('signals of "order" must be an object of validators by name')
    expect(define({ approval: { by: "string" } })).toThrow(
      /^signals\.approval of "order" must be a Standard Schema validator/
    )
  })

  it("let an operator's invalid value fail the step, which a retry waits for again", async () => {
    const order = workflow("order", { payload, key, signals }, async (_, step) => (await step.waitFor("approval")).by)
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.workflows.signal(run.execution, "approval", "ada")
    await expect(run.result()).rejects.toThrow('The value of the signal "approval" is invalid')
    await run.retry()
    await run.signal("approval", { by: "ada" })
    expect(await run.result()).toBe("ada")
  })
})
