import { Effect, Schema } from "effect"
import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import { connect, event, on, worker } from "../../src/client/index.js"
import { eventIds } from "../../src/core/EventMeta.js"
import { make as decoder } from "../../src/handlers/Decode.js"
import * as Event from "../../src/handlers/Event.js"
import { testShift } from "../../src/testing/index.js"
import { useDatabase } from "./ClientDatabase.js"

const paid = event("order.paid", z.object({ order: z.string(), customer: z.string(), at: z.coerce.date().optional() }))

describe("events with debounce, in a test", () => {
  it("are one job when it has been quiet, apart by customer", async () => {
    const seen: Array<string> = []
    await using shift = await testShift({
      handlers: [
        on(paid, { as: "digest", debounce: "10s", by: "data.customer" }, (events, { meta }) => {
          expectTypeOf(events).toEqualTypeOf<
            ReadonlyArray<{ order: string; customer: string; at?: Date | undefined }>
          >()
          const ids = events.map(() => ({ id: expect.any(String), publishedAt: expect.any(String) }))
          expect(meta).toEqual({ event: { name: "order.paid" }, events: ids })
          seen.push(`${events[0]?.customer}: ${events.map(({ order }) => order).join(" ")}`)
        }),
        on(paid, { as: "each" }, (data) => {
          expectTypeOf(data).toEqualTypeOf<{ order: string; customer: string; at?: Date | undefined }>()
        })
      ]
    })
    expect(await shift.publish(paid, { order: "A", customer: "ada" })).toMatchObject({ jobs: 1 })
    await shift.publish(paid, { order: "B", customer: "bob" })
    await shift.advance("6s")
    await shift.publish(paid, { order: "C", customer: "ada" })
    await shift.advance("5s")
    expect(seen).toEqual(["bob: B"])
    await shift.advance("5s")
    expect(seen).toEqual(["bob: B", "ada: A C"])
    await shift.publish(paid, { order: "D", customer: "ada" })
    await shift.advance("10s")
    expect(seen.at(-1)).toBe("ada: D")
  })

  it("are filtered, validated and limited, and a failed job gets the same again", async () => {
    const seen: Array<ReadonlyArray<string>> = []
    const ids = new Map<string, string>()
    const handler = on(
      paid,
      {
        as: "digest",
        debounce: "1m",
        max: 3,
        if: ({ order }) => order !== "skip",
        attempts: 2,
        backoff: "30s"
      },
      (events, { meta }) => {
        expect(eventIds(meta)).toEqual(events.map(({ order }) => ids.get(order)))
        for (const { at } of events) if (at !== undefined) expect(at).toBeInstanceOf(Date)
        seen.push(events.map(({ order }) => order))
        if (seen.length === 1) throw new Error("not yet")
      }
    )
    await using shift = await testShift({ handlers: [handler] })
    for (const order of ["A", "skip", "B", "C"])
      ids.set(order, (await shift.publish(paid, { order, customer: "ada", at: new Date(0) as never })).id)
    await shift.advance("5s")
    expect(seen).toEqual([["A", "B"]])
    await shift.crash()
    await shift.advance("10m")
    expect(seen).toEqual([["A", "B"], ["A", "B"], ["C"]])
    await shift.publish(paid, { order: "skip", customer: "ada" })
    await shift.advance("1m")
    expect(seen).toHaveLength(3)
  })

  it("reject options that are invalid", () => {
    const subscriber = (options: object) => () => on(paid, { as: "x", ...options } as never, () => {})
    expect(subscriber({ debounce: "soon" })).toThrow('debounce of "x" must be')
    expect(subscriber({ debounce: 0 })).toThrow("longer than 0 and at most 1 day, got 0.")
    expect(subscriber({ debounce: "1s", max: 501 })).toThrow(
      'max of "x" must be a whole number from 1 to 500, got 501.'
    )
    expect(subscriber({ max: 5 })).toThrow('max of "x" needs the option debounce.')
    expect(subscriber({ by: "data.customer" })).toThrow('by of "x" needs the option debounce.')
    expect(subscriber({ debounce: "1s", by: "customer" })).toThrow('a path begins with "data.", such as "data.order".')
    expect(subscriber({ debounce: "1s", by: () => "x" })).toThrow("has the path a function")
  })

  it("have the types of their form with Effect", () => {
    const Paid = Event.make("order.paid", Schema.Struct({ at: Schema.Date }))
    const digest = Event.on(Paid, { as: "digest", debounce: "10 seconds", by: ["data.at"] }, (events) => {
      expectTypeOf(events).toEqualTypeOf<ReadonlyArray<{ readonly at: Date }>>()
      return Effect.void
    })
    const at = "2026-01-01T00:00:00.000Z"
    // A job of before the subscriber had windows, and one that an older process must leave alone.
    expect(decoder(digest.kind)({ at }, 1)).toMatchObject({ payload: [{ at: new Date(at) }] })
    expect(decoder(digest.kind)([{ at }], 2)).toMatchObject({ payload: [{ at: new Date(at) }] })
    const each = Event.on(Paid, { as: "each" }, (data) => {
      expectTypeOf(data).toEqualTypeOf<{ readonly at: Date }>()
      return Effect.void
    })
    expect(decoder(each.kind)([{ at }], 2)).toMatchObject({ _tag: "TooNew" })
    expect(each.kind).toMatchObject({ version: 1, subscribes: { event: "order.paid", kind: "each" } })
    // @ts-expect-error: a list needs `debounce`.
    expect(() => Event.on(Paid, { as: "digest", max: 5 }, () => Effect.void)).toThrow("needs the option debounce")
  })
})

describe("events with debounce on PostgreSQL", () => {
  const database = useDatabase()

  it("are joined by the worker's process, none lost by a transaction that commits late", async () => {
    const seen: Array<ReadonlyArray<string>> = []
    let done: () => void = () => {}
    const all = new Promise<void>((resolve) => {
      done = resolve
    })
    const digest = on(paid, { as: "digest", debounce: "300ms", by: "data.customer" }, (events) => {
      seen.push(events.map(({ order }) => order))
      if (seen.flat().length === 4) done()
    })
    await using shift = await connect(database.url(), { log: false })
    await using _ = await worker(shift, { handlers: [digest] })
    const client = await database.pool().connect()
    try {
      await client.query("begin")
      await shift.publish(paid, { order: "late", customer: "ada" }, { tx: client })
      // The open transaction does not hold up other publishers of the window, nor the window.
      for (const order of ["A", "B", "C"]) await shift.publish(paid, { order, customer: "ada" })
      for (;;) {
        const { rows } = await client.query("select from nightshift.job where kind = 'digest' and status = 'done'")
        if (rows.length > 0) break
        await new Promise((resolve) => setImmediate(resolve))
      }
      await client.query("commit")
    } finally {
      client.release()
    }
    await all
    expect(seen.flat().sort()).toEqual(["A", "B", "C", "late"])
    expect(seen.at(-1)).toEqual(["late"])
  })
})
