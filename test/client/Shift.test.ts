import { Console } from "node:console"
import { PassThrough } from "node:stream"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { z } from "zod"
import {
  ClosedError,
  connect,
  JobDeadError,
  job,
  Outcome,
  QueueFullError,
  ResultTimeoutError,
  type Shift,
  ShiftError,
  type WorkerEvent,
  worker
} from "../../src/client/index.js"
import * as LoadedMachine from "../support/LoadedMachine.js"
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

describe("a shift", () => {
  it("stores a job and reports whether it did", async () => {
    const first = await shift.enqueue(sendReceipt, ada, { dedupe: "receipt:A-17", delay: "5m" })
    const second = await shift.enqueue(sendReceipt, ada, { dedupe: "receipt:A-17" })
    expect(first.outcome).toBe("enqueued")
    expect(second).toEqual({ id: first.id, outcome: "deduplicated" })
    const stored = await shift.job(first.id)
    expect(stored).toMatchObject({ state: "scheduled", queue: "mail", payload: ada, dedupe: { key: "receipt:A-17" } })
    // The row is written a moment after the call.
    expect(Math.round((stored.runAt.getTime() - stored.createdAt.getTime()) / 10_000)).toBe(30)
  })

  it("stores a thousand calls of one tick in few statements", async () => {
    const counted = job("counted", { payload: z.object({ n: z.number() }) })
    const client = await database.pool().connect()
    const distinct = async () => {
      const { rows } = await client.query(
        "select count(distinct xmin::text)::int as n from nightshift.job where kind = 'counted'"
      )
      return rows[0].n as number
    }
    const all = await Promise.all(Array.from({ length: 1_000 }, (_, n) => shift.enqueue(counted, { n })))
    expect(new Set(all.map(({ id }) => id)).size).toBe(1_000)
    // Each transaction marks the rows that it wrote.
    expect(await distinct()).toBeLessThanOrEqual(3)
    client.release()
  })

  it("stores many at once, all or none, with a dedupe key of each", async () => {
    const many = job("many", { payload: z.object({ n: z.number() }) })
    const payloads = [{ n: 1 }, { n: 2 }, { n: 1 }]
    const stored = await shift.enqueueMany(many, payloads, { dedupe: ({ n }) => `many:${n}` })
    expect(stored.map(({ outcome }) => outcome)).toEqual(["enqueued", "enqueued", "deduplicated"])
    expect(stored[2]?.id).toBe(stored[0]?.id)
    const refused = await rejection(shift.enqueueMany(many, [{ n: 3 }, { n: "four" as never }]))
    expect(refused).toMatchObject({ index: 1, code: "INVALID_PAYLOAD" })
    expect(await database.count("many")).toBe(2)
  })

  it("runs jobs with async functions and returns their results", async () => {
    const logged: Array<unknown> = []
    const seen: Array<unknown> = []
    const handler = sendReceipt.handle(async (payload, { attempt, id, log, progress, signal }) => {
      seen.push({ payload, attempt, aborted: signal.aborted })
      await progress({ half: true })
      log.info("sending", { to: payload.email })
      logged.push(id)
      return { sent: 1, at: "2026-01-02T03:04:05Z" }
    })
    const running = await worker(shift, { handlers: [handler], queues: { mail: 20 } })
    const { id } = await shift.enqueue(sendReceipt, ada, { key: "customer:1" })
    const result = await shift.result(id, { timeout: "30s" })
    expect(result).toEqual({ sent: 1, at: new Date("2026-01-02T03:04:05Z") })
    expect(seen).toEqual([{ payload: ada, attempt: 1, aborted: false }])
    expect(await shift.job(id)).toMatchObject({ state: "done", progress: { half: true }, attempt: 1 })
    await running.stop()
    const { rows } = await database.pool().query("select max_workers from nightshift.queue where name = 'mail'")
    expect(rows).toEqual([{ max_workers: 20 }])
  })

  it("logs one line when a worker starts, and can be stopped before and after its shift", async () => {
    const lines: Array<string> = []
    const info = (message: string) => void (LoadedMachine.isAbout(message) || lines.push(message))
    const own = await connect(database.url(), { pool: 4, log: { debug: () => {}, info, warn: info, error: info } })
    const quiet = job("quiet", { payload: z.object({}), queue: "quiet" })
    const running = await worker(own, { handlers: [quiet.handle(() => "ran")] })
    const { id } = await own.enqueue(quiet, {})
    expect(await own.result(id)).toBe("ran")
    const aboutOthers = /leading the cluster|no live process serves/
    expect(lines.filter((line) => !aboutOthers.test(line))).toEqual([`process ${running.pod} started: serving quiet`])
    await running.stop()
    expect((await own.job(id)).state).toBe("done")
    const next = await worker(own, { handlers: [quiet.handle(() => "ran")] })
    await own.close()
    await next.stop()
  })

  it("logs that a worker stops, and how long its running jobs have", async () => {
    const lines: Array<string> = []
    const info = (message: string) => void (LoadedMachine.isAbout(message) || lines.push(message))
    await using own = await connect(database.url(), {
      pool: 6,
      log: { debug: () => {}, info, warn: info, error: info }
    })
    const slow = job("slow_stop", { payload: z.object({}), queue: "slow_stop" })
    let begin = () => {}
    let finish = () => {}
    const begun = new Promise<void>((done) => {
      begin = done
    })
    const finished = new Promise<void>((done) => {
      finish = done
    })
    const handler = slow.handle(async () => {
      begin()
      await finished
    })
    const running = await worker(own, { handlers: [handler], grace: "90s" })
    await own.enqueue(slow, {})
    await begun
    const stopped = running.stop()
    await expect
      .poll(() => lines)
      .toContainEqual(expect.stringMatching(/^process \S+ stopping; 1 running job has up to 1m30s/))
    finish()
    await stopped
    expect(lines.at(-1)).toMatch(/^process \S+ stopped$/)
  })

  it("passes no empty object to a console", async () => {
    let written = ""
    const output = new PassThrough().on("data", (chunk) => {
      written += chunk
    })
    const own = await connect(database.url(), { pool: 3, log: new Console(output) })
    const plain = job("plain_lines", { payload: z.object({}), queue: "plain_lines" })
    await (await worker(own, { handlers: [plain.handle(() => {})] })).stop()
    await own.close()
    const lines = written.trim().split("\n")
    expect(lines).toContainEqual(expect.stringMatching(/^process \S+ started: serving plain_lines$/))
    expect(lines.filter((line) => line.endsWith("{}"))).toEqual([])
  })

  it("pauses a queue before its first worker, which keeps it paused and sets its worker total", async () => {
    const later = job("later", { payload: z.object({}), queue: "later" })
    expect(await shift.queues.pause("later")).toMatchObject({ name: "later", paused: true, maxWorkers: 10 })
    const { id } = await shift.enqueue(later, {})
    await using _ = await worker(shift, { handlers: [later.handle(() => "ran")], queues: { later: 3 } })
    expect(await shift.queues.list()).toContainEqual(
      expect.objectContaining({ name: "later", paused: true, maxWorkers: 3 })
    )
    const late = await rejection(shift.result(id, { timeout: 50 }))
    expect(late).toBeInstanceOf(ResultTimeoutError)
    expect(late).toMatchObject({ why: { reason: "paused", until: undefined } })
    expect(late.message).toBe(
      `Job ${id} was not done within 50ms. Queue "later" is paused. None of its jobs start until you resume it.`
    )
    expect(await shift.why(id)).toMatchObject({ reason: "paused" })
    await shift.queues.resume("later")
    expect(await shift.result(id)).toBe("ran")
    expect(await shift.queues.scale("later", 5)).toMatchObject({ name: "later", paused: false, maxWorkers: 5 })
    expect(await rejection(shift.queues.scale("nowhere", 5))).toMatchObject({
      code: "QUEUE_NOT_FOUND",
      queue: "nowhere",
      message:
        'There is no queue "nowhere". Check the name, start a worker that serves it, or create it with queues.change.'
    })
    expect(await rejection(shift.queues.scale("later", -1))).toMatchObject({
      code: "INVALID_OPTION",
      message: "maxWorkers must be a whole number from 0 to 10000, got -1."
    })
    const bad = worker(shift, { handlers: [later.handle(() => {})], queues: { "a b": 1 } })
    expect(await rejection(bad)).toMatchObject({ code: "INVALID_OPTION", option: "queues" })
  })

  it("changes the limits of a queue", async () => {
    const limited = job("limited", { payload: z.object({ n: z.number() }), queue: "limited" })
    const change = { perKey: { concurrency: 1 }, rate: { jobs: 5, per: "1m" }, depthCap: 2, retainDone: "1h" } as const
    expect(await rejection(shift.queues.change("limited", { ...change, depthCap: -1 }))).toMatchObject({
      code: "INVALID_OPTION"
    })
    expect((await shift.queues.list()).map(({ name }) => name)).not.toContain("limited")
    const unchanged = {
      name: "limited",
      paused: false,
      maxWorkers: 10,
      backoff: { enabled: false, base: 60_000, max: 1_800_000 },
      throttleAttempts: 0
    }
    expect(await shift.queues.change("limited", change)).toEqual({
      ...unchanged,
      perKey: { concurrency: 1, order: "none" },
      rate: { jobs: 5, per: 60_000 },
      depthCap: 2,
      retainDone: 3_600_000
    })
    await shift.enqueueMany(limited, [{ n: 1 }, { n: 2 }])
    expect(await rejection(shift.enqueue(limited, { n: 3 }))).toBeInstanceOf(QueueFullError)
    expect(await shift.queues.change("limited", { rate: null, depthCap: null, retainDone: null })).toEqual({
      ...unchanged,
      perKey: { concurrency: 1, order: "none" }
    })
    expect(await rejection(shift.queues.change("limited", { rate: { jobs: 1, per: "soon" as never } }))).toMatchObject({
      code: "INVALID_OPTION",
      option: "rate.per"
    })
    const misspelled = shift.queues.change("limited", { perkey: { concurrency: 1 } } as never)
    expect((await rejection(misspelled)).message).toMatch(
      /^perkey is not a setting of a queue: use .*\. Did you mean perKey\?$/
    )
  })

  it("declares the limits of a queue beside its workers, and keeps those that an operator has changed", async () => {
    const capped = job("capped", { payload: z.object({}), queue: "capped" })
    const handlers = [capped.handle(() => {})]
    const lines: Array<string> = []
    const log = (line: unknown) => void lines.push(String(line))
    await using logged = await connect(database.url(), {
      log: { debug: log, info: log, warn: log, error: log },
      pool: 3
    })
    const settled = async () => (await shift.queues.list()).find(({ name }) => name === "capped")
    const first = await worker(logged, { handlers, queues: { capped: { workers: 4, perKey: 1, rate: "100/m" } } })
    await first.stop()
    const declared = { name: "capped", paused: false, maxWorkers: 4, perKey: { concurrency: 1, order: "none" } }
    expect(await settled()).toMatchObject({ ...declared, rate: { jobs: 100, per: 60_000 } })
    await shift.queues.change("capped", { rate: "10/30s" })
    const second = await worker(logged, { handlers, queues: { capped: { rate: "200/m", perKey: null } } })
    await second.stop()
    expect(await settled()).toMatchObject({
      paused: false,
      maxWorkers: 4,
      perKey: undefined,
      rate: { jobs: 10, per: 30_000 }
    })
    expect(lines).toContainEqual(
      expect.stringContaining(
        "queue capped: rate stays 10/30s, which an operator has set. This process declares 200/1m"
      )
    )
  })

  it("gives the result of a stored id the type of its job", async () => {
    const { id } = await shift.enqueue(sendReceipt, ada)
    const stored: string = id
    await using other = await connect(database.url(), { log: false })
    const sent = sendReceipt.handle(async () => ({ sent: 1, at: "2030-01-01T00:00:00Z" as never }))
    await using _ = await worker(shift, { handlers: [sent] })
    // The other shift has not enqueued the job, so only the argument names the validator.
    const { at } = await other.result(sendReceipt, stored, { timeout: "30s" })
    expect(at).toEqual(new Date("2030-01-01T00:00:00Z"))
    const text = job("text", { payload: z.object({}), result: z.string() })
    expect((await rejection(other.result(text, stored))).message).toBe(
      `Job ${id} is of the kind "send_receipt", not "text".`
    )
    expect(await rejection(other.result({} as never, stored))).toMatchObject({ code: "INVALID_OPTION", option: "job" })
  })

  it("cancels, requeues and ends jobs by the handler's outcome", async () => {
    const picky = job("picky", { payload: z.object({ ok: z.boolean() }), queue: "picky" })
    const handler = picky.handle(({ ok }) => (ok ? "fine" : Outcome.dead("not today")))
    await using running = await worker(shift, { handlers: [handler] })
    const { id } = await shift.enqueue(picky, { ok: false })
    const dead = await rejection(shift.result(id))
    expect(dead).toBeInstanceOf(JobDeadError)
    expect(dead).toMatchObject({ code: "JOB_DEAD", id, reason: "rejected", lastError: "not today", attempt: 1 })
    expect(await shift.requeue(id)).toMatchObject({ state: "pending", attempt: 0 })
    const later = await shift.enqueue(picky, { ok: true }, { delay: "1d" })
    expect(await shift.cancel(later.id)).toMatchObject({ state: "cancelled", reason: "cancelled" })
    expect(await rejection(shift.result(later.id))).toMatchObject({ code: "JOB_CANCELLED", id: later.id, attempt: 0 })
    expect(running.queues).toEqual(["picky"])
  })

  it("reports what happened to the jobs of a worker, and ignores errors of the hook", async () => {
    const events: Array<WorkerEvent> = []
    const lines: Array<string> = []
    const warn = (line: string) => void lines.push(line)
    await using logged = await connect(database.url(), {
      pool: 5,
      log: { debug: () => {}, info: () => {}, warn, error: () => {} }
    })
    const eventful = job("eventful", {
      payload: z.object({ how: z.enum(["ok", "flaky", "bad", "later"]) }),
      queue: "eventful",
      attempts: 2,
      backoff: "1ms"
    })
    let snoozes = 0
    const handler = eventful.handle(({ how }, { attempt }) => {
      if (how === "ok" || (how === "flaky" && attempt === 2)) return { how }
      if (how === "bad") return Outcome.dead("rejected it")
      if (how === "later" && snoozes++ === 0) return Outcome.snooze("1ms")
      if (how === "later") return { how }
      throw new Error("no luck")
    })
    const onEvent = (event: WorkerEvent) => {
      events.push(event)
      throw new Error("the hook is broken")
    }
    const running = await worker(logged, { handlers: [handler], onEvent })
    const ok = await logged.enqueue(eventful, { how: "ok" }, { key: "k", meta: { by: "test" } })
    const flaky = await logged.enqueue(eventful, { how: "flaky" })
    const bad = await logged.enqueue(eventful, { how: "bad" })
    const later = await logged.enqueue(eventful, { how: "later" })
    expect(await logged.result(ok.id)).toEqual({ how: "ok" })
    expect(await logged.result(flaky.id)).toEqual({ how: "flaky" })
    expect((await rejection(logged.result(bad.id))).code).toBe("JOB_DEAD")
    expect(await logged.result(later.id)).toEqual({ how: "later" })
    await running.stop()
    const of = (id: string) => events.filter((event) => event.id === id)
    const facts = { kind: "eventful", queue: "eventful", attempts: 2, took: expect.any(Number) }
    expect(of(ok.id)).toEqual([
      { ...facts, type: "completed", id: ok.id, key: "k", meta: { by: "test" }, attempt: 1, result: { how: "ok" } }
    ])
    expect(of(flaky.id)).toMatchObject([
      { type: "failed", error: "no luck", stack: expect.stringContaining("Shift.test"), retryAt: expect.any(Date) },
      { type: "completed", attempt: 2, result: { how: "flaky" } }
    ])
    expect(of(later.id).map(({ type }) => type)).toEqual(["completed"])
    expect(of(bad.id)).toMatchObject([{ type: "dead", reason: "rejected", error: "rejected it", stack: undefined }])
    expect(lines.filter((line) => line.includes("the hook is broken"))).toHaveLength(1)
  })

  it("connects once per process for the same settings", async () => {
    const again = await connect(database.url())
    const { id } = await again.enqueue(sendReceipt, ada)
    await again.close()
    expect((await rejection(again.job(id))) instanceof ClosedError).toBe(true)
    expect((await shift.job(id)).id).toBe(id)
    const { rows } = await database
      .pool()
      .query(
        "select count(*)::int as n from pg_stat_activity where datname = current_database() and application_name = 'nightshift'"
      )
    expect(rows[0].n).toBeLessThanOrEqual(21)
  })
})

