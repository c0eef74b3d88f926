import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber, FiberId, Logger, LogLevel, Schema } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import type { JobAdmin } from "../../src/queue/JobAdmin.js"
import { JobLogs } from "../../src/queue/logs/JobLogs.js"
import type { Queue } from "../../src/queue/Queue.js"
import type { RateLimits } from "../../src/rate-limits/RateLimits.js"
import { TestShift, type TestShiftOptions } from "../../src/testing/TestShift.js"

const Call = Job.make("call", { payload: Schema.Unknown, attempts: 3 })

/** Runs a test with these handlers, without printing their lines. */
const inShift =
  (options: TestShiftOptions<Queue | RateLimits>) =>
  <A, E>(test: Effect.Effect<A, E, TestShift | JobLogs | JobAdmin | Queue>) =>
    test.pipe(
      Effect.provide(TestShift.layer({ logLevel: LogLevel.Info, ...options })),
      Effect.provide(Logger.replace(Logger.defaultLogger, Logger.none))
    )

const logsOf = (id: JobId) => Effect.flatMap(JobLogs, (logs) => logs.read(id))

const messages = (id: JobId) =>
  Effect.map(logsOf(id), (logs) =>
    logs.map(({ attempt, lines }) => [attempt, lines.map(({ message }) => message).join(",")])
  )

/** Runs one job to its end. */
const drained = (payload: unknown = {}) =>
  Effect.gen(function* () {
    const shift = yield* TestShift
    const { id } = yield* Call.enqueue(payload)
    yield* shift.drain
    return id
  })

