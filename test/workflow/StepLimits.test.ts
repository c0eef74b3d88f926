import { describe, expect, it } from "vitest"
import { z } from "zod"
import { RateLimit, type StepOptions, workflow } from "../../src/client/index.js"
import { type AttemptHost, StepAttempts } from "../../src/client/workflow/StepAttempts.js"
import { testShift } from "../../src/testing/index.js"

// Limits of steps over the cluster, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }
const mailer = RateLimit.make("mailer", { capacity: 2, rate: { tokens: 1, per: "1m" } })

describe("the rate limit of a step", () => {
  it("suspends the execution until there is a token, without a slot", async () => {
    const sent: Array<string> = []
    const order = workflow("order", settings, ({ id }, step) =>
      step.run("send", () => void sent.push(`${id} ${Math.round(shift.now().getTime() / 60_000)}`), { limit: mailer })
    )
    await using shift = await testShift({ handlers: [order], limits: [mailer], slots: 1 })
    for (const id of ["A", "B", "C", "D"]) await shift.start(order, { id })
    await shift.settle()
    expect(sent).toEqual(["A 0", "B 0"])
    const waiting = await shift.execution(order, "C").status()
    expect(waiting).toMatchObject({ state: "waiting", waits: [{ kind: "limit", name: "send", value: "mailer" }] })
    expect(await shift.why(waiting.id)).toMatchObject({
      reason: "rate_limited",
      detail: 'Its step "send" waits for its limit.'
    })
    await shift.drain()
    expect(sent).toEqual(["A 0", "B 0", "C 1", "D 2"])
    expect(await shift.job((await shift.execution(order, "D").status()).id)).toMatchObject({ attempt: 1, history: [] })
  })

  it("takes a token for each attempt", async () => {
    const attempts: Array<number> = []
    const order = workflow("order", settings, (_, step) =>
      step.run(
        "send",
        ({ attempt }) => {
          attempts.push(shift.now().getTime() / 60_000)
          if (attempt < 4) throw new Error("again")
        },
        { limit: mailer, backoff: "1ms" }
      )
    )
    await using shift = await testShift({ handlers: [order], limits: [mailer] })
    await (await shift.start(order, { id: "A" })).result()
    expect(attempts.map(Math.floor)).toEqual([0, 0, 1, 2])
  })

  it("fails the step if it is not declared", async () => {
    const order = workflow("order", settings, (_, step) =>
      step.run("send", () => 1, { limit: RateLimit.make("other", { capacity: 1, rate: 1 }), attempts: 1 })
    )
    await using shift = await testShift({ handlers: [order], limits: [mailer] })
    await expect((await shift.start(order, { id: "A" })).result()).rejects.toThrow('Limit "other" is not declared')
  })

  it("is kept by undos", async () => {
    const undone: Array<number> = []
    const order = workflow("order", settings, async (_, step) => {
      await step.run("send", () => 1, { limit: mailer, undo: () => void undone.push(shift.now().getTime() / 60_000) })
      throw new Error("declined")
    })
    await using shift = await testShift({ handlers: [order], limits: [mailer] })
    for (const id of ["A", "B"]) await shift.start(order, { id })
    await shift.drain()
    expect(undone.map(Math.round)).toEqual([1, 2])
    expect((await shift.execution(order, "B").status()).state).toBe("failed")
  })
})

/** Executions whose step runs until the test ends it. */
const gate = (options: StepOptions<unknown>) => {
  const running = new Map<string, (error?: Error) => void>()
  let most = 0
  const begun: Array<string> = []
  const order = workflow("order", settings, ({ id }, step) =>
    step.run(
      "call",
      () => {
        begun.push(id)
        return new Promise<string>((resolve, reject) => {
          running.set(id, (error) => {
            running.delete(id)
            if (error === undefined) resolve(id)
            else reject(error)
          })
          most = Math.max(most, running.size)
        })
      },
      options as StepOptions<string>
    )
  )
  return { order, running, begun, most: () => most }
}

