import { Effect, Logger, Random } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import * as client from "../../src/client/index.js"
import { TestShift } from "../../src/testing/effect.js"
import * as testing from "../../src/testing/index.js"
import { history } from "./seeded-history.mjs"

const seeded = (seed?: number): Promise<string> => history({ client, testing, z }, seed)

describe("a test", () => {
  it("has the same history every time", async () => {
    const first = await seeded()
    expect(first).toMatch(/flaky 3 2 2030-01-01T00:\d\d:\d\d\.(?!000)/)
    expect(first).toContain('"state":"dead"')
    expect(await seeded()).toBe(first)
  })

  it("has another history with another seed", async () => {
    const [first, second, again] = [await seeded(1), await seeded(2), await seeded(2)]
    expect(second).not.toBe(first)
    expect(again).toBe(second)
  })

  it("says its seed, also in the error of what it waits for", async () => {
    const never = client.job("never", { payload: z.object({}) })
    await using shift = await testing.testShift({ handlers: [never.handle(() => "ran")], seed: 7, log: false })
    expect(shift.seed).toBe(7)
    const { id } = await shift.enqueue(never, {}, { delay: "1h" })
    await expect(shift.result(id, { timeout: "1m" })).rejects.toThrow(/was not done within 1m.*\(seed 7\)$/s)
  })

  it("gives the program the same random numbers every time", async () => {
    const lines: Array<string> = []
    const test = (seed?: number) =>
      Effect.gen(function* () {
        const shift = yield* TestShift
        return [shift.seed, yield* Random.next, yield* Random.nextInt]
      }).pipe(
        Effect.provide(
          TestShift.layer<never>({ handlers: [], queues: ["default"], ...(seed === undefined ? {} : { seed }) })
        )
      )
    const [first, again, other] = await Effect.runPromise(Effect.all([test(), test(), test(2)]))
    expect(again).toEqual(first)
    expect(other).not.toEqual(first)
    const logger = Logger.replace(
      Logger.defaultLogger,
      Logger.make(({ message }) => void lines.push(String(message)))
    )
    const failing = Effect.zipRight(TestShift, Effect.fail("no")).pipe(
      Effect.provide(TestShift.layer<never>({ handlers: [], queues: ["default"], seed: 3 })),
      Effect.provide(logger)
    )
    expect(await Effect.runPromise(Effect.flip(failing))).toBe("no")
    expect(lines).toContain("the test failed with seed 3")
  })
})
