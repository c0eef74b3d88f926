import { PassThrough } from "node:stream"
import { connect, job, worker } from "nightshift/client"
import { testShift } from "nightshift/testing"
import { pino } from "pino"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { useDatabase } from "../client/ClientDatabase.js"

const database = useDatabase()

const charge = job("charge", { payload: z.object({ order: z.number() }), queue: "money", attempts: 1 })
const charging = charge.handle(async ({ order }, { log }) => {
  log.debug("looked up", { order })
  log.error("declined", { error: new Error("no funds") })
  throw new Error("declined")
})

/** A logger of pino, and what it has written. */
const written = () => {
  const stream = new PassThrough({ encoding: "utf8" })
  const logger = pino({ level: "debug", base: { app: "shop" } }, stream)
  const lines = (): ReadonlyArray<Record<string, unknown>> =>
    String(stream.read() ?? "")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line))
  return { logger, lines }
}

const facts = { app: "shop", job: expect.any(String), kind: "charge", queue: "money", attempt: 1 }
const expected = [
  { level: 50, msg: "declined", ...facts, error: expect.stringMatching(/^Error: no funds\n +at /) },
  { level: 50, msg: "a job is dead (exhausted)", ...facts, error: expect.stringMatching(/^declined/) }
]

describe("a logger of pino", () => {
  it("is the log of a test, with the level that the test sets", async () => {
    const { lines, logger } = written()
    await using shift = await testShift({ handlers: [charging], log: logger, logLevel: "debug" })
    await shift.enqueue(charge, { order: 7 })
    await shift.drain()
    const ofJobs = lines().filter(({ job }) => job !== undefined)
    expect(ofJobs).toMatchObject([{ level: 20, msg: "looked up", ...facts, order: 7 }, ...expected])
  })

  it("is the log of a shift, and a child of it the log of a worker", async () => {
    const { lines, logger } = written()
    await using shift = await connect(database.url(), { log: logger, pool: 3 })
    const running = await worker(shift, { handlers: [charging], log: logger.child({ part: "worker" }) })
    const { id } = await shift.enqueue(charge, { order: 7 })
    await expect(shift.result(id)).rejects.toThrow("declined")
    await running.stop()
    const all = lines()
    const ofJobs = all.filter(({ job }) => job !== undefined)
    expect(ofJobs).toMatchObject(expected.map((line) => ({ ...line, job: id, part: "worker" })))
    const ofWorker = all.filter(({ part }) => part === "worker").map(({ msg }) => msg)
    expect(ofWorker[0]).toMatch(/^(leading|process \S+ started: serving money)/)
    expect(ofWorker.at(-1)).toMatch(/^process \S+ stopped$/)
  })
})
