import { randomUUID } from "node:crypto"
import { getEventListeners } from "node:events"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { ClosedError, connect, job, type Shift, worker, workflow } from "../../src/client/index.js"
import { useDatabase } from "./ClientDatabase.js"

const database = useDatabase()
const opened = (pool = 4) => connect(database.url(), { pool, log: false })

const parcel = job("parcel", { payload: z.object({ n: z.number() }), queue: "parcels" })

const failureOf = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    (value) => `no failure, but ${JSON.stringify(value)}`,
    (error: unknown) => error
  )

describe("close()", () => {
  it("lets calls that have begun finish, more than there are connections, and refuses further ones", async () => {
    const shift = await opened(2)
    const { id } = await shift.enqueue(parcel, { n: 0 })
    const ids = Array.from({ length: 12 }, () => randomUUID())
    const begun = ids.map((id, n) => shift.enqueue(parcel, { n }, { id }))
    const found = ids.map(() => shift.job(id))
    const closed = shift.close()
    for (const call of [shift.enqueue(parcel, { n: 12 }), shift.cancel(id), shift.result(id), shift.queues.list()])
      expect(await failureOf(call)).toBeInstanceOf(ClosedError)
    expect(await Promise.all(begun)).toEqual(ids.map((id) => ({ id, outcome: "enqueued" })))
    expect((await Promise.all(found)).map((job) => job.id)).toEqual(ids.map(() => id))
    await closed
    expect(await database.count("parcel")).toBe(13)
  })

  it("ends calls that wait", async () => {
    const shift = await opened()
    const endless = workflow(
      "endless",
      { payload: z.object({}), asks: { state: { payload: z.object({}), result: z.number() } } },
      (_, step) => step.waitFor("never")
    )
    const { id } = await shift.enqueue(parcel, { n: 0 })
    const execution = await shift.start(endless, {}, { key: "endless" })
    const waiting = [
      shift.result(id),
      shift.result(id, { timeout: "1h" }),
      execution.result(),
      execution.ask("state", {}, { timeout: "1h" }),
      (async () => {
        for await (const chunk of execution.stream("progress")) return chunk
      })()
    ].map(failureOf)
    await shift.close()
    for (const failure of await Promise.all(waiting)) expect(failure).toBeInstanceOf(ClosedError)
  })

  it("does not wait for a reader that has left a stream before its next chunk", async () => {
    const shift = await opened()
    const silent = workflow("silent", { payload: z.object({}) }, (_, step) => step.waitFor("never"))
    const execution = await shift.start(silent, {}, { key: "silent" })
    const { signal } = new AbortController()
    const chunks = execution.stream("progress", { signal })[Symbol.asyncIterator]()
    const next = chunks.next()
    await expect.poll(() => getEventListeners(signal, "abort").length).toBe(1)
    expect(await chunks.return?.()).toEqual({ done: true, value: undefined })
    expect(await next).toEqual({ done: true, value: undefined })
    expect(getEventListeners(signal, "abort")).toHaveLength(0)
    await shift.close()
  })

  it("ends an erasure that waits for a job", async () => {
    const [shift, other] = [await opened(), await opened(3)]
    let ask = () => {}
    const asked = new Promise<void>((resolve) => {
      ask = resolve
    })
    const held = job("held", { payload: z.object({}), queue: "held" })
    const running = await worker(other, {
      handlers: [
        held.handle((_, { signal }) => {
          signal.addEventListener("abort", ask)
          return asked.then(() => shift.close())
        })
      ]
    })
    const { id } = await shift.enqueue(held, {}, { subject: "customer:1" })
    await expect.poll(async () => (await shift.job(id)).state).toBe("running")
    expect(await failureOf(shift.erase("customer:1", { deadline: "1h" }))).toBeInstanceOf(ClosedError)
    await running.stop()
    await other.close()
  })

  const stepwise = (shift: () => Shift, kind: string) => {
    let begin = () => {}
    let finish = () => {}
    const begun = new Promise<void>((resolve) => {
      begin = resolve
    })
    const finished = new Promise<void>((resolve) => {
      finish = resolve
    })
    const first = job(kind, { payload: z.object({}), queue: kind })
    const handler = first.handle(async () => {
      begin()
      await finished
      const { id } = await shift().enqueue(parcel, { n: 9 }, { queue: "after" })
      return (await shift().job(id)).queue
    })
    return { begun, finish, first, handler }
  }

  it("lets running jobs use the shift until they have ended", async () => {
    const shift = await opened()
    const { begun, finish, first, handler } = stepwise(() => shift, "last_job")
    await worker(shift, { handlers: [handler], grace: "90s" })
    const { id } = await shift.enqueue(first, {})
    await begun
    const closed = shift.close()
    finish()
    await closed
    await using again = await opened()
    expect(await again.job(id)).toMatchObject({ state: "done", result: "after", attempt: 1 })
  })

  it("stops the workers of this shift, not those of another with the same connections", async () => {
    const [kept, ended] = [await opened(), await opened()]
    const [one, two] = [stepwise(() => kept, "kept_job"), stepwise(() => ended, "ended_job")]
    await worker(kept, { handlers: [one.handler] })
    await worker(ended, { handlers: [two.handler] })
    await ended.close()
    one.finish()
    two.finish()
    const { id } = await kept.enqueue(one.first, {})
    const left = await kept.enqueue(two.first, {})
    expect(await kept.result(id)).toBe("after")
    expect((await kept.why(left.id)).reason).toBe("no_pod")
    expect(await failureOf(worker(ended, { handlers: [two.handler] }))).toBeInstanceOf(ClosedError)
    await kept.close()
  })

  it("ends workers that are starting", async () => {
    const shift = await opened()
    const { handler } = stepwise(() => shift, "never_started")
    const locked = await database.pool().connect()
    await locked.query("begin; lock table nightshift.pod in access exclusive mode")
    const starting = failureOf(worker(shift, { handlers: [handler] }))
    const waiting = "select count(*)::int as n from pg_locks where not granted"
    await expect.poll(async () => (await database.pool().query(waiting)).rows[0].n).toBeGreaterThan(0)
    const closed = shift.close()
    await locked.query("commit")
    locked.release()
    await closed
    expect(await starting).toBeInstanceOf(ClosedError)
  })
})
