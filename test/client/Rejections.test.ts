import { getEventListeners } from "node:events"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import {
  connect,
  InvalidJobError,
  InvalidOptionError,
  InvalidPayloadError,
  JobNotFoundError,
  JobStateError,
  job,
  QueueFullError,
  ResultTimeoutError,
  type Shift,
  ShiftError
} from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()
let shift: Shift
beforeAll(async () => {
  shift = await connect(database.url(), { log: false })
})
afterAll(() => shift.close())

const sendReceipt = job("send_receipt", {
  payload: z.object({ orderId: z.string(), email: z.email() }),
  result: z.object({ sent: z.number(), at: z.coerce.date() }),
  queue: "mail"
})
const ada = { orderId: "A-17", email: "ada@example.org" }

const rejection = async (promise: Promise<unknown>): Promise<ShiftError> => {
  const error = await promise.then(
    () => undefined,
    (reason: unknown) => reason
  )
  if (!(error instanceof ShiftError)) throw new Error(`no ShiftError, but ${String(error)}`)
  return error
}

describe("a promise rejects for", () => {
  const plain = (error: ShiftError) => {
    expect(error).toBeInstanceOf(Error)
    expect(error.name).toBe(error.constructor.name)
    expect(error).not.toHaveProperty("_tag")
    expect(`${error.stack}`).not.toMatch(/FiberFailure|Cause:|_id/)
    return error
  }

  it("an invalid payload, with every issue", async () => {
    const error = plain(await rejection(shift.enqueue(sendReceipt, { orderId: "A", email: "nowhere" })))
    expect(error).toBeInstanceOf(InvalidPayloadError)
    expect(error).toMatchObject({ kind: "send_receipt", index: 0, issues: [{ path: ["email"] }] })
    expect(error.message).toMatch(/^The payload of job "send_receipt" is invalid: payload\.email: .+\.$/)
  })

  it("a Date when the validator does not accept its JSON form, with the fix", async () => {
    const dated = job("dated", { payload: z.object({ at: z.date() }) })
    const error = plain(await rejection(shift.enqueue(dated, { at: new Date(0) })))
    expect(error.message).toContain("Payloads are stored as JSON, where a Date is a string")
    const coerced = job("coerced", { payload: z.object({ at: z.coerce.date<string | Date>() }) })
    const { id } = await shift.enqueue(coerced, { at: new Date(0) })
    expect((await shift.job(id)).payload).toEqual({ at: "1970-01-01T00:00:00.000Z" })
  })

  it("options out of range", async () => {
    const options = [{ priority: 1e6 }, { delay: -1 }, { delay: "soon" as never }, { key: "" }, { id: "1" }]
    for (const option of options) {
      const error = plain(await rejection(shift.enqueue(sendReceipt, ada, option)))
      expect(error).toBeInstanceOf(InvalidJobError)
      expect(error).toMatchObject({ code: "INVALID_JOB", field: Object.keys(option)[0] })
    }
    expect(plain(await rejection(shift.enqueue(sendReceipt, ada, { runAt: "tomorrow" })))).toBeInstanceOf(
      InvalidOptionError
    )
  })

  it("unknown jobs, jobs in the wrong state, and jobs not done in time", async () => {
    const nowhere = "00000000-0000-7000-8000-000000000000"
    expect(plain(await rejection(shift.job(nowhere)))).toMatchObject({ code: "JOB_NOT_FOUND", id: nowhere })
    expect(plain(await rejection(shift.result("nonsense")))).toBeInstanceOf(JobNotFoundError)
    const { id } = await shift.enqueue(sendReceipt, ada, { delay: "1h" })
    const state = plain(await rejection(shift.requeue(id)))
    expect(state).toBeInstanceOf(JobStateError)
    expect(state).toMatchObject({ state: "scheduled", allowed: expect.arrayContaining(["dead"]) })
    const late = plain(await rejection(shift.result(id, { timeout: 20 })))
    expect(late).toBeInstanceOf(ResultTimeoutError)
    expect(late).toMatchObject({ id, timeout: 20, why: { reason: "not_due", until: expect.any(Date) } })
    expect(late.message).toMatch(
      /It is scheduled for later\. Run it now if it should not wait\. The wait ends at \d{4}-\d\d-\d\dT[\d:.]+Z\.$/
    )
    const unserved = await shift.enqueue(sendReceipt, ada, { queue: "unserved" })
    const waiting = await rejection(shift.result(unserved.id, { timeout: 20 }))
    expect(waiting).toMatchObject({ why: { reason: "no_pod" } })
    expect(waiting.message).toContain('No live process serves queue "unserved". Start your worker')
    expect(plain(await rejection(shift.why(nowhere)))).toMatchObject({ code: "JOB_NOT_FOUND" })
    const controller = new AbortController()
    const { signal } = controller
    // Node warns of more than ten listeners.
    const aborted = Promise.allSettled(Array.from({ length: 12 }, () => shift.result(id, { signal })))
    expect(getEventListeners(signal, "abort")).toHaveLength(1)
    controller.abort(new Error("went home"))
    for (const end of await aborted) expect(end).toMatchObject({ status: "rejected", reason: { message: "went home" } })
    expect(getEventListeners(signal, "abort")).toHaveLength(0)
    await expect(shift.result(id, { signal })).rejects.toThrow("went home")
  })

  it("a full queue", async () => {
    await database
      .pool()
      .query(
        "insert into nightshift.queue (name, depth_cap, created_at, updated_at) values ('narrow', 1, now(), now())"
      )
    await shift.enqueue(sendReceipt, ada, { queue: "narrow" })
    const error = plain(await rejection(shift.enqueue(sendReceipt, ada, { queue: "narrow" })))
    expect(error).toBeInstanceOf(QueueFullError)
    expect(error).toMatchObject({ queue: "narrow", cap: 1 })
  })

  it("an unreachable database and an invalid url", async () => {
    expect(plain(await rejection(connect("http://example.org")))).toMatchObject({
      code: "INVALID_OPTION",
      option: "url"
    })
    expect(plain(await rejection(connect(database.url(), { schema: "No Schema", log: false })))).toMatchObject({
      code: "START",
      message: expect.stringContaining("DATABASE_SCHEMA")
    })
  })
})
