import { describe, expect, expectTypeOf, it } from "vitest"
import { z } from "zod"
import {
  connect,
  event,
  InvalidOptionError,
  InvalidPayloadError,
  on,
  worker,
  workflow
} from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import { useDatabase } from "./ClientDatabase.js"

const paid = event("order.paid", z.object({ order: z.string(), country: z.string().optional() }))

describe("events of a test", () => {
  it("reach each subscriber that wants them", async () => {
    const seen: Array<string> = []
    const note =
      (who: string) =>
      ({ order }: { order: string }) =>
        void seen.push(`${who} ${order}`)
    await using shift = await testShift({
      handlers: [
        on(paid, { as: "send-receipt" }, note("receipt")),
        on(paid, { as: "ship", if: ({ country }) => country === "DE" }, note("ship")),
        on(paid, { as: "customs", match: { "data.country": "CH" } }, note("customs"))
      ]
    })
    const german = await shift.publish(paid, { order: "A", country: "DE" }, { id: "A" })
    expect(german).toMatchObject({ outcome: "published", jobs: 2 })
    expect(await shift.publish(paid, { order: "A", country: "DE" }, { id: "A" })).toMatchObject({ outcome: "repeated" })
    await shift.publish(paid, { order: "B", country: "CH" })
    await shift.settle()
    expect(seen.sort()).toEqual(["customs B", "receipt A", "receipt B", "ship A"])
    const results = await Promise.all(
      (await shift.jobs.list({ kind: "ship" }).toArray()).map(({ id }) => shift.result(id))
    )
    expect(results).toContainEqual({ skipped: "the condition `if` of the subscriber was false" })
  })

  it("that handlers publish are delivered, once after a crash of the process", async () => {
    const shipped = event("order.shipped", z.object({ order: z.string() }))
    const seen: Array<string> = []
    await using shift = await testShift({
      handlers: [
        on(paid, { as: "ship" }, async ({ order }, { id, publish }) => {
          await publish(shipped, { order }, { id })
        }),
        on(shipped, { as: "thank" }, ({ order }) => void seen.push(order))
      ]
    })
    await shift.publish(paid, { order: "A" })
    await shift.crash()
    await shift.advance("2h")
    expect(seen).toEqual(["A"])
  })

  it("start executions, one per key, which wait for other events", async () => {
    const shipped = event("order.shipped", z.object({ order: z.string(), at: z.coerce.date() }))
    const order = workflow(
      "order",
      { payload: z.object({ order: z.string() }), startOn: paid, key: ({ order }) => order },
      async (given, step) => {
        const match = { "data.order": given.order }
        const first = await step.waitForEvent(shipped, { match })
        expectTypeOf(first).toEqualTypeOf<{ order: string; at: Date }>()
        const second = await step.waitForEvent(shipped, { match, timeout: "1d" })
        return { at: first.at.getTime(), second: second === undefined ? "none" : second.at.getTime() }
      }
    )
    await using shift = await testShift({ handlers: [order] })
    for (const name of ["A", "B", "A"]) await shift.publish(paid, { order: name })
    await shift.settle()
    expect(await shift.jobs.list({ kind: "order" }).toArray()).toHaveLength(2)
    await shift.publish(shipped, { order: "C", at: new Date(1) })
    await shift.publish(shipped, { order: "B", at: new Date(2) })
    await shift.settle()
    await shift.publish(shipped, { order: "A", at: new Date(3) })
    await shift.publish(shipped, { order: "A", at: new Date(4) })
    expect(await shift.execution(order, "A").result()).toEqual({ at: 3, second: 4 })
    await shift.advance("1d")
    expect(await shift.execution(order, "B").result()).toEqual({ at: 2, second: "none" })
  })

  it("reach the next wait of an execution if they come after the timeout of the first", async () => {
    const reminded = workflow("reminded", { payload: z.object({}), key: () => "only" }, async (_, step) => {
      const inTime = await step.waitForEvent(paid, { timeout: "1m" })
      await step.sleep("reminder", "1h")
      const later = await step.waitForEvent(paid, { timeout: "1d" })
      return [inTime?.order, later?.order]
    })
    await using shift = await testShift({ handlers: [reminded] })
    const run = await shift.start(reminded, {})
    await shift.advance("5m")
    await shift.publish(paid, { order: "A" })
    await shift.advance("2h")
    expect(await run.result()).toEqual([null, "A"])
  })

  it("end the oldest wait, even if it lost a race, like values of signals: its promise can be awaited again", async () => {
    const signals = { message: z.string() }
    const payload = z.object({})
    const again = workflow("again", { payload, signals, key: () => "a" }, async (_, step) => {
      const [event, message] = [step.waitForEvent(paid), step.next("message")]
      const nap = step.sleep("nap", "1m").then(() => undefined)
      const raced = [await Promise.race([event, nap]), await Promise.race([message, nap])]
      return [...raced, await event, await message]
    })
    const anew = workflow("anew", { payload, signals, key: () => "a" }, async (_, step) => {
      const nap = () => step.sleep("nap", "1m").then(() => undefined)
      const raced = [await Promise.race([step.waitForEvent(paid), nap()])]
      raced.push(await Promise.race([step.next("message").then(() => undefined), nap()]))
      await step.sleep("more", "1m")
      const [event, message] = [step.waitForEvent(paid, { timeout: "1d" }), step.next("message", { timeout: "1d" })]
      return [...raced, await event, await message]
    })
    await using shift = await testShift({ handlers: [again, anew] })
    const runs = [await shift.start(again, {}), await shift.start(anew, {})]
    await shift.settle()
    await shift.advance("150s")
    await shift.publish(paid, { order: "A" })
    for (const run of runs) await run.signal("message", "a")
    await shift.advance("2d")
    const results = await Promise.all(runs.map((run) => run.result()))
    expect(results).toEqual([
      [null, null, { order: "A" }, "a"],
      [null, null, null, null]
    ])
  })

  it("fail an execution that waits for them with another schema, which names the event", async () => {
    const shipped = event("order.shipped", z.object({ order: z.string() }))
    const waits = workflow("waits", { payload: z.object({}) }, (_, step) =>
      step.waitForEvent(event("order.shipped", z.object({ order: z.number() })))
    )
    await using shift = await testShift({ handlers: [waits] })
    await shift.start(waits, {}, { key: "A" })
    await shift.settle()
    await shift.publish(shipped, { order: "A" })
    await expect(shift.execution(waits, "A").result()).rejects.toThrow(
      'The data of the event "order.shipped" is invalid'
    )
  })

  it("reject data and options that are invalid", async () => {
    await using shift = await testShift({ handlers: [], queues: ["default"] })
    await expect(shift.publish(paid, { order: 1 } as never)).rejects.toThrow(InvalidPayloadError)
    await expect(shift.publish(paid, { order: "A" }, { id: "" })).rejects.toThrow("id must not be empty.")
    await expect(shift.publish(paid, { order: "A" }, { dedupe: "A" } as never)).rejects.toThrow(InvalidOptionError)
    expect(() => event("", z.string())).toThrow("must be 1 to 128 characters long")
    expect(() => on(paid, {} as never, () => {})).toThrow('on(event, { as: "send-receipt" }, …)')
    expect(() => on(paid, { as: "x", match: { order: "A" } }, () => {})).toThrow('a path begins with "data."')
    expect(() => on(paid, { as: "x", past: "soon" as never }, () => {})).toThrow("past of")
    const compared = (value: unknown) => () => on(paid, { as: "x", match: { "data.n": value as number } }, () => {})
    expect(() => event("a\u0000", z.string())).toThrow("The name of an event must not contain NUL")
    expect(() => on(paid, { as: "" }, () => {})).toThrow("The name of a subscriber must not be empty.")
    expect(() => on(paid, { as: "\ud800" }, () => {})).toThrow("The name of a subscriber must not contain NUL")
    // As JSON, NaN would be null, which is equal to a missing path.
    expect(compared(Number.NaN)).toThrow('compares "data.n" with NaN: use a string, a finite number')
    expect(compared("a\u0000")).toThrow("must not contain NUL characters")
    expect(compared("\ud800")).toThrow("unpaired surrogates")
    expect(() => on(paid, { as: "x", match: { "data.\u0000": 1 } }, () => {})).toThrow("must not contain NUL")
  })
})

