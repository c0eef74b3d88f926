import { describe, expect, it } from "vitest"
import { z } from "zod"
import { NestedStepError, type Step, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Steps that are called in the code of another step, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: (order: { id: string }) => order.id }

const later = () => new Promise((resolve) => setImmediate(resolve))

const calls: Readonly<Record<string, (step: Step) => Promise<unknown>>> = {
  run: (step) => step.run("inner", () => "inner"),
  "run, after an await": async (step) => {
    await later()
    return step.run("inner", () => "inner")
  },
  transaction: (step) => step.runInTransaction("inner", () => "inner"),
  sleep: (step) => step.sleep("inner", "1h"),
  waitFor: (step) => step.waitFor("inner"),
  patched: (step) => step.patched("inner")
}

describe("a step in the code of another step", () => {
  for (const [name, call] of Object.entries(calls)) {
    it(`is refused at the call and fails the outer step at once: ${name}`, async () => {
      let tries = 0
      const errors: Array<unknown> = []
      const order = workflow("order", settings, async (_, step) =>
        step.run(
          "outer",
          async () => {
            tries += 1
            const inner = await call(step).catch((error: unknown) => {
              errors.push(error)
              throw error
            })
            if (tries < 2) throw new Error("the first try fails")
            return inner
          },
          { attempts: 3, backoff: "1s" }
        )
      )
      await using shift = await testShift({ handlers: [order] })
      await shift.start(order, { id: "A" })
      await shift.drain()
      const { lastError, state, steps } = await shift.execution(order, "A").status()
      expect([state, tries, steps.map((each) => each.name)]).toEqual(["failed", 1, ["outer"]])
      expect(lastError).toContain('a step cannot start another step: step "outer" called "inner"')
      expect(errors).toEqual([expect.any(NestedStepError)])
      expect(errors[0]).toMatchObject({ code: "NESTED_STEP", step: "outer", inner: "inner" })
    })
  }

  it("is refused even if the outer step returned no promise before", async () => {
    const order = workflow("order", settings, async ({ id }, step) =>
      step.run("outer", () => (id === "A" ? id : step.run("inner", () => id)), { attempts: 1 })
    )
    await using shift = await testShift({ handlers: [order] })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.start(order, { id: "B" })
    await shift.settle()
    expect((await shift.execution(order, "A").status()).state).toBe("done")
    expect((await shift.execution(order, "B").status()).lastError).toContain('step "outer" called "inner"')
  })

  it("is refused inside a transactional step, and inside a step of an undo", async () => {
    const order = workflow("order", settings, async ({ id }, step) => {
      if (id === "transaction") await step.runInTransaction("outer", () => step.run("inner", () => 1))
      await step.run("charge", () => 1, {
        attempts: 1,
        undo: () => step.run("refund", () => step.run("inner", () => 1))
      })
      throw new Error("failed")
    })
    await using shift = await testShift({ handlers: [order] })
    for (const id of ["transaction", "undo"]) await shift.start(order, { id })
    await shift.drain()
    expect((await shift.execution(order, "transaction").status()).lastError).toContain('step "outer" called "inner"')
    expect((await shift.execution(order, "undo").status()).lastError).toContain(
      'step "undo:charge/refund" called "inner"'
    )
  })

  it("is not mistaken for steps side by side, steps of an undo, or steps of another execution", async () => {
    const undone: Array<string> = []
    const other = workflow("other", settings, async (_, step) => step.run("inner", later).then(() => "other"))
    const order = workflow("order", settings, async (_, step) => {
      const beside = async () => {
        await step.run("first", later)
        await step.run("second", later)
      }
      await Promise.all([step.run("long", () => later().then(later).then(later)), beside()])
      await step.run("start", async () => {
        await shift.start(other, { id: "B" })
        return shift.execution(other, "B").result()
      })
      await step.run("charge", () => "paid", {
        undo: async () => {
          await step.run("refund", () => void undone.push("refund"))
          await step.sleep("a while", "1h")
          await step.run("report", () => void undone.push("report"))
        }
      })
      throw new Error("failed")
    })
    await using shift = await testShift({ handlers: [order, other] })
    await shift.start(order, { id: "A" })
    await shift.drain()
    expect(undone).toEqual(["refund", "report"])
    expect((await shift.execution(order, "A").status()).lastError).toBe("failed")
    expect((await shift.execution(other, "B").status()).state).toBe("done")
  })
})
