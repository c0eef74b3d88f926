import { describe, expect, it } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, HashMap, Layer, Logger, LogLevel, Option, Ref, Scope, TestClock } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { DatabaseFault, DatabaseUnavailable } from "../../src/database/DatabaseError.js"
import { type AttemptEnd, End } from "../../src/queue/AttemptEnd.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { jobAnnotation } from "../../src/telemetry/LogLine.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import * as VirtualClock from "../../src/testing/VirtualClock.js"
import { FailureLog } from "../../src/worker/slots/FailureLog.js"
import { Finalizer } from "../../src/worker/slots/Finalizer.js"
import * as JobMetrics from "../../src/worker/slots/JobMetrics.js"
import { handOver } from "../../src/worker/slots/Slot.js"

/** Switches the database off, and records what was written to it. */
class Away extends Context.Tag("test/Away")<
  Away,
  {
    readonly away: Ref.Ref<boolean | "for good" | "no password" | "defect">
    readonly refused: Ref.Ref<number>
    readonly written: Ref.Ref<number>
  }
>() {}

const flickering = Layer.effect(
  Queue,
  Effect.gen(function* () {
    const queue = yield* Queue
    const { away, refused, written } = yield* Away
    return {
      ...queue,
      finalize: (ends: ReadonlyArray<AttemptEnd>) =>
        Effect.gen(function* () {
          const now = yield* Ref.get(away)
          if (now === "no password" || now === "defect") {
            yield* Ref.update(refused, (count) => count + 1)
            const [detail, sqlState] = now === "defect" ? ["no such table", "42P01"] : ["wrong password", "28P01"]
            return yield* new DatabaseFault({ detail, sqlState })
          }
          if (now !== false) {
            const processEnds = now === "for good"
            return yield* new DatabaseUnavailable({ detail: "away", processEnds, nothingWritten: true })
          }
          yield* Ref.update(written, (count) => count + ends.length)
          return []
        })
    }
  })
).pipe(Layer.provide(QueueMemory.layer), Layer.provide(Wakeups.layer))

const state = Layer.effect(
  Away,
  Effect.all({
    away: Ref.make<boolean | "for good" | "no password" | "defect">(true),
    refused: Ref.make(0),
    written: Ref.make(0)
  })
)
const layer = Finalizer.layer.pipe(Layer.provide(flickering), Layer.provide(Metrics.layer), Layer.provideMerge(state))

/** A finalizer in a separate Scope, with one end submitted while the database is unavailable. */
const handedOver = Effect.gen(function* () {
  const scope = yield* Scope.make()
  const said: Array<string> = []
  const logger = Logger.make(({ message }) => void said.push([message].flat().join(" ")))
  const logged = Layer.provide(layer, Logger.replace(Logger.defaultLogger, logger))
  const context = yield* Layer.buildWithScope(logged, scope)
  const ids = yield* makeGenerator
  const end = { id: ids.job(1), lease: ids.lease(1), end: End.Done({ result: undefined }) }
  expect(Context.get(context, Finalizer).offer(end)).toBe(true)
  yield* TestClock.adjust("1 second")
  return { id: end.id, said, scope, ...Context.get(context, Away) }
})

const claimedJob: Omit<ClaimedJob, "id" | "lease"> = {
  ...{ queue: "default", kind: "test", version: 1, payload: {}, key: undefined, meta: undefined },
  ...{ attempt: 1, attempts: 1, crashCount: 0, createdAt: 0, runAt: 0, startedAt: 0 }
}

const refusals: Array<{ readonly line: string; readonly job: unknown }> = []
const refusedLogger = Logger.make(({ annotations, message }) => {
  const job = Option.getOrUndefined(HashMap.get(annotations, jobAnnotation))
  refusals.push({ line: [message].flat().join(" "), job })
})

