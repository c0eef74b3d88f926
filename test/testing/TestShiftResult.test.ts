import { describe, expect, it } from "vitest"
import { z } from "zod"
import { JobDeadError, job, ResultTimeoutError, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"

const remind = job("remind", { payload: z.object({ who: z.string() }), result: z.string() })
const reminded = remind.handle(async ({ who }) => `reminded ${who}`)

describe("a wait for a result in a test", () => {
  it("times out on the clock of the test", async () => {
    await using shift = await testShift({ handlers: [reminded] })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1h" })
    const timedOut = shift.result(id, { timeout: "30m" })
    await expect(timedOut).rejects.toBeInstanceOf(ResultTimeoutError)
    await expect(timedOut).rejects.toThrow(
      "was not done within 30m. It is scheduled for later. Run it now if it should not wait. The wait ends at 1970-01-01T01:00:00.000Z."
    )
    expect(await shift.result(id, { timeout: "30m" })).toBe("reminded Ada")
  })

  it("ends by the caller's signal, before and after the clock moves", async () => {
    const controller = new AbortController()
    const stops = job("stops", { payload: z.object({}) })
    await using shift = await testShift({
      handlers: [reminded, stops.handle(() => controller.abort(new Error("enough")))]
    })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1d" })
    await shift.enqueue(stops, {}, { delay: "1h" })
    for (const hours of [2, 2]) {
      const { signal } = controller
      await expect(shift.result(id, { signal, timeout: "2h" })).rejects.toThrow("enough")
      expect(shift.now()).toEqual(new Date(hours * 3_600_000))
    }
  })

  it("rejects with the reason of the signal, and leaves it as it is", async () => {
    await using shift = await testShift({ handlers: [reminded] })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1d" })
    const mine = new Error("mine")
    const { message, stack } = mine
    for (const signal of [AbortSignal.abort(), AbortSignal.abort(mine), AbortSignal.abort("text")])
      for (const _ of [1, 2]) await expect(shift.result(id, { signal })).rejects.toBe(signal.reason)
    expect([mine.message, mine.stack]).toEqual([message, stack])
  })

  it("has the seed in errors that depend on it", async () => {
    const failing = remind.handle(() => Promise.reject(new Error("no luck")))
    await using shift = await testShift({ handlers: [failing], seed: 7 })
    const { id } = await shift.enqueue(remind, { who: "Ada" })
    const dead = await shift.result(id).catch((error: unknown) => error)
    expect(dead).toBeInstanceOf(JobDeadError)
    expect((dead as Error).message).toMatch(/ \(seed 7\)$/)
  })

  it("ends when the job is done, although other jobs can never be", async () => {
    const endless = workflow("endless", { payload: z.object({}), queue: "endless" }, (_, step) => step.waitFor("never"))
    const paused = job("paused", { payload: z.object({}), queue: "paused" })
    await using shift = await testShift({ handlers: [reminded, endless, paused.handle(() => {})] })
    await shift.queues.pause("paused")
    const stuck = [() => shift.enqueue(paused, {}), () => shift.start(endless, {}, { key: "A" })]
    for (const store of stuck) {
      const other = await store()
      const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1h" })
      expect(await shift.result(id)).toBe("reminded Ada")
      await expect(shift.result(other.id)).rejects.toThrow("TestShift cannot drain")
      await shift.cancel(other.id)
    }
  })
})