describe("schedules of a shift", () => {
  it("are stored, listed, paused, resumed, triggered and removed", async () => {
    const digest = job("digest", { payload: z.object({ to: z.string() }) })
    const put = await shift.schedules.put(digest.schedule("nightly", { payload: { to: "all" }, cron: "0 3 * * *" }))
    expect(put).toMatchObject({ name: "nightly", cron: "0 3 * * *", paused: false, payload: { to: "all" } })
    expect(put).toMatchObject({
      words: expect.stringContaining("03:00"),
      origin: "operator",
      createdAt: expect.any(Date)
    })
    const changed = await shift.schedules.put(digest.schedule("nightly", { payload: { to: "some" }, cron: "@daily" }))
    expect(changed).toMatchObject({ cron: "@daily", payload: { to: "some" } })
    expect((await shift.schedules.list()).map(({ name }) => name)).toEqual(["nightly"])
    expect(await shift.schedules.pause("nightly")).toMatchObject({ paused: true, nextFireAt: undefined })
    expect((await shift.schedules.resume("nightly")).nextFireAt).toBeInstanceOf(Date)
    await shift.schedules.remove("nightly")
    expect(await rejection(shift.schedules.get("nightly"))).toMatchObject({
      code: "SCHEDULE_NOT_FOUND",
      schedule: "nightly"
    })
    const wrong = await rejection(
      shift.schedules.put(digest.schedule("odd", { payload: { to: 1 as never }, cron: "0 3 * * *" }))
    )
    expect(wrong).toMatchObject({ code: "INVALID_SCHEDULE", field: "payload" })
    expect(
      await rejection(shift.schedules.put(digest.schedule("odd", { payload: { to: "x" }, cron: "never" })))
    ).toMatchObject({ code: "INVALID_SCHEDULE", field: "cron" })
  })
})