describe("the finalizer", () => {
  it.effect("writes results when the database is back, however long that takes", () =>
    Effect.gen(function* () {
      const { away, scope, written } = yield* handedOver
      yield* TestClock.adjust("1 hour")
      expect(yield* Ref.get(written)).toBe(0)
      yield* Ref.set(away, false)
      yield* TestClock.adjust("2 seconds")
      expect(yield* Ref.get(written)).toBe(1)
      yield* Scope.close(scope, Exit.void)
    }).pipe(Effect.provide(VirtualClock.layer))
  )

  it.scoped("keeps results while the database refuses the process, and writes each once when it does no more", () =>
    Effect.gen(function* () {
      refusals.length = 0
      const { away, refused, written } = yield* Away
      yield* Ref.set(away, "no password")
      const finalizer = yield* Finalizer
      const ids = yield* makeGenerator
      const lease = ids.lease(1)
      const jobs = Array.from({ length: 1_000 }, () => ({ id: ids.job(1), lease }))
      for (const job of jobs) finalizer.offer({ ...job, end: End.Done({ result: undefined }) })
      yield* TestClock.adjust("9 seconds")
      expect(yield* Ref.get(written)).toBe(0)
      // Two batches, each with a few attempts.
      expect(yield* Ref.get(refused)).toBeGreaterThan(2)
      expect(yield* Ref.get(refused)).toBeLessThan(30)
      expect(finalizer.held()).toHaveLength(jobs.length)
      expect(new Set(finalizer.held().map(({ id }) => id))).toEqual(new Set(jobs.map(({ id }) => id)))
      // No more than these are claimed meanwhile.
      expect(finalizer.isBehind()).toBe(true)
      const room = yield* Ref.make(false)
      yield* finalizer.onRoom(() => Effect.runSync(Ref.set(room, true)))
      yield* Ref.set(away, false)
      yield* TestClock.adjust("5 seconds")
      yield* finalizer.drained
      expect(yield* Ref.get(written)).toBe(jobs.length)
      expect(finalizer.held()).toEqual([])
      expect(yield* Ref.get(room)).toBe(true)
      expect(finalizer.isBehind()).toBe(false)
      expect(refusals).toEqual([
        {
          line: "the results of 500 jobs are not written yet, trying again: The database rejected a statement: wrong password",
          job: undefined
        }
      ])
    }).pipe(
      Effect.provide(layer),
      Effect.provide(VirtualClock.layer),
      Effect.provide(Logger.replace(Logger.defaultLogger, refusedLogger))
    )
  )

  it.scoped("tries results by themselves after another fault, and names the job", () =>
    Effect.gen(function* () {
      refusals.length = 0
      const { away, refused, written } = yield* Away
      yield* Ref.set(away, "defect")
      const finalizer = yield* Finalizer
      const ids = yield* makeGenerator
      const jobs = [1, 2].map((n) => ({ id: ids.job(n), lease: ids.lease(n), queue: `q${n}` }))
      for (const job of jobs) finalizer.offer({ ...job, end: End.Done({ result: undefined }) })
      yield* TestClock.adjust("1 second")
      expect(yield* Ref.get(refused)).toBeGreaterThan(2)
      expect(finalizer.held()).toHaveLength(2)
      yield* Ref.set(away, false)
      yield* TestClock.adjust("2 seconds")
      yield* finalizer.drained
      expect(yield* Ref.get(written)).toBe(2)
      expect(refusals).toEqual([
        {
          line: "the results of 1 job are not written yet, trying again: The database rejected a statement: no such table",
          job: { id: jobs[0]?.id, queue: "q1" }
        }
      ])
    }).pipe(
      Effect.provide(layer),
      Effect.provide(VirtualClock.layer),
      Effect.provide(Logger.replace(Logger.defaultLogger, refusedLogger))
    )
  )

  it.scoped("is behind while a thousand results wait, and reports room when it has caught up, to those who asked", () =>
    Effect.gen(function* () {
      const finalizer = yield* Finalizer
      const { away, written } = yield* Away
      const ids = yield* makeGenerator
      const found: Array<boolean> = []
      yield* finalizer.onRoom(() => void found.push(finalizer.isBehind()))
      const lease = ids.lease(1)
      for (let job = 0; job < 2_500; job += 1)
        finalizer.offer({ id: ids.job(1), lease, end: End.Done({ result: undefined }) })
      yield* TestClock.adjust("1 second")
      expect(found).toEqual([])
      // Two batches of 500 are being retried.
      expect(finalizer.isBehind()).toBe(true)
      yield* Ref.set(away, false)
      yield* TestClock.adjust("5 seconds")
      expect(yield* Ref.get(written)).toBe(2_500)
      expect(finalizer.isBehind()).toBe(false)
      expect(found.at(-1)).toBe(false)
      const reports = found.length
      finalizer.offer({ id: ids.job(1), lease, end: End.Done({ result: undefined }) })
      yield* finalizer.drained
      expect(found).toHaveLength(reports)
    }).pipe(Effect.provide(layer), Effect.provide(VirtualClock.layer), Logger.withMinimumLogLevel(LogLevel.None))
  )

  it.scoped("gets the result of a run that is stopped while its slot waits for room", () =>
    Effect.gen(function* () {
      const finalizer = yield* Finalizer
      const { away, written } = yield* Away
      const ids = yield* makeGenerator
      const end = End.Done({ result: undefined })
      const job = { ...claimedJob, id: ids.job(1), lease: ids.lease(1) }
      let waiting = 0
      while (finalizer.offer({ id: ids.job(1), lease: job.lease, end })) waiting += 1
      const writer = {
        ...{
          finalizer,
          clock: yield* Effect.clock,
          failures: new FailureLog(),
          releasesOf: () => ({ own: undefined, all: [] })
        },
        ...{ maskText: (text: string) => text, chance: () => 0, curve: () => undefined },
        ...{
          registry: { get: () => undefined },
          metrics: JobMetrics.make(yield* Tally.make, "default", undefined, undefined)
        }
      }
      const handing = yield* Effect.forkDaemon(handOver(writer as never, job, end))
      yield* TestClock.adjust("1 second")
      yield* Fiber.interruptFork(handing)
      yield* TestClock.adjust("1 second")
      expect(handing.unsafePoll()).toBe(null)
      yield* Ref.set(away, false)
      yield* TestClock.adjust("5 seconds")
      yield* Fiber.await(handing)
      expect(yield* Ref.get(written)).toBe(waiting + 1)
    }).pipe(
      Effect.provide(Layer.merge(layer, Metrics.layer)),
      Effect.provide(VirtualClock.layer),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  )

  it.effect("does not keep a process from exiting when the database stays unavailable", () =>
    Effect.gen(function* () {
      const { id, said, scope, written } = yield* handedOver
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      yield* TestClock.adjust("10 seconds")
      yield* Fiber.join(closing)
      expect(yield* Ref.get(written)).toBe(0)
      expect(said.filter((line) => line.includes("was not written"))).toEqual([
        expect.stringMatching(`the outcome of 1 job was not written.*QUEUE_STALE_AFTER.*runs again: ${id}$`)
      ])
    }).pipe(Effect.provide(VirtualClock.layer))
  )

  it.effect("stops at once when the process has closed its connections", () =>
    Effect.gen(function* () {
      const { away, said, scope } = yield* handedOver
      yield* Ref.set(away, "for good")
      const closing = yield* Effect.fork(Scope.close(scope, Exit.void))
      // Reaches the next retry, but not the last one at five seconds.
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(closing)
      expect(said.join()).toMatch(/the outcome of 1 job was not written/)
    }).pipe(Effect.provide(VirtualClock.layer))
  )
})
