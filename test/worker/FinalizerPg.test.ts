import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, Schedule } from "effect"
import { never } from "../../src/core/Suspension.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { type AttemptEnd, End, type NextStatus } from "../../src/queue/AttemptEnd.js"
import { defaultBounds } from "../../src/queue/logs/JobLogs.js"
import { type ClaimedJob, type HeldJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Finalizer } from "../../src/worker/slots/Finalizer.js"
import * as TestDatabase from "../support/TestDatabase.js"

const said: Array<string> = []
const logger = Logger.make(({ message }) => void said.push([message].flat().join(" ")))

const houseWith = (statementTimeout: string) =>
  Layer.merge(Finalizer.layer, QueuePg.layer).pipe(
    Layer.provideMerge(QueuePg.layer),
    Layer.provide(Listener.layerPolling),
    Layer.provideMerge(TestDatabase.layer),
    Layer.provide(Metrics.layer),
    Layer.provide(
      Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["DATABASE_STATEMENT_TIMEOUT", statementTimeout]])))
    ),
    Layer.provideMerge(Logger.replace(Logger.defaultLogger, logger))
  )

const house = houseWith("1s")

/** Like the ends of a pod, which are instances of a class. */
class Watched implements AttemptEnd {
  readonly id
  readonly lease
  became: NextStatus | undefined

  constructor(
    { id, lease }: HeldJob,
    readonly end: End,
    more: Partial<AttemptEnd> = {}
  ) {
    Object.assign(this, more)
    this.id = id
    this.lease = lease
  }

  written(became: NextStatus) {
    this.became = became
  }
}

const done = End.Done({ result: undefined })

/** Claims three jobs. */
const three = Effect.gen(function* () {
  const queue = yield* Queue
  const job = { kind: "test", version: 1, queue: "ends", payload: {}, attempts: 5 }
  yield* queue.enqueue([job, job, job])
  const pod = "0198c0de-0000-7000-8000-000000000001" as never
  const [one, two, last] = yield* queue.claim({ queue: "ends", pod, limit: 3 })
  return one === undefined || two === undefined || last === undefined
    ? yield* Effect.dieMessage("three were stored")
    : ([one, two, last] as const)
})

describe("a result that PostgreSQL refuses", () => {
  it.scopedLive("leaves its job dead with the reason, and the other results of the batch are written", () =>
    Effect.gen(function* () {
      const search = yield* JobSearch
      const finalizer = yield* Finalizer
      const [bad, good, plain] = yield* three
      const again = (runAt: number) => End.Again({ runAt, counted: true, error: "no luck", remember: "failed" })
      const ends = [new Watched(bad, again(1e300)), new Watched(good, again(good.runAt)), new Watched(plain, done)]
      for (const end of ends) finalizer.offer(end)
      yield* finalizer.drained
      const dead = yield* search.get(bad.id)
      expect(dead).toMatchObject({ state: "dead", reason: "rejected", pod: undefined })
      expect(dead.lastError).toMatch(/^the database rejected the result of this attempt \(SQLSTATE 22008\)/)
      expect(yield* search.get(good.id)).toMatchObject({ state: "retrying", lastError: "no luck" })
      expect(yield* search.get(plain.id)).toMatchObject({ state: "done" })
      expect(ends.map(({ became }) => became)).toEqual(["dead", "pending", "done"])
    }).pipe(Effect.provide(house))
  )
})

describe("a job whose row another transaction has locked", () => {
  it.scopedLive("holds up its own result, but not the others of the batch", () =>
    Effect.gen(function* () {
      const search = yield* JobSearch
      const finalizer = yield* Finalizer
      const [locked, ...others] = yield* three
      const session = yield* TestDatabase.connection
      yield* Effect.promise(() => session.query("begin"))
      yield* Effect.promise(() => session.query("select from nightshift.job where id = $1 for update", [locked.id]))
      const ends = [locked, ...others].map((job) => new Watched(job, done))
      for (const end of ends) finalizer.offer(end)
      const states = Effect.forEach([locked, ...others], ({ id }) => Effect.map(search.get(id), ({ state }) => state))
      const until = (wanted: ReadonlyArray<string>) =>
        Effect.repeat(states, {
          until: (found) => found.join() === wanted.join(),
          schedule: Schedule.spaced("20 millis")
        })
      yield* until(["running", "done", "done"])
      // Later results are written as usual.
      for (const job of yield* three) finalizer.offer(new Watched(job, done))
      yield* Effect.repeat(
        Effect.sync(() => said.join("\n")),
        { until: (lines) => lines.includes("has locked"), schedule: Schedule.spaced("20 millis") }
      )
      expect(ends.map(({ became }) => became)).toEqual([undefined, "done", "done"])
      yield* Effect.promise(() => session.query("rollback"))
      yield* finalizer.drained
      expect(ends.map(({ became }) => became)).toEqual(["done", "done", "done"])
      expect(yield* states).toEqual(["done", "done", "done"])
      expect(said.filter((line) => line.includes("lock"))).toEqual([
        `another transaction has locked the row of job ${locked.id}, or one that its result changes: the result will be written when that transaction ends`
      ])
    }).pipe(Effect.provide(house))
  )
})