describe("events on PostgreSQL", () => {
  const database = useDatabase()

  it("are published by a process that does not know the subscribers, in its transaction", async () => {
    const seen: Array<unknown> = []
    let done: () => void = () => {}
    const both = new Promise<void>((resolve) => {
      done = resolve
    })
    const note = (data: unknown) => {
      seen.push(data)
      if (seen.length === 2) done()
    }
    await using subscribers = await connect(database.url(), { log: false })
    await using _ = await worker(subscribers, {
      handlers: [on(paid, { as: "one" }, note), on(paid, { as: "two" }, note)]
    })
    await using publisher = await connect(database.url(), { log: false })
    const client = await database.pool().connect()
    try {
      await client.query("begin")
      expect(await publisher.publish(paid, { order: "rolled back" }, { tx: client, id: "tx" })).toMatchObject({
        jobs: 2
      })
      await client.query("rollback")
      await client.query("begin")
      expect(await publisher.publish(paid, { order: "tx" }, { tx: client, id: "tx" })).toMatchObject({ jobs: 2 })
      expect(seen).toEqual([])
      await client.query("commit")
    } finally {
      client.release()
    }
    await both
    expect(seen).toEqual([{ order: "tx" }, { order: "tx" }])
    const { rows } = await database
      .pool()
      .query(`select nightshift.publish('order.paid', '{"order":"tx"}', id => 'tx') as id`)
    const { rows: events } = await database.pool().query("select id from nightshift.event")
    expect(events).toEqual(rows)
    await expect(database.pool().query(`select nightshift.publish('', '{}')`)).rejects.toThrow("1 to 128 characters")
    const deep = `${"[".repeat(1_001)}${"]".repeat(1_001)}`
    await expect(database.pool().query("select nightshift.publish('deep', $1)", [deep])).rejects.toThrow(
      "data must not be nested more than 1000 levels deep"
    )
  })

  it("that an open transaction publishes are not missed by a wait that starts meanwhile", async () => {
    const late = event("late", z.object({ n: z.number() }))
    const waiting = workflow("waiting", { payload: z.object({}), key: () => "only" }, (_, step) =>
      step.waitForEvent(late, { match: { "data.n": 1 } })
    )
    await using shift = await connect(database.url(), { log: false })
    const run = await shift.start(waiting, {})
    const client = await database.pool().connect()
    try {
      await client.query("begin")
      // Its publisher does not see the wait, which is stored after this statement and before the commit.
      await shift.publish(late, { n: 1 }, { tx: client })
      await using _ = await worker(shift, { handlers: [waiting] })
      for (;;) {
        const { rows } = await client.query(
          "select from nightshift.job where kind = 'waiting' and woken > 0 and lease is null"
        )
        if (rows.length > 0) break
        await new Promise((resolve) => setImmediate(resolve))
      }
      await client.query("commit")
      expect(await run.result({ timeout: "30s" })).toEqual({ n: 1 })
    } finally {
      client.release()
    }
  })
})
