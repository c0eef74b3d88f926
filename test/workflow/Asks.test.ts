import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { onceValidator } from "../support/OnceValidator.js"

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }
const asks = {
  add: { payload: z.object({ item: z.string() }), result: z.number() },
  close: {}
}

/** Collects items until it is closed. Records each total, so that a replay that differs is noticed. */
const cart = workflow("cart", { ...settings, asks }, async (_, step) => {
  const items: Array<string> = []
  let isOpen = true
  let closed = () => {}
  const end = new Promise<void>((resolve) => {
    closed = resolve
  })
  step.answer("add", ({ item }) => {
    if (item === "bomb") throw new RangeError("no bombs")
    items.push(item)
    return items.length
  })
  step.answer("close", () => {
    isOpen = false
    closed()
    return "closed"
  })
  await end
  return { items, isOpen }
})

describe("an ask", () => {
  it("calls the handler in the execution and returns its answer, which wakes an execution that waits", async () => {
    await using shift = await testShift({ handlers: [cart] })
    const run = await shift.start(cart, { id: "1" })
    expect(await run.ask("add", { item: "book" })).toBe(1)
    expect((await run.status()).state).toBe("waiting")
    await shift.crash()
    expect(await run.ask("add", { item: "pen" })).toBe(2)
    expect(await run.ask("close")).toBe("closed")
    expect(await run.result()).toEqual({ items: ["book", "pen"], isOpen: false })
    const { steps } = await run.status()
    expect(steps.map(({ kind }) => kind)).toEqual(["ask", "ask", "ask"])
  })

  it("before the first run is answered by it", async () => {
    await using shift = await testShift({ handlers: [cart] })
    const run = await shift.start(cart, { id: "1" })
    const answers = await Promise.all([run.ask("add", { item: "a" }), run.ask("add", { item: "b" })])
    expect(answers.toSorted()).toEqual([1, 2])
  })

  it("whose handler throws rejects with its error, and the execution goes on", async () => {
    await using shift = await testShift({ handlers: [cart] })
    const run = await shift.start(cart, { id: "1" })
    await expect(run.ask("add", { item: "bomb" })).rejects.toMatchObject({
      name: "AskFailedError",
      code: "ASK_FAILED",
      error: "RangeError",
      reason: "no bombs",
      message: 'Execution "cart/1" refused the ask "add": no bombs'
    })
    expect(await run.ask("add", { item: "book" })).toBe(1)
  })

  it("is validated by the caller, and again in the execution", async () => {
    await using shift = await testShift({ handlers: [cart] })
    const run = await shift.start(cart, { id: "1" })
    await expect(run.ask("add", { item: 7 } as never)).rejects.toMatchObject({ code: "INVALID_ASK", ask: "add" })
    await expect(run.ask("remove" as never, {} as never)).rejects.toThrow(
      '"remove" is not an ask of the workflow "cart": it declares add or close.'
    )
    // Another sender does not know the validators.
    const blind = workflow("cart", settings, async () => {})
    await expect(shift.execution(blind, "1").ask("add", { item: 7 })).rejects.toMatchObject({
      code: "ASK_FAILED",
      message: expect.stringContaining("The value is invalid: value.item:")
    })
    expect((await run.status()).steps).toEqual([])
  })

  it("of an execution that has ended is refused, and one that ends first is not answered", async () => {
    const short = workflow("short", settings, async (_, step) => {
      await step.waitFor("go")
    })
    await using shift = await testShift({ handlers: [short] })
    await expect(shift.execution(short, "1").ask("add")).rejects.toMatchObject({ code: "EXECUTION_NOT_FOUND" })
    const run = await shift.start(short, { id: "1" })
    const asking = run.ask("add", 1, { timeout: "1h" })
    await Promise.all([
      run.signal("go"),
      expect(asking).rejects.toMatchObject({
        code: "ASK_NOT_ANSWERED",
        message: 'Execution "short/1" ended before it answered the ask "add".'
      })
    ])
    await expect(run.ask("add")).rejects.toMatchObject({
      code: "EXECUTION_ENDED",
      state: "done",
      message: 'Execution "short/1" is done: only an execution that has not ended answers asks.'
    })
  })

  it("that no handler answers times out, and can be repeated with its id", async () => {
    const late = workflow("late", settings, async (_, step) => {
      await step.sleep("first", "1h")
      let count = 0
      step.answer("count", () => (count += 1))
      await step.waitFor("go")
    })
    await using shift = await testShift({ handlers: [late] })
    const run = await shift.start(late, { id: "1" })
    await expect(run.ask("count", null, { timeout: "10s", id: "q1" })).rejects.toMatchObject({
      code: "ASK_TIMED_OUT",
      id: "q1",
      timeout: 10_000,
      message: expect.stringContaining('ask again with the id "q1" to wait for its answer')
    })
    await shift.advance("1h")
    expect(await run.ask("count", null, { id: "q1" })).toBe(1)
    expect(await run.ask("count", null, { id: "q1" })).toBe(1)
    expect(await run.ask("count")).toBe(2)
  })

  it("is delivered at the same place among other results in every run", async () => {
    const log = workflow("log", settings, async (_, step) => {
      const seen: Array<string> = []
      step.answer("note", (text) => {
        seen.push(String(text))
        return seen.length
      })
      for (let message = await step.next<string>("m"); message !== "end"; message = await step.next<string>("m")) {
        seen.push(message)
        await step.run("show", () => 0)
        // Recorded: a replay that delivers in another order has another value here.
        const all = seen.join()
        await step.run(`saw ${all}`, () => all)
      }
      return seen
    })
    await using shift = await testShift({ handlers: [log] })
    const run = await shift.start(log, { id: "1" })
    await run.signal("m", "1")
    await run.ask("note", "a")
    await run.signal("m", "2")
    await run.signal("m", "3")
    await run.ask("note", "b")
    await run.signal("m", "end")
    const seen = (await run.result()) as ReadonlyArray<string>
    expect(seen.toSorted()).toEqual(["1", "2", "3", "a", "b"])
    expect(seen[1]).toBe("a")
  })

  it("may use steps in its handler, and is answered when they are recorded", async () => {
    let runs = 0
    const busy = workflow("busy", settings, async (_, step) => {
      step.answer("work", async (n) => {
        const done = await step.run("work", () => {
          runs += 1
          return Number(n) * 2
        })
        await step.sleep("rest", "1h")
        return done
      })
      await step.waitFor("go")
    })
    await using shift = await testShift({ handlers: [busy] })
    const run = await shift.start(busy, { id: "1" })
    expect(await run.ask("work", 4, { timeout: "2h" })).toBe(8)
    expect(runs).toBe(1)
    await run.signal("go")
    await run.result()
  })

  it("of a cancelled execution is not answered", async () => {
    await using shift = await testShift({ handlers: [cart] })
    const run = await shift.start(cart, { id: "1" })
    await run.ask("add", { item: "book" })
    await run.cancel()
    await expect(run.ask("add", { item: "pen" })).rejects.toMatchObject({
      code: expect.stringMatching(/ASK_NOT_ANSWERED|EXECUTION_ENDED/)
    })
  })

  it("with an answer that has no JSON form is an error for the caller only", async () => {
    const odd = workflow("odd", settings, async (_, step) => {
      step.answer("big", () => "x".repeat(70_000))
      step.answer("function", () => () => 1)
      await step.waitFor("go")
      return "went on"
    })
    await using shift = await testShift({ handlers: [odd] })
    const run = await shift.start(odd, { id: "1" })
    await expect(run.ask("big")).rejects.toMatchObject({ code: "ASK_FAILED", reason: expect.stringContaining("65536") })
    await expect(run.ask("function")).rejects.toMatchObject({ code: "ASK_FAILED" })
    await run.signal("go")
    expect(await run.result()).toBe("went on")
  })

  it("whose validator throws is an error for the caller only", async () => {
    const visits = workflow(
      "visits",
      { ...settings, asks: { visit: { payload: z.string().transform((text) => new URL(text).host) } } },
      async (_, step) => {
        step.answer("visit", (host) => host)
        await step.waitFor("go")
      }
    )
    await using shift = await testShift({ handlers: [visits] })
    const run = await shift.start(visits, { id: "1" })
    const untyped = workflow("visits", settings, async () => {})
    const blind = shift.execution(untyped, "1")
    await expect(blind.ask("visit", "nowhere")).rejects.toMatchObject({
      code: "ASK_FAILED",
      error: "TypeError",
      reason: expect.stringContaining("Invalid URL")
    })
    expect(await blind.ask("visit", "https://example.com/a")).toBe("example.com")
    expect(await run.status()).toMatchObject({ state: "waiting", steps: [{ kind: "ask" }] })
  })

  it("whose asynchronous validator returns too much is an error for the caller only", async () => {
    const payload = z.string().transform(async (text) => text.repeat(70_000))
    const long = workflow("long", { ...settings, asks: { measure: { payload } } }, async (_, step) => {
      step.answer("measure", (text) => text.length)
      await step.waitFor("go")
    })
    await using shift = await testShift({ handlers: [long] })
    const run = await shift.start(long, { id: "1" })
    await expect(run.ask("measure", "x")).rejects.toMatchObject({
      code: "ASK_FAILED",
      reason: "The output of the validator must be at most 65536 bytes as JSON, got 70002."
    })
    expect(await run.ask("measure", "")).toBe(0)
  })

  it("is handled although its validator, which is asynchronous, rejects when it is not awaited", async () => {
    const { calls, schema: once } = onceValidator()
    const visits = workflow("visits", { ...settings, asks: { visit: { payload: once } } }, async (_, step) => {
      step.answer("visit", (text) => text)
      await step.waitFor("go")
    })
    await using shift = await testShift({ handlers: [visits] })
    await shift.start(visits, { id: "1" })
    const untyped = workflow("visits", settings, async () => {})
    expect(await shift.execution(untyped, "1").ask("visit", "a")).toBe("a")
    expect(calls()).toBeGreaterThan(1)
  })

  it("may have a value of 64 KiB", async () => {
    const long = workflow("long", settings, async (_, step) => {
      step.answer("measure", (text) => String(text).length)
      await step.waitFor("go")
    })
    await using shift = await testShift({ handlers: [long] })
    const run = await shift.start(long, { id: "1" })
    expect(await run.ask("measure", "x".repeat(65_534))).toBe(65_534)
    await shift.crash()
    expect(await run.ask("measure", "x")).toBe(1)
    await expect(run.ask("measure", "x".repeat(65_535))).rejects.toThrow("65536")
  })

  it("is answered once although the execution continues with a new journal at once", async () => {
    const rounds: Array<number> = []
    const payload = z.object({ id: z.string(), round: z.number() })
    const loop = workflow("loop", { payload, key: ({ id }) => id }, async ({ id, round }, step) => {
      await new Promise<void>((resolve) => {
        step.answer("turn", () => {
          rounds.push(round)
          resolve()
          return round
        })
      })
      return step.continueAs({ id, round: round + 1 })
    })
    await using shift = await testShift({ handlers: [loop], allowChanged: true })
    const run = await shift.start(loop, { id: "1", round: 0 })
    expect(await run.ask("turn", null, { id: "a" })).toBe(0)
    await shift.settle()
    expect((await run.status()).continued).toBe(1)
    expect(await run.ask("turn", null, { id: "a" })).toBe(0)
    expect(await run.ask("turn", null, { id: "b" })).toBe(1)
    expect([...new Set(rounds)]).toEqual([0, 1])
  })

  it("has the types of the declared asks", async () => {
    const typed = workflow("typed", { ...settings, asks }, async (_, step) => {
      // @ts-expect-error the name is not declared
      void (() => step.answer("other", () => {}))
      // @ts-expect-error the result must be a number
      void (() => step.answer("add", () => "text"))
    })
    await using shift = await testShift({ handlers: [typed] })
    const run = shift.execution(typed, "1")
    expectTypeOf(run.ask<"add">).returns.resolves.toEqualTypeOf<number>()
    expectTypeOf(run.ask<"add">)
      .parameter(1)
      .toEqualTypeOf<{ item: string }>()
    expect(() => workflow("bad", { ...settings, asks: { add: z.string() } as never }, async () => {})).toThrow(
      'asks.add of "bad" must be an object like { payload: schema, result: schema }'
    )
  })

  it("whose function waits does not keep the execution from ending", async () => {
    let open = () => {}
    const packed = new Promise<void>((resolve) => {
      open = resolve
    })
    const order = workflow("order", { ...settings, asks: { quote: {} } }, async (_, step) => {
      step.answer("quote", async () => step.waitFor("price"))
      await step.waitFor("checkout")
      await step.run("pack", () => packed)
      return "packed"
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "1" })
    const asking = run.ask("quote", undefined, { timeout: "1h" }).catch((error: Error) => error.name)
    await shift.settle()
    await run.signal("checkout")
    await shift.settle()
    open()
    await shift.settle()
    expect(await run.status()).toMatchObject({ state: "done", result: "packed" })
    expect(await asking).toBe("AskNotAnsweredError")
  })
})