describe("results whose statements wait for rows that another transaction has locked", () => {
  const ofJob = { lock: "select from nightshift.job where dedupe_key is not null for update" }
  const cases: Readonly<
    Record<string, { readonly lock: string; readonly end: (job: ClaimedJob) => readonly [End, Partial<AttemptEnd>] }>
  > = {
    "with a log": {
      ...ofJob,
      end: ({ attempt, id, lease }) => [
        done,
        { log: { id, lease, attempt, count: 1, lines: ["{}"], bounds: defaultBounds } }
      ]
    },
    "that an execution may count": { ...ofJob, end: () => [done, { linked: true }] },
    "of executions that wait": {
      ...ofJob,
      end: () => [End.Suspended({ runAt: never, woken: 0, waits: [], error: undefined }), { linked: true }]
    },
    "of executions that continue": {
      ...ofJob,
      end: () => [
        End.Suspended({
          ...{ runAt: 0, woken: 0, waits: [], error: undefined },
          continues: { payload: "{}", version: 1 }
        }),
        { linked: true }
      ]
    },
    "that pause their queue": {
      lock: "select from nightshift.queue where name = 'ends' for update",
      end: ({ runAt }) => [
        End.Again({
          ...{ runAt, counted: false, error: undefined, remember: "throttled" },
          cools: { scope: "queue", after: 1 }
        }),
        {}
      ]
    },
    "that pause their key": {
      lock: "select from nightshift.queue where name = 'ends' for update",
      end: ({ runAt }) => [
        End.Again({
          ...{ runAt, counted: false, error: undefined, remember: "throttled" },
          cools: { scope: "key", after: 1 }
        }),
        {}
      ]
    }
  }
  for (const [what, { end, lock }] of Object.entries(cases))
    it.scopedLive(`${what} do not hold up the results of other jobs`, () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const queue = yield* Queue
        const finalizer = yield* Finalizer
        yield* (yield* Queues).declare(["ends"])
        for (const name of ["A", "B"])
          yield* (yield* Workflows).start({
            ...{ kind: "test", version: 1, queue: "ends", payload: {}, attempts: 5 },
            ...{ execution: `ends/${name}`, key: name }
          })
        const pod = "0198c0de-0000-7000-8000-000000000001" as never
        const jobs = yield* queue.claim({ queue: "ends", pod, limit: 2 })
        expect(jobs).toHaveLength(2)
        const [free] = yield* three
        const session = yield* TestDatabase.connection
        yield* Effect.promise(() => session.query("begin"))
        const locked = yield* Effect.promise(() => session.query(lock))
        expect(locked.rowCount).toBeGreaterThan(0)
        const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
        const ends = jobs.map((job) => new Watched(job, ...end(job)))
        // One statement of each lane.
        for (const [place, each] of ends.entries()) {
          finalizer.offer(each)
          yield* Effect.repeat(waiting, {
            until: (sessions) => sessions.length > place || said.some((line) => line.includes(each.id)),
            schedule: Schedule.spaced("5 millis")
          })
        }
        const other = new Watched(free, done)
        finalizer.offer(other)
        yield* Effect.repeat(
          Effect.sync(() => other.became),
          { until: (became) => became === "done", schedule: Schedule.spaced("20 millis") }
        )
        expect(ends.map(({ became }) => became)).toEqual([undefined, undefined])
        yield* Effect.promise(() => session.query("rollback"))
        yield* finalizer.drained
        expect(ends.every(({ became }) => became !== undefined)).toBe(true)
      }).pipe(Effect.provide(houseWith("1h")))
    )
})
