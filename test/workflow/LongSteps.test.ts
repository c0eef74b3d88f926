import { describe, expect, it } from "vitest"
import { z } from "zod"
import { type StepContext, type StepOptions, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

// Steps that take hours, and steps that take too long, on virtual time.

const settings = { payload: z.object({ id: z.string() }), key: ({ id }: { id: string }) => id }

/** A step that ends when the test says so. */
const controlled = (options: StepOptions<unknown> = {}, more: { readonly timeout?: string } = {}) => {
  const attempts: Array<StepContext> = []
  let end: (value: string) => void = () => {}
  const order = workflow("order", { ...settings, ...(more as object) }, (_, step) =>
    step.run(
      "import",
      (context) => {
        attempts.push(context)
        return new Promise<string>((resolve) => {
          end = resolve
        })
      },
      options as StepOptions<string>
    )
  )
  const last = () => {
    const context = attempts.at(-1)
    if (context === undefined) throw new Error("the step has not started")
    return context
  }
  return { order, attempts, last, end: (value: string) => end(value) }
}

/** A step that does not stop holds the slot for a while after its run was interrupted. */
const quiet = { log: false } as const

describe("a heartbeat", () => {
  it("keeps a step of an hour alive beyond the time limit of a run, and a crash does not lose its details", async () => {
    const { attempts, end, last, order } = controlled({}, { timeout: "15m" })
    await using shift = await testShift({ handlers: [order], ...quiet })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    expect(last().lastHeartbeat).toBeUndefined()
    for (let page = 1; page <= 6; page += 1) {
      last().heartbeat({ page })
      await shift.advance("10m")
    }
    expect(attempts.length).toBe(1)
    expect((await run.status()).heartbeats).toMatchObject([{ step: "import", attempt: 1, details: { page: 6 } }])

    await shift.crash()
    await shift.advance("1h")
    expect([attempts.length, last().attempt, last().lastHeartbeat]).toEqual([2, 1, { page: 6 }])
    for (let page = 7; page <= 9; page += 1) {
      last().heartbeat({ page })
      await shift.advance("10m")
    }
    end("all pages")
    await shift.settle()
    expect(await run.status()).toMatchObject({ state: "done", result: "all pages", heartbeats: [] })
  })

  it("is missed: the run times out without it", async () => {
    const { attempts, last, order } = controlled({}, { timeout: "15m" })
    await using shift = await testShift({ handlers: [order], ...quiet })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    last().heartbeat()
    await shift.advance("14m")
    expect((await run.status()).state).toBe("running")
    await shift.advance("10m")
    expect(attempts.length).toBe(2)
    expect(attempts[0]?.signal.aborted).toBe(true)
  })

  it("is stored at most every 5 seconds, and when its attempt fails", async () => {
    const { last, order } = controlled({ timeout: "7s", backoff: "1h" })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    const stored = async () => {
      await shift.settle()
      return (await run.status()).heartbeats.map(({ details }) => details)
    }
    await shift.settle()
    last().heartbeat(1)
    expect(await stored()).toEqual([1])
    last().heartbeat(2)
    last().heartbeat(3)
    expect(await stored()).toEqual([1])
    await shift.advance("5s")
    expect(await stored()).toEqual([3])
    last().heartbeat(4)
    expect(await stored()).toEqual([3])
    await shift.advance("2s")
    expect(await stored()).toEqual([4])
    await shift.crash()
    await shift.advance("2h")
    expect([last().attempt, last().lastHeartbeat]).toEqual([2, 4])
  })

  it("without details keeps the last ones, and the next attempt in the same run gets them", async () => {
    const seen: Array<unknown> = []
    const order = workflow("order", settings, (_, step) =>
      step.run(
        "import",
        ({ attempt, heartbeat, lastHeartbeat }) => {
          seen.push(lastHeartbeat)
          if (attempt === 1) heartbeat([1, undefined])
          heartbeat()
          if (attempt < 3) throw new Error("again")
        },
        { backoff: "1ms" }
      )
    )
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await run.result()
    expect(seen).toEqual([undefined, [1, null], [1, null]])
  })

  it("is not given to a step that runs again because its effect was undone", async () => {
    const seen: Array<unknown> = []
    let isBroken = true
    const order = workflow("order", settings, async (_, step) => {
      await step.run(
        "import",
        ({ heartbeat, lastHeartbeat }) => {
          seen.push(lastHeartbeat)
          heartbeat({ page: 9 })
        },
        { undo: () => {} }
      )
      await step.run(
        "check",
        ({ heartbeat, lastHeartbeat }) => {
          seen.push(lastHeartbeat)
          heartbeat("checked")
          if (isBroken) throw new Error("broken")
        },
        { attempts: 1 }
      )
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toThrow("broken")
    isBroken = false
    await run.retry()
    await run.result()
    expect(seen).toEqual([undefined, undefined, undefined, "checked"])
  })

  it("is not given to a step of the next journal of an execution", async () => {
    const seen: Array<unknown> = []
    const payload = z.object({ round: z.number() })
    const loop = workflow("loop", { payload, key: () => "one" }, async ({ round }, step) => {
      await step.run("import", ({ heartbeat, lastHeartbeat }) => {
        seen.push(lastHeartbeat)
        heartbeat({ round })
      })
      if (round < 3) await step.continueAs({ round: round + 1 })
    })
    await using shift = await testShift({ handlers: [loop] })
    const run = await shift.start(loop, { round: 1 })
    await run.result()
    expect(seen).toEqual([undefined, undefined, undefined])
  })

  it("refuses details that are no JSON or too large", async () => {
    const refused: Array<string> = []
    const order = workflow("order", settings, (_, step) =>
      step.run("import", ({ heartbeat }) => {
        for (const details of ["x".repeat(5_000), 1n, Number.NaN])
          try {
            heartbeat(details)
          } catch (error) {
            refused.push((error as Error).message)
          }
      })
    )
    await using shift = await testShift({ handlers: [order] })
    await (await shift.start(order, { id: "A" })).result()
    expect(refused).toEqual([
      'The details of a heartbeat of "import" must be at most 4096 bytes as JSON, got 5002.',
      expect.stringContaining('The details of a heartbeat of "import" cannot be encoded as JSON'),
      'The details of a heartbeat of "import" must not contain NaN or Infinity.'
    ])
  })
})

describe("the timeout of a step", () => {
  it("aborts its signal and counts as a failed attempt, with the reason", async () => {
    const order = workflow("order", settings, (_, step) =>
      step.run("call", ({ signal }) => new Promise((_, reject) => signal.addEventListener("abort", reject)), {
        timeout: "2m",
        attempts: 2,
        backoff: "1m"
      })
    )
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await expect(run.result()).rejects.toThrow("timed out after 2m")
    const { steps } = await run.status()
    expect(steps.map(({ attempt, exit, outcome }) => [attempt, outcome, exit])).toMatchObject([
      [1, "retrying", { error: { name: "TimeoutError", message: "timed out after 2m" } }],
      [2, "failed", { error: { name: "TimeoutError" } }]
    ])
    expect(shift.now().getTime()).toBe(5 * 60_000)
  })

  it("does not wait for code that ignores its signal, and drops the result of that code", async () => {
    const { attempts, end, order } = controlled({ timeout: "1m", attempts: 2, backoff: "1s" })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("1m")
    expect((await run.status()).steps).toMatchObject([{ attempt: 1, outcome: "retrying" }])
    end("late")
    await shift.advance("1s")
    expect([attempts.length, (await run.status()).state]).toEqual([2, "running"])
    end("in time")
    await shift.settle()
    expect(await run.result()).toBe("in time")
  })

  it("may be longer than the time limit of a run", async () => {
    const { attempts, end, order } = controlled({ timeout: "2h" }, { timeout: "15m" })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("119m")
    end("slow")
    await shift.settle()
    expect([await run.result(), attempts.length]).toEqual(["slow", 1])
  })

  it("of heartbeats may be longer than the time limit of a run", async () => {
    const { attempts, end, last, order } = controlled({ heartbeatTimeout: "1h" }, { timeout: "15m" })
    await using shift = await testShift({ handlers: [order], ...quiet })
    const run = await shift.start(order, { id: "A" })
    for (let beat = 0; beat < 3; beat += 1) {
      await shift.advance("50m")
      last().heartbeat(beat)
    }
    await shift.advance("50m")
    end("slow")
    await shift.settle()
    expect([await run.result(), attempts.length]).toEqual(["slow", 1])
  })

  it("leaves steps alone that need real time", async () => {
    const order = workflow("order", settings, (_, step) =>
      step.run("call", () => new Promise((resolve) => setTimeout(() => resolve("answer"), 50)), { timeout: "1s" })
    )
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.advance("10m")
    expect((await run.status()).steps).toMatchObject([{ attempt: 1, outcome: "done", exit: { value: "answer" } }])
  })

  it("applies to an undo as well", async () => {
    const order = workflow("order", settings, async (_, step) => {
      await step.run("charge", () => 1, { undo: () => new Promise(() => {}), timeout: "1m", attempts: 1 })
      throw new Error("declined")
    })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.drain()
    expect(await run.status()).toMatchObject({ state: "failed", reason: "not_undone" })
    expect((await run.status()).lastError).toContain("undo of charge failed: timed out after 1m")
  })

  it("fails an attempt that sends no heartbeat for too long", async () => {
    const { attempts, end, last, order } = controlled({ heartbeatTimeout: "1m", backoff: "1s" })
    await using shift = await testShift({ handlers: [order] })
    const run = await shift.start(order, { id: "A" })
    await shift.settle()
    for (let minute = 0; minute < 3; minute += 1) {
      await shift.advance("50s")
      last().heartbeat(minute)
    }
    expect(attempts.length).toBe(1)
    await shift.advance("61s")
    const { steps } = await run.status()
    expect(steps).toMatchObject([
      { outcome: "retrying", exit: { error: { message: "timed out: no heartbeat for 1m" } } }
    ])
    expect([attempts.length, last().lastHeartbeat]).toEqual([2, 2])
    end("ok")
    expect(await run.result()).toBe("ok")
  })
})

it("a copy of the context of a step has all its members", async () => {
  let copied: ReadonlyArray<string> = []
  const order = workflow("order", settings, (_, step) =>
    step.run("look", (context) => {
      const copy = { ...context }
      copied = Object.keys(copy).sort()
      copy.log.debug("copied")
      return copy.signal.aborted
    })
  )
  await using shift = await testShift({ handlers: [order] })
  expect(await (await shift.start(order, { id: "A" })).result()).toBe(false)
  expect(copied).toEqual(["attempt", "heartbeat", "idempotencyKey", "lastHeartbeat", "log", "signal"])
})