describe("the concurrency of a step", () => {
  it("holds over all executions, in the order in which they asked, and those that wait have no slot", async () => {
    const { begun, most, order, running } = gate({ concurrency: 2 })
    await using shift = await testShift({ handlers: [order], slots: 3 })
    const ids = ["A", "B", "C", "D", "E"]
    for (const id of ids) await shift.start(order, { id })
    await shift.settle()
    expect(begun).toEqual(["A", "B"])
    expect(await shift.execution(order, "D").status()).toMatchObject({
      state: "waiting",
      waits: [{ kind: "limit", name: "call", value: "concurrency of call" }]
    })
    for (const id of ids) {
      running.get(id)?.()
      await shift.settle()
    }
    expect([begun, most()]).toEqual([ids, 2])
    expect(await shift.execution(order, "E").status()).toMatchObject({ state: "done", result: "E" })
    // No execution asked again by itself.
    expect(shift.now().getTime()).toBeLessThan(1_000)
  })

  it("is free again after a failed attempt and after a timeout", async () => {
    const { begun, order, running } = gate({ concurrency: 1, attempts: 2, backoff: "1h", timeout: "1m" })
    await using shift = await testShift({ handlers: [order] })
    for (const id of ["A", "B", "C"]) await shift.start(order, { id })
    await shift.settle()
    running.get("A")?.(new Error("again"))
    await shift.settle()
    expect(begun).toEqual(["A", "B"])
    await shift.advance("1m")
    expect(begun).toEqual(["A", "B", "C"])
  })

  it("is free again after a crash, without an end of the step", async () => {
    const { begun, order, running } = gate({ concurrency: 1 })
    await using shift = await testShift({ handlers: [order], log: false })
    await shift.start(order, { id: "A" })
    await shift.settle()
    await shift.start(order, { id: "B" })
    await shift.settle()
    expect(begun).toEqual(["A"])
    await shift.crash()
    await shift.advance("1h")
    // The lease of the crashed run ended: one of the two has the permit.
    expect(begun.length).toBe(2)
    running.get(begun[1] ?? "")?.()
    await shift.advance("10m")
    for (const end of [...running.values()]) end()
    await shift.advance("10m")
    expect((await shift.execution(order, "A").status()).state).toBe("done")
    expect((await shift.execution(order, "B").status()).state).toBe("done")
  })

  it("is not kept for an execution that was cancelled while it waited", async () => {
    const { begun, order, running } = gate({ concurrency: 1 })
    await using shift = await testShift({ handlers: [order] })
    for (const id of ["A", "B", "C"]) await shift.start(order, { id })
    await shift.settle()
    await shift.execution(order, "B").cancel()
    await shift.settle()
    running.get("A")?.()
    await shift.settle()
    expect(begun).toEqual(["A", "C"])
  })

  it("holds for steps of the same name side by side in one execution", async () => {
    let running = 0
    let most = 0
    const order = workflow("order", settings, async (_, step) => {
      const one = () =>
        step.run(
          "call",
          async () => {
            running += 1
            most = Math.max(most, running)
            await new Promise((resolve) => setImmediate(resolve))
            running -= 1
          },
          { concurrency: 2 }
        )
      await Promise.all([one(), one(), one(), one(), one()])
    })
    await using shift = await testShift({ handlers: [order] })
    await (await shift.start(order, { id: "A" })).result()
    expect(most).toBe(2)
    expect(shift.now().getTime()).toBeLessThan(1_000)
  })
})