describe("what a handler logs", () => {
  it.effect("is stored with its attempt: levels, fields, errors and times", () => {
    const handler = Handler.promise(Call, async (_, { log, now }) => {
      log.debug("hidden")
      log.info("charging", { order: 7, kind: "vip" })
      log.warn("the bank said no", { error: new Error("declined"), at: now().getTime() })
    })
    return Effect.gen(function* () {
      const [log] = yield* logsOf(yield* drained())
      expect(log).toMatchObject({ attempt: 1, dropped: 0 })
      const [info, warn] = log?.lines ?? []
      expect(info).toEqual({
        at: warn?.fields?.at,
        level: "info",
        message: "charging",
        step: undefined,
        error: undefined,
        fields: { order: 7, fields: { kind: "vip" } }
      })
      expect(warn).toMatchObject({ level: "warn", message: "the bank said no" })
      expect(warn?.error).toMatch(/^Error: declined\n {4}at /)
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("is stored of Effect handlers, with annotations, and of the fibers they start", () => {
    const handler = Handler.make(Call, () =>
      Effect.gen(function* () {
        yield* Effect.log("a", { one: 1 })
        yield* Effect.all([Effect.log("b"), Effect.log("c")], { concurrency: 2 })
        yield* Fiber.join(yield* Effect.fork(Effect.logWarning("d")))
      }).pipe(Effect.annotateLogs("shop", 3))
    )
    return Effect.gen(function* () {
      const [log] = yield* logsOf(yield* drained())
      expect(log?.lines.map(({ fields, message }) => [message, fields])).toEqual([
        ["a", { shop: 3, one: 1 }],
        ["b", { shop: 3 }],
        ["c", { shop: 3 }],
        ["d", { shop: 3 }]
      ])
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("is stored for each attempt, also of those that fail, and of transactional handlers", () => {
    const fail = (attempt: number) => (attempt < 3 ? Effect.fail(new Error("no")) : Effect.void)
    const handler = Handler.makeInTransaction(Call, (_, { attempt }) =>
      Effect.zipRight(Effect.log(`attempt ${attempt}`), fail(attempt))
    )
    return Effect.gen(function* () {
      expect(yield* messages(yield* drained())).toEqual([
        [1, "attempt 1"],
        [2, "attempt 2"],
        [3, "attempt 3"]
      ])
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("continues in one log when runs do not use up the attempt", () => {
    let runs = 0
    const handler = Handler.promise(Call, async (_, { log }) => {
      runs += 1
      log.info(`run ${runs}`)
      return runs < 3 ? Outcome.snooze("1m") : undefined
    })
    return Effect.gen(function* () {
      expect(yield* messages(yield* drained())).toEqual([[1, "run 1,run 2,run 3"]])
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("is masked like the payload", () => {
    const payload = { password: "hunter2", name: "Ada" }
    const handler = Handler.promise(Call, async (given, { log }) => {
      log.info(`for ${JSON.stringify(given)} and hunter2`, { password: "x", error: new Error("hunter2") })
    })
    return Effect.gen(function* () {
      const logs = JSON.stringify(yield* logsOf(yield* drained(payload)))
      expect(logs).not.toMatch(/hunter2/)
      expect(logs).toContain("Ada")
      expect(logs).toContain("[masked]")
    }).pipe(inShift({ handlers: [handler], mask: ["password"] }))
  })

  it.effect("is cut to the last lines", () => {
    const handler = Handler.promise(Call, async (_, { log }) => {
      for (let line = 1; line <= 1_000; line += 1) log.info(`line ${line}`)
    })
    return Effect.gen(function* () {
      const [log] = yield* logsOf(yield* drained())
      expect([log?.lines.length, log?.dropped]).toEqual([200, 800])
      expect([log?.lines[0]?.message, log?.lines.at(-1)?.message]).toEqual(["line 801", "line 1000"])
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("is cut by size, and a large line is cut itself", () => {
    const handler = Handler.promise(Call, async (_, { log }) => {
      for (let line = 1; line <= 100; line += 1) log.info("\u0000\u0001ä".repeat(300))
      log.info("x".repeat(100_000), { large: "y".repeat(15_000), more: "z".repeat(15_000) })
    })
    return Effect.gen(function* () {
      const [log] = yield* logsOf(yield* drained())
      const bytes = (log?.lines ?? []).reduce((sum, line) => sum + Buffer.byteLength(JSON.stringify(line)) + 1, 0)
      expect(bytes).toBeLessThanOrEqual(32 * 1024)
      expect(bytes).toBeGreaterThan(24 * 1024)
      const last = log?.lines.at(-1)
      expect(last?.message).toMatch(/^x{1000,8000}…$/)
      expect(last?.fields).toEqual({ "…": "too large to store" })
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("is stored a second later while the attempt runs, and once more with its end only if there is more", () => {
    const gate = Deferred.unsafeMake<void>(FiberId.none)
    const handler = Handler.make(Call, () =>
      Effect.log("first").pipe(Effect.zipRight(Deferred.await(gate)), Effect.zipRight(Effect.log("last")))
    )
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Call.enqueue({})
      yield* shift.settle
      expect(yield* messages(id)).toEqual([])
      yield* shift.advance("1 second")
      expect(yield* messages(id)).toEqual([[1, "first"]])
      yield* Deferred.succeed(gate, undefined)
      yield* shift.settle
      expect(yield* messages(id)).toEqual([[1, "first,last"]])
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("stays of an attempt whose process was killed, as far as it was stored", () => {
    let runs = 0
    const handler = Handler.make(Call, () => {
      runs += 1
      return runs === 1
        ? Effect.log("stored").pipe(
            Effect.zipRight(Effect.sleep("10 seconds")),
            Effect.zipRight(Effect.log("not stored")),
            Effect.zipRight(Effect.never)
          )
        : Effect.log("again")
    })
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Call.enqueue({})
      yield* shift.advance("10 seconds")
      yield* shift.crashPod
      expect(yield* messages(id)).toEqual([[1, "stored"]])
      yield* shift.advance("2 hours")
      expect(yield* messages(id)).toEqual([[1, "stored,again"]])
    }).pipe(inShift({ handlers: [handler] }))
  })

  it.effect("is dropped after the end of the attempt, and not given to the next job of the slot", () => {
    const late: Array<() => void> = []
    const gate = Deferred.unsafeMake<void>(FiberId.none)
    const Other = Job.make("other", { payload: Schema.Unknown })
    const handlers = [
      Handler.promise(Call, async (_, { log }) => {
        log.info("in time")
        late.push(() => log.info("late"))
      }),
      Handler.make(Other, () =>
        Effect.log("begun").pipe(
          Effect.tap(() => Effect.forkDaemon(Effect.zipRight(Deferred.await(gate), Effect.log("late")))),
          Effect.zipRight(
            Effect.sync(() => {
              for (const log of late) log()
            })
          ),
          Effect.zipRight(Effect.log("ended"))
        )
      )
    ]
    return Effect.gen(function* () {
      const shift = yield* TestShift
      const { id: call } = yield* Call.enqueue({})
      yield* shift.settle
      const { id: first } = yield* Other.enqueue({})
      yield* shift.settle
      late.push(() => Deferred.unsafeDone(gate, Effect.void))
      const { id: second } = yield* Other.enqueue({})
      yield* shift.settle
      yield* shift.advance("5 seconds")
      expect([yield* messages(call), yield* messages(first), yield* messages(second)]).toEqual([
        [[1, "in time"]],
        [[1, "begun,ended"]],
        [[1, "begun,ended"]]
      ])
    }).pipe(inShift({ handlers, slots: 1 }))
  })

  it.effect("costs nothing if there is none", () => {
    const handler = Handler.promise(Call, async () => {})
    return Effect.gen(function* () {
      expect(yield* logsOf(yield* drained())).toEqual([])
    }).pipe(inShift({ handlers: [handler] }))
  })
})
