import { expect, layer } from "@effect/vitest"
import { Context, Duration, Effect, Fiber, Layer, Schedule } from "effect"
import pg from "pg"
import { vi } from "vitest"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { Hints } from "../../src/database/Hints.js"
import * as Listener from "../../src/database/Listener.js"
import { type HeldJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { EndPolling } from "../../src/queue/search/JobWaits.js"
import { StreamLimits, type StreamPosition } from "../../src/queue/workflow/Streams.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Readers and writers in different processes, which only notifications connect: nothing polls within a test.

const rarely = Duration.toMillis("1 hour")
const byNotification = { first: rarely, most: rarely, maxWithoutNotifications: rarely }

/** Another process on the test's database. */
const process = Effect.gen(function* () {
  const built = yield* Layer.build(
    QueuePg.layer.pipe(
      Layer.provide(Listener.layer),
      Layer.provide(Layer.fresh(Database.layer)),
      Layer.provide(Layer.succeed(EndPolling, byNotification)),
      Layer.provide(Layer.succeed(StreamLimits, { chunkBytes: 10, streamBytes: 20 })),
      Layer.orDie
    )
  )
  const hints = Context.get(built, Hints)
  yield* Effect.repeat(hints.connected, { until: (connected) => connected, schedule: Schedule.spaced("2 millis") })
  return { queue: Context.get(built, Queue), workflows: Context.get(built, Workflows), hints }
})

type Process = Effect.Effect.Success<typeof process>

/** Starts executions and claims them. */
const begun = ({ queue, workflows }: Process, name: string, count: number) =>
  Effect.gen(function* () {
    const job = { kind: "chat", version: 1, queue: name, payload: {}, attempts: 5 }
    for (let each = 0; each < count; each += 1) yield* workflows.start({ ...job, execution: `${name}/${each}` })
    const pod = (yield* makeGenerator).pod(0)
    const runs = yield* queue.claim({ queue: name, pod, limit: count })
    for (const run of runs) yield* workflows.streams.begin(run, "tokens", 1)
    return runs
  })

const append = ({ workflows }: Process, run: HeldJob, number: number, ...chunks: ReadonlyArray<unknown>) =>
  workflows.streams.append(run, {
    name: "tokens",
    generation: 1,
    number,
    count: chunks.length,
    bytes: 10,
    text: JSON.stringify(chunks)
  })

/** Completes when the process knows that this many jobs are read. */
const announcedIn = ({ hints }: Process, count: number) =>
  Effect.gen(function* () {
    const ids = new Set<string>()
    yield* hints.subscribe("reading", (subject) => {
      for (const id of subject?.split(",") ?? []) ids.add(id)
    })
    return Effect.repeat(
      Effect.sync(() => ids.size),
      { until: (size) => size >= count, schedule: Schedule.spaced("2 millis") }
    )
  })

/** Counts the statements of an effect, and those that send a notification. */
const statementsOf = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.suspend(() => {
    const query = vi.spyOn(pg.Query.prototype as pg.Query & { readonly submit: () => void }, "submit")
    return Effect.map(effect, (value) => {
      const texts = query.mock.contexts.map((sent) => (sent as { readonly text: string }).text)
      const reads = texts.filter((text) => text.includes("workflow_chunk") && !text.includes("insert"))
      return { value, reads: reads.length, notifications: texts.filter((text) => text.includes("pg_notify")).length }
    }).pipe(Effect.ensuring(Effect.sync(() => query.mockRestore())))
  })

const next = ({ workflows }: Process, { id }: HeldJob, number: number) =>
  workflows.streams.next({ job: id, name: "tokens", generation: 1, number } satisfies StreamPosition)

layer(TestDatabase.layer, { excludeTestServices: true })("readers of streams that another process writes", (it) => {
  it.scoped("are notified, a thousand of one stream with a few queries", () =>
    Effect.gen(function* () {
      const [reader, writer] = [yield* process, yield* process]
      const [run] = yield* begun(writer, "one", 1)
      if (run === undefined) return yield* Effect.dieMessage("one was claimed")
      const announced = yield* announcedIn(writer, 1)
      const readers = yield* Effect.replicateEffect(Effect.fork(next(reader, run, 0)), 1_000)
      yield* announced
      const first = yield* statementsOf(
        Effect.zipRight(
          append(writer, run, 0, "a"),
          Effect.forEach(readers, (each) => Fiber.join(each))
        )
      )
      expect(first.value.every(({ chunks }) => chunks[0] === "a")).toBe(true)
      expect(first.reads).toBeLessThan(5)
      // They wait again without another announcement.
      const again = yield* statementsOf(
        Effect.gen(function* () {
          const waiting = yield* Effect.replicateEffect(Effect.fork(next(reader, run, 1)), 1_000)
          yield* append(writer, run, 1, "b")
          return yield* Effect.forEach(waiting, (each) => Fiber.join(each))
        })
      )
      expect(again.value.every(({ chunks }) => chunks[0] === "b")).toBe(true)
      expect(again.reads).toBeLessThan(10)
      expect(again.notifications).toBeLessThan(3)
    })
  )

  it.scoped("cost other streams nothing, and learn of the record of the step and of the end of the execution", () =>
    Effect.gen(function* () {
      const [reader, writer] = [yield* process, yield* process]
      const [recorded, ended, unread] = yield* begun(writer, "three", 3)
      if (recorded === undefined || ended === undefined || unread === undefined)
        return yield* Effect.dieMessage("three were claimed")
      const announced = yield* announcedIn(writer, 2)
      const ofStep = yield* Effect.fork(next(reader, recorded, 0))
      const ofExecution = yield* Effect.fork(next(reader, ended, 0))
      yield* announced
      expect((yield* statementsOf(append(writer, unread, 0, "a"))).notifications).toBe(0)
      yield* writer.workflows.record(recorded, {
        name: "tokens",
        kind: "stream",
        attempt: 1,
        sequence: 1,
        outcome: "done",
        exit: {},
        startedAt: 0
      })
      expect((yield* Fiber.join(ofStep)).state).toBe("done")
      const end = { _tag: "Done", result: undefined } as const
      yield* writer.queue.finalize([{ id: ended.id, lease: ended.lease, linked: true, end }])
      expect((yield* Fiber.join(ofExecution)).state).toBe("interrupted")
    })
  )

  it.scoped("get batches of many streams that were written at the same time, each in order", () =>
    Effect.gen(function* () {
      const [reader, writer] = [yield* process, yield* process]
      expect(writer.workflows.streams.limits).toEqual({ chunkBytes: 10, streamBytes: 20 })
      const runs = yield* begun(writer, "many", 40)
      const write = (run: HeldJob) =>
        Effect.forEach([0, 2, 4], (number) => append(writer, run, number, `${run.id} ${number}`, number + 1))
      yield* Effect.forEach(runs, write, { concurrency: "unbounded" })
      const pages = yield* Effect.forEach(runs, (run) => next(reader, run, 1), { concurrency: "unbounded" })
      expect(pages.map(({ chunks }) => chunks)).toEqual(runs.map(({ id }) => [1, `${id} 2`, 3, `${id} 4`, 5]))
    })
  )
})
