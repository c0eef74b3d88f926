import { Schema } from "effect"
import { describe, expect, it } from "vitest"
import { z } from "zod"
import { connect, InvalidPayloadError, JobNotFoundError, job, worker, workflow } from "../../src/client/index.js"
import { testShift } from "../../src/testing/index.js"
import * as LoadedMachine from "../support/LoadedMachine.js"
import { useDatabase } from "./ClientDatabase.js"
import { refused } from "./Refused.js"

// Calls that the types forbid, or that contradict themselves, as programs in JavaScript make them.

const database = useDatabase()
const add = job("add", { payload: z.object({ a: z.number(), rest: z.any() }) })
const handler = add.handle(() => {})

describe("a mistake in a call is reported by it", () => {
  it("what is enqueued is not a job", async () => {
    await using shift = await testShift({ handlers: [handler] })
    expect(await refused(() => shift.enqueue(undefined as never, {} as never))).toMatch(
      /must be a job that job\(…\) returned, got undefined/
    )
    expect(await refused(() => shift.enqueue("add" as never, {} as never))).toContain('got "add"')
    expect(await refused(() => shift.enqueueMany("add" as never, []))).toContain('got "add"')
  })

  it("an option does not exist", async () => {
    await using tested = await testShift({ handlers: [handler] })
    await using stored = await connect(database.url(), { log: false })
    const payload = z.object({})
    const unknown = "00000000-0000-7000-8000-000000000000"
    const wrong: ReadonlyArray<readonly [call: (options: never) => unknown, given: object, refusal: RegExp]> = [
      [
        (options) => connect(database.url(), options),
        { shema: "a" },
        /^shema is not an option of connect: use schema, /
      ],
      [
        (options) => worker(stored, options),
        { workflows: [handler] },
        /^workflows is not an option of worker: use handlers, /
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], queue: ["a"] },
        /^queue is not .* Did you mean queues\?$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], health: { prot: 1 } },
        /^health\.prot is not an option of health: .* Did you mean port\?$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], health: { port: "9090" } },
        /^health\.port must be a whole number from 0 to 65535, got "9090"\.$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], health: 9090 },
        /^health must be an object like \{ port: 9090 \}, got 9090\.$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], grace: "soon" },
        /^grace must be .*, got "soon"\.$/
      ],
      [(options) => testShift(options), { handlers: [handler], grace: "soon" }, /^grace must be .*, got "soon"\.$/],
      [(options) => testShift(options), { handlers: [handler], retention: "a" }, /^retention must be .*, got "a"\.$/],
      [(options) => testShift(options), { handlers: [handler], startAt: "now" }, /^startAt must be .*, got "now"\.$/],
      [
        (options) => stored.result(unknown, options),
        { signal: {} },
        /^signal must be an AbortSignal, got an object\.$/
      ],
      [(options) => testShift(options), { handlers: [handler], slot: 1 }, /^slot is not .* Did you mean slots\?$/],
      [(options) => job("a", options), { payload, retries: 3 }, /^retries is not an option of "a": use payload, /],
      [(options) => job("a", options), { payload, maxAttempts: 3 }, /^maxAttempts is not .* Did you mean attempts\?$/],
      [
        (options) => job("a", options),
        { payload, backoff: { base: "1s", max: "1m", jiter: 1 } },
        /^backoff\.jiter is not .* Did you mean jitter\?$/
      ],
      [(options) => add.schedule("s", options), { crom: "@daily" }, /^crom is not .* Did you mean cron\?$/],
      [(options) => workflow("w", options, async () => {}), { payload, onFail: 1 }, /^onFail is not an option of "w"/],
      [(options) => tested.enqueue(add, { a: 1, rest: 1 }, options), { delya: "1s" }, /^delya is not .* delay\?$/],
      [(options) => tested.enqueueMany(add, [], options), { delya: "1s" }, /^delya is not .* delay\?$/],
      [(options) => tested.result("id", options), { timout: "1s" }, /^timout is not .* Did you mean timeout\?$/],
      [
        (options) => tested.batches.create(() => {}, options),
        { title: "a" },
        /^title is not an option of a batch: use name/
      ],
      [(options) => tested.queues.change("q", options), { worker: 1 }, /^worker is not a setting of a queue/],
      [
        (options) => tested.queues.change("q", options),
        { rate: { jobs: 1, every: "1s" } },
        /^rate\.every is not a setting/
      ],
      [(options) => tested.queues.change("q", options), { perKey: { limit: 1 } }, /^perKey\.limit is not a setting/],
      [(options) => tested.queues.change("q", options), { backoff: { on: true } }, /^backoff\.on is not a setting/],
      [
        (options) => tested.queues.change("q", options),
        { backoff: null },
        /^backoff must be an object with any of enabled, base and max, got null\.$/
      ],
      [
        (options) => tested.queues.change("q", options),
        { perKey: {} },
        /^perKey\.concurrency must be a whole number from 1 to 10000, got undefined\.$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], queues: { mail: { perKey: { concurrency: 1, order: "fifo" } } } },
        /^queues\.mail\.perKey\.order must be "none", "serial" or "strict", got "fifo"\.$/
      ],
      [
        (options) => tested.queues.change("q", options),
        { rate: "100 per minute" },
        /^rate must be a number of jobs and a period like 100\/m or 10\/30s, or .*, got "100 per minute"\.$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], queues: { mail: 0 } },
        /^queues\.mail must be a whole number from 1 to 10000, got 0\.$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], queues: { mail: { worker: 3 } } },
        /^queues\.mail\.worker is not a setting of a queue: use workers, .* Did you mean workers\?$/
      ],
      [
        (options) => worker(stored, options),
        { handlers: [handler], queues: { mail: { perKey: { concurrency: 2, order: "serial" } } } },
        /^queues\.mail\.perKey\.concurrency must be 1 with order serial/
      ],
      [
        (options) => testShift(options),
        { handlers: [handler], queues: { mail: { rate: "often" } } },
        /^queues\.mail\.rate must be a number of jobs/
      ]
    ]
    for (const [call, given, refusal] of wrong) expect(await refused(() => call(given as never))).toMatch(refusal)
  })

  it("an id is not one of a job", async () => {
    await using tested = await testShift({ handlers: [handler] })
    await using stored = await connect(database.url(), { log: false })
    for (const shift of [tested, stored]) {
      for (const method of ["job", "why", "cancel", "requeue", "result"] as const) {
        const call = shift[method] as (id: unknown) => Promise<unknown>
        expect(await refused(() => call("nope"))).toBe('There is no job "nope": a job id must be a UUID.')
        expect(await refused(() => call(undefined))).toBe(`The id that ${method} gets must be a string, got undefined.`)
        expect(await refused(() => call(""))).toBe(`The id that ${method} gets must not be empty.`)
        await expect(call("0198C0DE-0000-7000-8000-000000000000")).rejects.toBeInstanceOf(JobNotFoundError)
      }
    }
  })

  it("the payload of a workflow with a key is invalid, or its key is", async () => {
    const greet = workflow("greet", { payload: z.object({ who: z.string() }), key: ({ who }) => who }, async () => {})
    await using shift = await testShift({ handlers: [greet] })
    const start = (payload: unknown, key?: unknown) =>
      shift.start(greet, payload as { who: string }, { key: key as string | undefined })
    for (const payload of [{ who: 1 }, null, {}])
      await expect(start(payload)).rejects.toBeInstanceOf(InvalidPayloadError)
    const fault = 'The key of an execution of "greet" must be a string that is not empty, got '
    expect(await refused(() => start({ who: "" }))).toBe(`${fault}"".`)
    expect(await refused(() => start({ who: "Ada" }, 7))).toBe(`${fault}7.`)
    expect(await refused(async () => shift.execution(greet, undefined as never))).toBe(`${fault}undefined.`)
    expect(await shift.jobs.count()).toBe(0)
  })

  it("a payload is circular", async () => {
    await using shift = await testShift({ handlers: [handler] })
    const rest: Record<string, unknown> = {}
    rest.self = rest
    expect(await refused(() => shift.enqueue(add, { a: 1, rest }))).toMatch(/payload.*(circular|cycle|JSON)/)
  })

  it("a payload or a result contains a Map or a Set", async () => {
    const values = { map: new Map([["a", 1]]), set: new Set([1]), nested: { list: [{ seen: new Set() }] }, empty: {} }
    const collect = job("collect", { payload: z.object({ name: z.enum(["map", "set", "nested", "empty"]) }) })
    await using shift = await testShift({ handlers: [handler, collect.handle(({ name }) => values[name])] })
    const reason = "must not contain a Map or a Set, which JSON cannot express: use an object or an array"
    for (const name of ["map", "set", "nested"] as const) {
      expect(await refused(() => shift.enqueue(add, { a: 1, rest: values[name] }))).toBe(`payload ${reason}.`)
      const { id } = await shift.enqueue(collect, { name })
      expect(await refused(() => shift.result(id))).toContain(`its result ${reason}`)
    }
    const dated = { at: new Date(0), none: {} }
    const { id } = await shift.enqueue(add, { a: 1, rest: dated })
    expect((await shift.job(id)).payload).toEqual({ a: 1, rest: { at: "1970-01-01T00:00:00.000Z", none: {} } })
    const empty = await shift.enqueue(collect, { name: "empty" })
    expect(await shift.result(empty.id)).toEqual({})
  })

  it("options contradict each other or are out of range", async () => {
    await using shift = await testShift({ handlers: [handler] })
    const payload = { a: 1, rest: 0 }
    expect(await refused(() => shift.enqueue(add, payload, { delay: "5m", runAt: 0 }))).toBe(
      "Pass delay or runAt, not both."
    )
    expect(await refused(() => shift.enqueue(add, payload, { attempts: 0 }))).toMatch(/attempts/)
    expect(await refused(() => job("never", { payload: z.object({}), attempts: 0 }))).toMatch(/attempts/)
  })

  it("an option of a job has the wrong type or does not exist", async () => {
    await using shift = await testShift({ handlers: [handler] })
    const enqueue = (options: unknown) => refused(() => shift.enqueue(add, { a: 1, rest: 0 }, options as never))
    expect(await enqueue({ key: 5 })).toBe("key must be a string, got 5.")
    expect(await enqueue({ queue: 5 })).toMatch(/^queue must be/)
    expect(await enqueue({ attempts: "3" })).toBe('attempts must be a whole number from 1 to 1000, got "3".')
    expect(await enqueue({ dedupe: 5 })).toBe("dedupe must be a key or an object with a key, got 5.")
    expect(await enqueue({ dedupe: {} })).toBe("dedupe.key must be a string, got undefined.")
    expect(await enqueue({ dedupe: { key: "a", scope: "always" } })).toBe(
      'dedupe.scope must be active or retained, got "always".'
    )
    expect(await enqueue({ dedupe: { key: "a", windw: "5m" } })).toBe(
      "dedupe.windw is not an option of a dedupe key: use key, scope, window, replace. Did you mean window?"
    )
    expect(await enqueue({ meta: [] })).toBe("meta must be an object, got an array.")
    expect(await enqueue({ dedup: "a" })).toBe(
      "dedup is not an option of enqueue: use id, queue, priority, attempts, runAt, delay, key, dedupe, meta, subject, tx. Did you mean dedupe?"
    )
    expect(await enqueue({ runAt: "tomorrow" })).toBe(
      'runAt must be a Date, an ISO 8601 string or epoch milliseconds, got "tomorrow".'
    )
    expect(await enqueue({ runAt: new Date("tomorrow") })).toMatch(/got an invalid Date\.$/)
    expect(await enqueue({ runAt: {} })).toMatch(/got an object\.$/)
    const many = shift.enqueueMany(add, [{ a: 1, rest: 0 }], { dedupe: () => 5 as never })
    expect(await refused(() => many)).toBe("dedupe must be a key or an object with a key, got 5.")
  })

  it("the payload of one job of many is invalid", async () => {
    await using shift = await testShift({ handlers: [handler] })
    const good = { a: 1, rest: 0 }
    const many = (...payloads: ReadonlyArray<unknown>) => refused(() => shift.enqueueMany(add, payloads as never))
    expect(await many(good, good, { a: "one", rest: 0 })).toMatch(
      /^Job 2: the payload of job "add" is invalid: payload\.a/
    )
    expect(await many({ a: "one", rest: 0 })).toMatch(/^The payload of job "add" is invalid: payload\.a/)
  })

  it("a duration of a job cannot be read", async () => {
    const declare = (options: object) => refused(() => job("x", { payload: z.object({}), ...options }))
    const rule = "must be a duration like 90s, 30m, 1h30m or 7d, or a number of milliseconds"
    expect(await declare({ timeout: "3 parsecs" })).toBe(`timeout of "x" ${rule}, got "3 parsecs".`)
    expect(await declare({ backoff: "soon" })).toBe(`backoff of "x" ${rule}, got "soon".`)
    expect(await declare({ backoff: ["1s", "soon"], jitter: true })).toBe(`backoff[1] of "x" ${rule}, got "soon".`)
    expect(await declare({ backoff: [] })).toBe(`backoff[0] of "x" ${rule}, got undefined.`)
    expect(await declare({ backoff: { base: "1s" } })).toBe(`backoff.max of "x" ${rule}, got undefined.`)
    expect(await declare({ backoff: { base: "soon", max: "1h" } })).toMatch(/^backoff\.base of "x"/)
  })

  it("a job is declared without a validator", async () => {
    const declare = job as (name: unknown, options?: unknown) => unknown
    expect(await refused(() => declare("bare"))).toBe(
      'job("bare") needs options with a payload validator, such as { payload: z.object({ id: z.string() }) }.'
    )
    expect(await refused(() => declare("bare", {}))).toMatch(
      /^payload of "bare" must be a Standard Schema validator.*got undefined/
    )
    expect(await refused(() => declare("bare", { payload: { id: "string" } }))).toMatch(
      /got an object without "~standard"/
    )
    expect(await refused(() => declare("bare", { payload: Schema.Struct({}) }))).toBe(
      'payload of "bare" is an Effect Schema: pass Schema.standardSchemaV1(schema).'
    )
    expect(await refused(() => declare("bare", { payload: z.object({}), result: "text" }))).toMatch(
      /^result of "bare" must be/
    )
    expect(await refused(() => declare(undefined, { payload: z.object({}) }))).toMatch(/name/)
  })

  it("a worker has no handlers", async () => {
    await using shift = await connect(database.url(), { log: false })
    const start = worker as (shift: unknown, options?: unknown) => Promise<unknown>
    for (const options of [undefined, {}, { handlers: handler }, { handlers: [] }])
      expect(await refused(() => start(shift, options))).toMatch(/^worker\(\) needs/)
  })

  it("an argument has another type", async () => {
    await using shift = await connect(database.url(), { log: false })
    const [enqueue, start] = [shift.enqueue, worker] as ReadonlyArray<(...given: ReadonlyArray<unknown>) => unknown>
    const wrong: ReadonlyArray<readonly [call: () => unknown, refusal: RegExp]> = [
      [() => enqueue?.(add, { a: 1, rest: 0 }, { delay: Number.NaN }), /^delay must be a duration .*, got NaN\.$/],
      [() => enqueue?.(add, { a: 1, rest: 0 }, "5s"), /^options must be an object, got "5s": use id, queue, /],
      [() => enqueue?.(add, { a: 1, rest: 0 }, 5_000), /^options must be an object, got 5000: /],
      [() => enqueue?.(add, { a: 1, rest: 0 }, null), /^options must be an object, got null: /],
      [
        () => start?.(shift, { handlers: [handler], queues: "mail" }),
        /^queues must be a list of names, .*, got "mail"\.$/
      ],
      [() => start?.(shift, { handlers: [handler], grace: "ten" }), /^grace must be a duration like .*, got "ten"\.$/],
      [() => add.handle(undefined as never), /^handle of "add" needs a function, as in .*, got undefined\.$/],
      [
        () => add.handleInTransaction({} as never),
        /^handleInTransaction of "add" needs a function, .*, got an object\.$/
      ],
      [
        () => workflow("w", { payload: z.any() }, undefined as never),
        /^workflow\("w", options, code\) needs a function/
      ],
      [() => job("a", { payload: z.any(), attempts: "3" as never }), /^attempts of "a" must be .*, got "3"\.$/],
      [() => connect({ url: database.url() } as never), /^The first argument of connect\(\) must be a URL like /]
    ]
    for (const [call, refusal] of wrong) expect(await refused(call)).toMatch(refusal)
  })

  it("a handler is a job, or there are two for one kind", async () => {
    await using shift = await connect(database.url(), { log: false })
    for (const start of [
      (handlers: ReadonlyArray<typeof handler>) => worker(shift, { handlers }),
      (handlers: ReadonlyArray<typeof handler>) => testShift({ handlers })
    ]) {
      expect(await refused(() => start([add as never]))).toBe(
        'handlers[0] is the job "add", not a handler: pass add.handle(async (payload) => …).'
      )
      expect(await refused(() => start([undefined as never]))).toMatch(/handlers\[0\] is not a handler/)
      expect(await refused(() => start([handler, add.handle(() => {})]))).toBe(
        'handlers has two handlers for "add". Pass one of them.'
      )
    }
  })

  it("a worker does not serve the queues of its handlers", async () => {
    const warnings: Array<string> = []
    const warn = (text: string) => void (LoadedMachine.isAbout(text) || warnings.push(text))
    const log = { debug: () => {}, info: () => {}, warn, error: () => {} }
    await using shift = await connect(database.url(), { log })
    const letter = job("letter", { payload: z.object({}), queue: "mail" }).handle(() => {})
    const routed = job("gh.push", { payload: z.object({}) }).handle(() => {})
    await using _served = await worker(shift, {
      handlers: [handler, letter, routed],
      queues: ["default", "mail", "github"],
      routes: { "gh.": "github" }
    })
    expect(warnings).toEqual([])
    await using _misspelled = await worker(shift, { handlers: [handler, letter, routed], queues: ["mial", "github"] })
    expect(warnings).toEqual([
      'this worker serves mial, github, which are not the queues of these jobs: add (queue "default"), letter (queue "mail"). ' +
        "Add their queues to `queues`, unless another worker serves them."
    ])
  })

  it("a job does not exist, and the error says why that may be", async () => {
    await using shift = await connect(database.url(), { log: false })
    expect(await refused(() => shift.job("nope"))).toBe('There is no job "nope": a job id must be a UUID.')
    const id = "00000000-0000-7000-8000-000000000000"
    expect(await refused(() => shift.result(id))).toContain(
      "the transaction that enqueued it was rolled back or is not committed yet"
    )
  })

  it("the database does not accept the connection", async () => {
    const url = new URL(database.url())
    url.pathname = "/missing"
    expect(await refused(() => connect(url.href, { log: false }))).toMatch(
      /refused the connection: .*missing.* Correct the URL \(DATABASE_URL, or the argument of connect\(\)\)\.$/
    )
  })
})