describe("a step with a limit", () => {
  it("asks every 10 seconds beside a branch that runs, because a call does not wake its run", async () => {
    const begun: Array<string> = []
    let endCall: () => void = () => {}
    let endLong: () => void = () => {}
    const long = new Promise<void>((resolve) => {
      endLong = resolve
    })
    const both = workflow("order", settings, (payload, step) =>
      Promise.all([
        payload.id === "B" ? step.run("long", () => long) : undefined,
        step.run(
          "call",
          () => {
            begun.push(payload.id)
            if (payload.id === "B") return undefined
            return new Promise<void>((resolve) => {
              endCall = resolve
            })
          },
          { concurrency: 1 }
        )
      ])
    )
    await using shift = await testShift({ handlers: [both] })
    for (const id of ["A", "B"]) {
      await shift.start(both, { id })
      await shift.settle()
    }
    endCall()
    await shift.settle()
    expect(begun).toEqual(["A"])
    await shift.advance("11s")
    expect(begun).toEqual(["A", "B"])
    endLong()
    await shift.settle()
    expect((await shift.execution(both, "B").status()).state).toBe("done")
  })

  it("does not run because of a cancel while it waits, although an earlier run was cut off", async () => {
    const rare = RateLimit.make("rare", { capacity: 1, rate: { tokens: 1, per: "1d" } })
    const called: Array<string> = []
    let isCrashing = true
    const order = workflow("order", settings, async ({ id }, step) => {
      const charge = () => (isCrashing && id === "B" ? new Promise<never>(() => {}) : undefined)
      await step.run("charge", charge, { undo: () => void called.push("refund") })
      await step.run("send", () => void called.push(`send ${id}`), {
        limit: rare,
        undo: () => void called.push("recall")
      })
    })
    await using shift = await testShift({ handlers: [order], limits: [rare], log: false })
    await (await shift.start(order, { id: "A" })).result()
    const run = await shift.start(order, { id: "B" })
    await shift.settle()
    isCrashing = false
    await shift.crash()
    await shift.advance("2h")
    expect(await run.status()).toMatchObject({ state: "waiting", waits: [{ kind: "limit", name: "send" }] })
    await run.cancel()
    await shift.drain()
    expect(called).toEqual(["send A", "refund"])
    expect((await run.status()).state).toBe("cancelled")
  })

  it("does not start in a run that was stopped while it asked, and returns its permit", async () => {
    let enter: () => void = () => {}
    const entered = new Promise<undefined>((resolve) => {
      enter = () => resolve(undefined)
    })
    const returned: Array<string> = []
    const acts: Array<Promise<void>> = []
    const host = {
      isOver: false,
      // Nothing else of a journal is used: the step does not begin.
      journal: { attemptsOf: () => [] },
      limits: { enter: () => entered, leave: ({ name }: { readonly name: string }) => void returned.push(name) },
      busy: (act: () => Promise<void>) => void acts.push(act())
    }
    const attempts = new StepAttempts(host as unknown as AttemptHost)
    const perform = () => Promise.reject(new Error("must not run"))
    const options = { concurrency: 1 }
    attempts.start({ name: "call", base: "call", kind: "run", options, perform, settle: () => {} })
    host.isOver = true
    enter()
    await Promise.all(acts)
    expect([returned, acts.length]).toEqual([["call"], 1])
  })
})

describe("options of a step are refused:", () => {
  it.each([
    [{ timeout: "soon" }, 'timeout of "call" must be a duration like 90s, 30m, 1h30m or 7d'],
    [{ timeout: 0 }, 'timeout of "call" must be longer than 0, got 0.'],
    [{ heartbeatTimeout: "0s" }, 'heartbeatTimeout of "call" must be longer than 0, got "0s".'],
    [{ concurrency: 0 }, 'concurrency of "call" must be a whole number from 1 to 10000, got 0.'],
    [{ limit: "mailer" }, 'limit of "call" must be a limit that RateLimit.make(…) returned, got "mailer".'],
    [{ concurency: 1 }, "concurency is not an option of a step"]
  ])("%j", async (options, message) => {
    const order = workflow("order", settings, (_, step) => step.run("call", () => 1, options as never))
    await using shift = await testShift({ handlers: [order] })
    await expect((await shift.start(order, { id: "A" })).result()).rejects.toThrow(message)
  })
})
