import { describe, expect, it } from "vitest"
import { z } from "zod"
import { type AddJob, connect, job } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { useDatabase } from "./ClientDatabase.js"
import { refused } from "./Refused.js"

// Calls about schedules and batches that the types forbid, as programs in JavaScript make them.

const database = useDatabase()
const add = job("add", { payload: z.object({ a: z.number(), rest: z.any() }) })
const handler = add.handle(() => {})

describe("a mistake in a call is reported by it", () => {
  it("what a schedule gets is not what it takes", async () => {
    await using shift = await testShift({ handlers: [handler] })
    const put = (options: object) =>
      refused(() => shift.schedules.put(add.schedule("s", { payload: { a: 1, rest: 1 }, cron: "@daily", ...options })))
    expect(await refused(() => shift.schedules.put("s" as never))).toMatch(
      /takes a schedule that job\.schedule\(.*, got "s"/
    )
    expect(await put({ cron: undefined })).toBe('Schedule "s": cron must be a string, got undefined.')
    expect(await put({ timezone: 2 })).toBe('Schedule "s": timezone must be a string, got 2.')
    expect(await put({ overlap: "none" })).toBe('Schedule "s": overlap must be "allow" or "skip", got "none".')
    expect(await put({ missed: "all" })).toBe('Schedule "s": missed must be "one", "none" or { all: 7 }, got "all".')
    expect(await put({ subject: "" })).toBe('Schedule "s": subject must not be empty.')
    expect(await put({ subject: 5 })).toBe('Schedule "s": subject must be a string, got 5.')
    expect(await put({ paused: "no" })).toBe('Schedule "s": paused must be true or false, got "no".')
  })

  it("a name or an id is no text", async () => {
    await using tested = await testShift({ handlers: [handler] })
    await using stored = await connect(database.url(), { log: false })
    for (const { endpoints, queues, schedules } of [tested, stored]) {
      const calls: Readonly<Record<string, (given: never) => Promise<unknown>>> = {
        "The name that schedules.get": schedules.get,
        "The name that schedules.pause": schedules.pause,
        "The name that schedules.resume": schedules.resume,
        "The name that schedules.remove": schedules.remove,
        "The name that schedules.trigger": schedules.trigger,
        "The name that queues.pause": queues.pause,
        "The name that queues.resume": queues.resume,
        "The name that queues.scale": (given) => queues.scale(given, 3),
        "The name that queues.change": (given) => queues.change(given, {}),
        "The id that endpoints.get": endpoints.get,
        "The id that endpoints.change": (given) => endpoints.change(given, {}),
        "The id that endpoints.rotate": endpoints.rotate,
        "The id that endpoints.disable": endpoints.disable,
        "The id that endpoints.enable": endpoints.enable,
        "The id that endpoints.remove": endpoints.remove
      }
      for (const [begins, call] of Object.entries(calls)) {
        expect(await refused(() => call(5 as never))).toBe(`${begins} gets must be a string, got 5.`)
        expect(await refused(() => call(undefined as never))).toBe(`${begins} gets must be a string, got undefined.`)
        expect(await refused(() => call("" as never))).toBe(`${begins} gets must not be empty.`)
      }
    }
  })

  it("what a batch gets is not what it takes", async () => {
    await using tested = await testShift({ handlers: [handler] })
    await using stored = await connect(database.url(), { log: false })
    for (const { batches } of [tested, stored]) {
      expect(await refused(() => batches.create([] as never))).toMatch(
        /takes a function that adds its jobs: .* got an array/
      )
      expect(await refused(() => batches.create(() => {}, { followUp: null as never }))).toMatch(
        /^followUp must be .* got null/
      )
      const inside = { tx: {} } as object
      expect(await refused(() => batches.create((put) => put(add, { a: 1, rest: 1 }, inside)))).toMatch(
        /cannot join a transaction/
      )
      expect(await refused(() => batches.get("x"))).toMatch(/^There is no batch x/)
      expect(await refused(() => batches.add("x", () => {}))).toMatch(/^There is no batch x/)
      expect(await refused(() => batches.get(7 as never))).toMatch(/must be a string, got 7/)
    }
  })

  it("a batch is filled by a function that fails, or that adds jobs when it has ended", async () => {
    await using shift = await testShift({ handlers: [handler] })
    const unhandled: Array<unknown> = []
    const hear = (reason: unknown) => void unhandled.push(reason)
    process.on("unhandledRejection", hear)
    let put: AddJob = () => {}
    const failing = shift.batches.create(async (given) => {
      put = given
      given(add, { a: "one" } as never)
      await Promise.reject(new Error("no more rows"))
    })
    await expect(failing).rejects.toThrow("no more rows")
    await shift.batches.create((given) => {
      put = given
    })
    expect(() => put(add, { a: 1, rest: 1 })).toThrow(/Await everything in it/)
    await new Promise((resolve) => setImmediate(resolve))
    process.off("unhandledRejection", hear)
    expect([unhandled, await shift.jobs.count()]).toEqual([[], 0])
  })
})
