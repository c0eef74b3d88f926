import { Cause, Effect, Exit, Schema } from "effect"
import { describe, expect, it, vi } from "vitest"
import { z } from "zod"
import { ofRecipe } from "../../src/client/Handlers.js"
import { JobCancelledError, JobDeadError, job, Outcome, TransactionError, workflow } from "../../src/client/index.js"
import * as EffectJob from "../../src/queue/Job.js"
import { TestShift } from "../../src/testing/effect.js"
import { type PromiseTestShiftOptions, testShift } from "../../src/testing/index.js"

const remind = job("remind", {
  payload: z.object({ who: z.string() }),
  result: z.string(),
  attempts: 3,
  backoff: ["1h", "6h"]
})
const reminded = remind.handle(async ({ who }) => `reminded ${who}`)

describe("testShift", () => {
  it("runs a delayed job when its time has come, and not before", async () => {
    await using shift = await testShift({ handlers: [reminded] })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "7d" })
    await shift.advance("6d23h")
    expect((await shift.job(id)).state).toBe("scheduled")
    await shift.advance("1h")
    expect(await shift.job(id)).toMatchObject({ state: "done", result: "reminded Ada", finishedAt: shift.now() })
    expect(await shift.result(id)).toBe("reminded Ada")
  })

  it("logs warnings to the console, to another logger or nowhere", async () => {
    const failing = remind.handle(() => Promise.reject(new Error("no luck")))
    const printed: Array<string> = []
    const warn = vi.spyOn(console, "warn").mockImplementation((line) => void printed.push(String(line)))
    const lines: Array<string> = []
    const write = (line: string) => void lines.push(line)
    const sink = { debug: write, info: write, warn: write, error: write }
    const run = async (options: Omit<PromiseTestShiftOptions, "handlers">) => {
      await using shift = await testShift({ handlers: [failing], ...options })
      await shift.enqueue(remind, { who: "Ada" })
      await shift.settle()
    }
    await run({})
    expect(printed).toEqual([
      expect.stringMatching(
        /^a job failed \(attempt 1 of 3, retry in 1h\) {2}job=\S+ kind=remind queue=default attempt=1\n {4}no luck\n {8}at /
      )
    ])
    await run({ log: false })
    await run({ logLevel: "none" })
    await run({ logLevel: "error" })
    await run({ log: sink })
    expect(printed).toHaveLength(1)
    expect(lines).toEqual(["a job failed (attempt 1 of 3, retry in 1h)"])
    await run({ log: sink, logLevel: "info" })
    expect(lines.length).toBeGreaterThan(2)
    await expect(run({ logLevel: "loud" as never })).rejects.toThrow(
      'logLevel must be debug, info, warn, error or none, got "loud".'
    )
    warn.mockRestore()
  })

  it.each([
    ["slots", 0, "slots must be a whole number of at least 1, got 0."],
    ["slots", "3", 'slots must be a whole number of at least 1, got "3".'],
    ["seed", Number.NaN, "seed must be a number, got NaN."],
    ["mask", "password", 'mask must be a list of names of fields, got "password".']
  ])("refuses the option %s: %s", async (option, value, message) => {
    const options = { handlers: [reminded], [option]: value } as PromiseTestShiftOptions
    await expect(testShift(options)).rejects.toMatchObject({ name: "InvalidOptionError", option, message })
  })

  it("says that time is virtual if a handler that waits in real time is not done", async () => {
    let release = () => {}
    const waiting = remind.handle(
      () =>
        new Promise<string>((done) => {
          release = () => done("late")
        })
    )
    await using shift = await testShift({ handlers: [waiting] })
    const { id } = await shift.enqueue(remind, { who: "Ada" })
    await expect(shift.result(id, { timeout: "3s" })).rejects.toThrow(
      /was not done within 3s\. It runs in process \w+\. Time is virtual in a test, and the clock waits at most 100 ms/
    )
    release()
  })

  it("retries as the job specifies", async () => {
    const at: Array<number> = []
    const failing = remind.handle(async (_, { attempt }) => {
      at.push(shift.now().getTime() / 3_600_000)
      throw new Error(`no luck ${attempt}`)
    })
    await using shift = await testShift({ handlers: [failing] })
    const { id } = await shift.enqueue(remind, { who: "Ada" })
    await shift.drain()
    expect(at).toEqual([0, 1, 7])
    expect(await shift.job(id)).toMatchObject({ state: "dead", attempt: 3, reason: "exhausted" })
    await expect(shift.result(id)).rejects.toBeInstanceOf(JobDeadError)
    await expect(shift.result(id)).rejects.toThrow("after 3 attempts: no luck 3. Fix the cause, then requeue it.")
  })

  it("gives handlers the virtual time", async () => {
    const told = remind.handle((_, { now }) => now().toISOString())
    await using shift = await testShift({ handlers: [told], startAt: "2030-01-01T00:00:00Z" })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1h30m5s" })
    await shift.drain()
    expect(await shift.result(id)).toBe("2030-01-01T01:30:05.000Z")
  })

  it("runs the jobs of one key one at a time", async () => {
    let running = 0
    let most = 0
    const held = remind.handle(async ({ who }) => {
      running += 1
      most = Math.max(most, running)
      await new Promise((done) => setImmediate(done))
      running -= 1
      return who
    })
    const perKey = { concurrency: 1, order: "strict" } as const
    await using shift = await testShift({ handlers: [held], queues: { default: { perKey } } })
    for (const who of ["Ada", "Bob", "Cid"]) await shift.enqueue(remind, { who }, { key: "customer-1" })
    await shift.drain()
    expect(most).toBe(1)
    expect((await shift.jobs.list().toArray()).map(({ state }) => state)).toEqual(["done", "done", "done"])
  })

  it("says in the error of a timeout that the handler waited in real time", async () => {
    let release = () => {}
    const waiting = remind.handle((_, { attempt }) =>
      attempt > 1 ? "reminded" : new Promise<string>((resolve) => (release = () => resolve("too late")))
    )
    await using shift = await testShift({ handlers: [waiting] })
    const { id } = await shift.enqueue(remind, { who: "Ada" })
    await shift.advance("16m")
    expect((await shift.job(id)).lastError).toBe(
      "timed out after 15m: in a test the clock waits at most 100 ms of real time for a run of a handler, and this run took longer"
    )
    release()
  })

  it("says of a cancelled job how to run it again", async () => {
    await using shift = await testShift({ handlers: [reminded] })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { delay: "1h" })
    await shift.cancel(id)
    const cancelled = await shift.result(id).catch((error: unknown) => error)
    expect(cancelled).toBeInstanceOf(JobCancelledError)
    expect(cancelled).toMatchObject({ message: expect.stringContaining("was cancelled. Requeue it to run it again.") })
  })

  it("varies the delays of retries with jitter", async () => {
    const at: Array<number> = []
    const spread = job("spread", { payload: z.object({}), attempts: 2, backoff: "1h", jitter: 0.5 })
    const failing = spread.handle(async (_, { attempt }) => {
      if (attempt === 2) at.push(shift.now().getTime() / 3_600_000)
      throw new Error("no luck")
    })
    await using shift = await testShift({ handlers: [failing] })
    await shift.enqueueMany(
      spread,
      Array.from({ length: 20 }, () => ({}))
    )
    await shift.drain()
    expect(new Set(at).size).toBeGreaterThan(10)
    expect(at.every((hours) => hours >= 0.5 && hours <= 1.5)).toBe(true)
    const bad = () => job("bad", { payload: z.object({}), jitter: 2 })
    expect(bad).toThrow('backoff of "bad": jitter must be a number from 0 to 1, or a boolean, got 2.')
  })

  it("keeps where an error was thrown, and its causes, apart from the message", async () => {
    const post = async (): Promise<string> => {
      throw new TypeError("fetch failed", { cause: new Error("connect ECONNREFUSED") })
    }
    const failing = remind.handle(async (_, { attempt }) => {
      return post().catch((cause: unknown) => {
        throw new Error(`no luck ${attempt}`, { cause })
      })
    })
    await using shift = await testShift({ handlers: [failing] })
    const { id } = await shift.enqueue(remind, { who: "Ada" })
    await shift.drain()
    const shown = await shift.job(id)
    expect(shown.lastError).toBe("no luck 3")
    expect(shown.lastErrorStack).toMatch(/^ {4}at .*PromiseTestShift\.test\.ts:\d+:\d+\)?\n/)
    expect(shown.lastErrorStack).toMatch(/\nCaused by: TypeError: fetch failed\n {4}at post \(/)
    expect(shown.lastErrorStack).toContain("\nCaused by: Error: connect ECONNREFUSED\n    at post (")
    expect(shown.lastErrorStack).not.toMatch(/node:internal|node_modules\/effect/)
    expect(shown.history.map(({ message }) => message)).toEqual(["no luck 1", "no luck 2", "no luck 3"])
    expect(shown.history.every(({ stack }) => stack?.includes("Caused by: TypeError: fetch failed"))).toBe(true)
    const other = await shift.enqueue(remind, { who: "Bob" })
    await expect(shift.result(other.id, { timeout: "1m" })).rejects.toThrow(
      "Attempt 1 of 3 failed, and the job waits for its retry. Run it now if the cause is fixed. The wait ends at"
    )
    await expect(shift.result(id)).rejects.toMatchObject({
      lastError: "no luck 3",
      lastErrorStack: shown.lastErrorStack
    })
  })

  it("fails at once when a job has no handler", async () => {
    await using shift = await testShift({ handlers: [reminded] })
    const b = job("b", { payload: z.object({}) })
    const { id } = await shift.enqueue(b, {})
    const missing = 'no handler for "b" in testShift({ handlers })'
    await expect(shift.drain()).rejects.toThrow(missing)
    await expect(shift.drain()).rejects.toMatchObject({ name: "InvalidOptionError", option: "handlers" })
    await expect(shift.result(id)).rejects.toThrow(missing)
    await expect(shift.result(id, { timeout: "1h" })).rejects.toThrow(missing)
    for (const failed of [shift.drain(), shift.result(id)]) {
      const error = await failed.catch((thrown: unknown) => thrown as Error)
      const frames = String((error as Error).stack)
        .split("\n")
        .filter((line) => /^ +at /.test(line))
      expect(frames).toEqual([expect.stringMatching(/PromiseTestShift\.test\.ts:\d+:\d+/)])
    }
    const later = await shift.enqueue(b, {}, { delay: "1d" })
    await expect(shift.result(later.id)).rejects.toThrow(missing)
  })

  it("fails at once in the form for Effect, with no frames of the harness", async () => {
    const other = EffectJob.make("other", { payload: Schema.Struct({}) })
    const failed = await Effect.gen(function* () {
      yield* other.enqueue({})
      const shift = yield* TestShift
      return yield* Effect.exit(shift.drain)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [ofRecipe(reminded)] })), Effect.runPromise)
    const error = Exit.isFailure(failed) ? Cause.squash(failed.cause) : undefined
    expect(error).toMatchObject({ name: "InvalidOptionError", option: "handlers" })
    const lines = String((error as Error).stack).split("\n")
    expect(lines[0]).toContain('no handler for "other"')
    expect(lines.slice(1)).toEqual([expect.stringMatching(/PromiseTestShift\.test\.ts:\d+:\d+/)])
  })

  it("keeps every job, or done jobs as long as the test says", async () => {
    const count = async (options: Pick<PromiseTestShiftOptions, "retention">) => {
      await using shift = await testShift({ handlers: [reminded], ...options })
      await shift.enqueue(remind, { who: "Ada" })
      await shift.advance("20d")
      return await shift.jobs.count()
    }
    expect(await count({})).toBe(1)
    expect(await count({ retention: "10d" })).toBe(0)
  })

  it("fails at once when the queue of a job is not served", async () => {
    await using shift = await testShift({ handlers: [reminded] })
    const { id } = await shift.enqueue(remind, { who: "Ada" }, { queue: "elsewhere" })
    const unserved = 'queue "elsewhere" is not in testShift({ queues })'
    await expect(shift.drain()).rejects.toThrow(unserved)
    await expect(shift.result(id)).rejects.toThrow(unserved)
  })

  it("gives a schedule the queue and attempts of its job, though no worker has registered the kind", async () => {
    const nightly = job("nightly", { payload: z.object({}), queue: "reports", attempts: 7 })
    const nights = nightly.schedule("nights", { payload: {}, cron: "0 0 * * *" })
    await using shift = await testShift({ handlers: [reminded], schedules: [nights] })
    const stored = await shift.job(await shift.schedules.trigger("nights"))
    expect(stored).toMatchObject({ queue: "reports", attempts: 7 })
  })

  it("fires schedules at their instants", async () => {
    await using shift = await testShift({
      handlers: [reminded],
      schedules: [
        remind.schedule("nightly", { payload: { who: "all" }, cron: "0 3 * * *", timezone: "Europe/Berlin" })
      ],
      startAt: "2026-03-28T00:00:00Z"
    })
    await shift.advance("3d")
    const runs = (await shift.jobs.list({}, { order: "asc" }).toArray()).map(({ startedAt }) =>
      startedAt?.toISOString()
    )
    expect(runs).toEqual(["2026-03-28T02:00:00.000Z", "2026-03-29T01:00:00.000Z", "2026-03-30T01:00:00.000Z"])
  })

  it("runs the follow-up of a batch once, after the jobs that its jobs added", async () => {
    const page = job("page", { payload: z.object({ number: z.number() }) })
    const book = job("book", { payload: z.object({ title: z.string() }) })
    const counts: Array<unknown> = []
    await using shift = await testShift({
      handlers: [
        page.handle(async ({ number }, { attempt, id }) => {
          if (number === 2 && attempt === 1) throw new Error("paper jam")
          const { batch = "" } = await shift.job(id)
          if (number === 1) await shift.batches.add(batch, (add) => add(page, { number: 4 }))
        }),
        book.handle(async ({ title }, { meta }) => {
          counts.push([title, meta])
        })
      ]
    })
    const batch = await shift.batches.create(
      (add) => {
        for (const number of [1, 2, 3]) add(page, { number })
      },
      { name: "print", followUp: book.followUp({ title: "Notes" }) }
    )
    await shift.advance("5s")
    expect(counts).toEqual([])
    expect(await shift.batches.get(batch.id)).toMatchObject({
      name: "print",
      total: 4,
      counts: { unfinished: 1, done: 3 }
    })
    await shift.advance("5m")
    const ended = { id: batch.id, total: 4, done: 4, dead: 0, cancelled: 0, deleted: 0 }
    expect(counts).toEqual([["Notes", { batch: ended }]])
    await expect(shift.batches.add(batch.id, (add) => add(page, { number: 5 }))).rejects.toMatchObject({
      code: "BATCH_CLOSED"
    })
  })

  it("stores what handlers enqueue, runs follow-ups of the dead, and recovers after a crash", async () => {
    const apology = job("apology", { payload: z.object({ who: z.string() }) })
    const risky = job("risky", {
      payload: z.object({ who: z.string() }),
      attempts: 1,
      onDead: ({ who }) => apology.followUp({ who })
    })
    const said: Array<string> = []
    await using shift = await testShift({
      handlers: [
        apology.handle(({ who }) => void said.push(who)),
        risky.handle(async ({ who }, { enqueue }) => {
          const { outcome } = await enqueue(apology, { who: `${who} early` }, { dedupe: "early" })
          expect(outcome).toBe("enqueued")
          return Outcome.dead("as expected")
        })
      ]
    })
    await shift.enqueue(risky, { who: "Ada" })
    await shift.drain()
    expect(said.toSorted()).toEqual(["Ada", "Ada early"])
    await shift.enqueue(apology, { who: "Bob" }, { delay: "1h" })
    await shift.crash()
    await shift.advance("2h")
    expect(said).toContain("Bob")
  })

  it("stores jobs of a transaction at once, and reports that handlers and steps have no database", async () => {
    const book = job("book", { payload: z.object({}), attempts: 1 })
    const order = workflow("order", { payload: z.object({}), key: () => "A" }, (_, step) =>
      step.runInTransaction("book", async ({ tx }) => void (await tx.query("select 1")), { attempts: 1 })
    )
    await using shift = await testShift({
      handlers: [book.handleInTransaction(async (_, { tx }) => void (await tx.query("select 1"))), order]
    })
    await shift.start(order, {})
    const tx = { query: () => Promise.reject(new Error("not called")) }
    const { id } = await shift.enqueue(book, {}, { tx })
    await shift.drain()
    expect((await shift.job(id)).lastError).toContain("has no database")
    expect((await shift.execution(order, "A").status()).lastError).toContain("has no database")
    await expect(shift.enqueue(book, {}, { tx: {} as never })).rejects.toBeInstanceOf(TransactionError)
  })

  it("gives a copy of a handler's context the signal too", async () => {
    const wrapped = job("wrapped", { payload: z.object({}) })
    const inner = (context: { readonly signal: AbortSignal }) => context.signal instanceof AbortSignal
    await using shift = await testShift({ handlers: [wrapped.handle((_, context) => inner({ ...context }))] })
    const { id } = await shift.enqueue(wrapped, {})
    await shift.drain()
    expect(await shift.result(id)).toBe(true)
  })
})
