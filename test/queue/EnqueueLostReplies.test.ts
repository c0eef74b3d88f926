import { expect, layer } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Fiber, Layer, type Redacted, Schedule } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { DirectHandoff } from "../../src/queue/handoff/DirectHandoff.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

// An enqueue is committed, the connection is lost before the reply, and the retry finds no server. The error must not say that
// nothing was changed: a caller who believes it stores the job twice.

const job = (queue: string, more: Partial<NewJob> = {}): NewJob => ({
  kind: "test",
  version: 1,
  queue,
  payload: { n: 1 },
  attempts: 5,
  ...more
})

const over = (url: Redacted.Redacted, settings: Readonly<Record<string, string>> = {}) =>
  QueuePg.layer.pipe(
    Layer.provide(Listener.layerPolling),
    Layer.provideMerge(Database.layer),
    Layer.provide(DatabaseUrl.layerOf(url)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provide(
      Layer.setConfigProvider(
        ConfigProvider.fromMap(new Map(Object.entries({ DATABASE_PREPARE: "false", ...settings })))
      )
    )
  )

layer(TestDatabase.layer, { excludeTestServices: true })("an enqueue whose reply is lost in an outage", (it) => {
  /** Enqueues the jobs through the proxy. Returns the error. */
  const failureOf = (word: string, jobs: ReadonlyArray<NewJob>) =>
    Effect.gen(function* () {
      const { url } = yield* LosingProxy.mortal(yield* DatabaseUrl, word, "die")
      return yield* Effect.flip(Effect.flatMap(Queue, (queue) => queue.enqueue(jobs))).pipe(Effect.provide(over(url)))
    })

  /** How many jobs the queue has, once it has any: the server may still be committing when the client has its error. */
  const stored = (queue: string) =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const count = sql<{ id: string }>`select id from nightshift.job where queue = ${queue}`
      return (yield* Effect.repeat(count, { until: (rows) => rows.length > 0 })).length
    })

  const unknown = {
    _tag: "DatabaseUnavailable",
    nothingWritten: false,
    answer: { status: 503, message: expect.stringContaining("may have been made") }
  }
  const ways: ReadonlyArray<readonly [name: string, word: string, jobs: (queue: string) => ReadonlyArray<NewJob>]> = [
    ["of one job", "insert into nightshift.job", (queue) => [job(queue)]],
    [
      "of a job with a dedupe key",
      "insert into nightshift.job",
      (queue) => [job(queue, { dedupe: { key: queue, scope: "active" } })]
    ],
    ["of many like jobs", "insert into nightshift.job", (queue) => Array.from({ length: 60 }, () => job(queue))]
  ]
  for (const [name, word, jobs] of ways) {
    it.scoped(`${name} may have been made`, () =>
      Effect.gen(function* () {
        const queue = name.replaceAll(" ", "-")
        expect(yield* failureOf(word, jobs(queue))).toMatchObject(unknown)
        expect(yield* stored(queue)).toBe(jobs(queue).length)
      })
    )
  }

  it.scoped("of jobs with ids may have been made", () =>
    Effect.gen(function* () {
      const ids = yield* makeGenerator
      const jobs = [job("own-ids", { id: ids.job(0) }), job("own-ids", { id: ids.job(0) })]
      expect(yield* failureOf("COMMIT", jobs)).toMatchObject(unknown)
      expect(yield* stored("own-ids")).toBe(2)
    })
  )

  it.scoped("of a job that is handed to a free slot may have been made", () =>
    Effect.gen(function* () {
      const pod = (yield* makeGenerator).pod(0)
      const released: Array<number> = []
      const receiver = {
        pod,
        reserve: () => true,
        release: (jobs: number) => void released.push(jobs),
        take: () => true
      }
      const failure = yield* Effect.gen(function* () {
        const { url } = yield* LosingProxy.mortal(yield* DatabaseUrl, "insert into nightshift.lease", "die")
        return yield* Effect.gen(function* () {
          yield* Effect.flatMap(DirectHandoff, (free) => free.join("handed", receiver))
          return yield* Effect.flip(Effect.flatMap(Queue, (queue) => queue.enqueue([job("handed")])))
        }).pipe(Effect.provide(over(url)))
      })
      expect(failure).toMatchObject(unknown)
      expect([released, yield* stored("handed")]).toEqual([[1], 1])
    })
  )

  it.scoped("may have been made if only a neighbour's job was left to decide", () =>
    Effect.gen(function* () {
      const server = yield* LosingProxy.mortal(yield* DatabaseUrl, "insert into nightshift.job", "pass", "hold")
      const until = (isSo: Effect.Effect<boolean>) =>
        Effect.repeat(isSo, { until: (found) => found, schedule: Schedule.spaced("2 millis") })
      const dedupe = { key: "part", scope: "active" } as const
      const failure = yield* Effect.gen(function* () {
        const queue = yield* Queue
        const { poolUse, transaction } = yield* Database
        const [first, second, ended] = [
          yield* Deferred.make<void>(),
          yield* Deferred.make<void>(),
          yield* Deferred.make<void>()
        ]
        const occupy = (begun: Deferred.Deferred<void>) =>
          Effect.forkScoped(transaction(Effect.zipRight(Deferred.succeed(begun, undefined), Deferred.await(ended))))
        yield* queue.enqueue([job("part-held", { dedupe })])
        yield* occupy(first)
        yield* Deferred.await(first)
        const plain = yield* Effect.fork(Effect.flip(queue.enqueue([job("part")])))
        yield* Effect.fork(Effect.exit(queue.enqueue([job("part-held", { dedupe })])))
        yield* until(Effect.sync(() => server.left() === 0))
        // Gets the connection of the insert, so that the statement after it waits for one.
        yield* occupy(second)
        const isWaiting = until(Effect.map(poolUse, ({ waiting }) => waiting === 1))
        yield* isWaiting
        yield* until(Effect.sync(server.isHeld))
        yield* server.release
        yield* Deferred.await(second)
        yield* isWaiting
        yield* server.die
        yield* Deferred.succeed(ended, undefined)
        return yield* Fiber.join(plain)
      }).pipe(Effect.scoped, Effect.provide(over(server.url, { DATABASE_POOL: "2" })))
      expect(failure).toMatchObject(unknown)
      expect(yield* stored("part")).toBe(1)
    })
  )
})
