import { expect, layer } from "@effect/vitest"
import { type Context, Effect, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Wakeups } from "../../src/queue/Wakeups.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

layer(house, { excludeTestServices: true })("a finalize in the caller's transaction", (it) => {
  it.scoped("fails with the first error, and is not retried in a failed transaction", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const queue = yield* Queue
      yield* queue.enqueue([{ kind: "test", version: 1, queue: "conflict", payload: {}, attempts: 5 }])
      const [run] = yield* queue.claim({ queue: "conflict", pod: (yield* makeGenerator).pod(0), limit: 1 })
      if (run === undefined) return yield* Effect.dieMessage("one was stored")
      const elsewhere = yield* Effect.context<never>()
      const written = Effect.gen(function* () {
        yield* sql`set transaction isolation level repeatable read`
        yield* sql`select 1 from nightshift.job`
        // Another connection updates a row that this transaction's snapshot has already read.
        const other = queue.progress(run, "1").pipe(Effect.mapInputContext((_: Context.Context<never>) => elsewhere))
        expect(yield* other).toBe(true)
        return yield* queue.finalize([{ ...run, end: End.Done({ result: undefined }) }])
      })
      expect(yield* Effect.flip(transaction(written))).toMatchObject({ sqlState: "40001" })
    })
  )
})

layer(house, { excludeTestServices: true })("a follow-up that another program has written", (it) => {
  it.scoped("keeps no other job from ending or from being rescued", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const queue = yield* Queue
      const pod = (yield* makeGenerator).pod(0)
      const followUp = { kind: "alert", queue: "alerts", version: 1, attempts: 3, payload: 1 }
      const bad = [
        null,
        1,
        {},
        [followUp],
        { ...followUp, version: "x" },
        { ...followUp, version: [1] },
        { ...followUp, queue: null }
      ]
      const unsound = [
        ...bad,
        { ...followUp, attempts: 1e9 },
        { ...followUp, attempts: 1.5 },
        { ...followUp, priority: "high" }
      ]
      const sound = [
        { ...followUp, priority: 100_000 },
        { ...followUp, priority: -1e300 },
        { ...followUp, priority: 1.5 },
        followUp
      ]
      for (const name of ["ended", "rescued"]) {
        yield* queue.enqueue(
          Array.from([...unsound, ...sound, undefined], () => ({
            kind: "test",
            version: 1,
            queue: name,
            payload: {},
            attempts: 5
          }))
        )
        const runs = yield* queue.claim({ queue: name, pod, limit: 100 })
        for (const [n, onDead] of [...unsound, ...sound].entries())
          yield* sql`update nightshift.job set crash_count = 4, on_dead = ${JSON.stringify(onDead)}::jsonb where id = ${runs[n]?.id ?? ""}`
        const dead = End.Dead({ reason: "rejected", counted: true, error: "no" })
        if (name === "ended") expect(yield* queue.finalize(runs.map((run) => ({ ...run, end: dead })))).toEqual([])
        else
          expect(yield* queue.recoverOrphaned([pod])).toMatchObject({
            poisoned: sound.length + unsound.length,
            rescued: 1
          })
      }
      const states = sql`select queue, status, count(*)::int as jobs from nightshift.job where kind = 'test' group by 1, 2 order by 1, 2`
      expect(yield* states).toEqual([
        { queue: "ended", status: "dead", jobs: 15 },
        { queue: "rescued", status: "dead", jobs: 14 },
        { queue: "rescued", status: "pending", jobs: 1 }
      ])
      const { jobs } = yield* (yield* JobSearch).list({ queue: "ended" }, { limit: 100 })
      expect(jobs).toHaveLength(15)
      const stored = yield* sql<{ priority: number }>`select priority from nightshift.job where queue = 'alerts'`
      expect(stored.map(({ priority }) => priority).toSorted((a, b) => a - b)).toEqual([
        -32_768, -32_768, 0, 0, 2, 2, 32_767, 32_767
      ])
    })
  )
})

layer(house, { excludeTestServices: true })("a history that another program has written", (it) => {
  it.scoped("is replaced if it is no array, and keeps no job from ending or from being rescued", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const queue = yield* Queue
      const pod = (yield* makeGenerator).pod(0)
      const histories = ["{}", "null", "1"]
      for (const name of ["ended", "rescued"]) {
        yield* queue.enqueue(
          histories.map(() => ({ kind: "history", version: 1, queue: name, payload: {}, attempts: 5 }))
        )
        const runs = yield* queue.claim({ queue: name, pod, limit: 100 })
        for (const [n, { id }] of runs.entries())
          yield* sql`update nightshift.job set history = ${histories[n] ?? ""}::jsonb where id = ${id}`
        const failed = End.Again({ runAt: 0, counted: true, error: "no", remember: "failed" })
        if (name === "ended") expect(yield* queue.finalize(runs.map((run) => ({ ...run, end: failed })))).toEqual([])
        else expect(yield* queue.recoverOrphaned([pod])).toMatchObject({ rescued: runs.length })
        const { jobs } = yield* (yield* JobSearch).list({ queue: name }, { limit: 100 })
        expect(jobs.map(({ history }) => history.length)).toEqual([1, 1, 1])
      }
    })
  )
})

/** Claims jobs of a queue. */
const claimed = (name: string, keys: ReadonlyArray<string | undefined>) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const job = { kind: "test", version: 1, queue: name, payload: {}, attempts: 5 }
    yield* queue.enqueue(keys.map((key) => ({ ...job, key })))
    return yield* queue.claim({ queue: name, pod: (yield* makeGenerator).pod(0), limit: keys.length })
  })

/** A session that holds what the statement locks. */
const holding = (statement: string, values: ReadonlyArray<unknown> = []) =>
  Effect.gen(function* () {
    const session = yield* TestDatabase.connection
    yield* Effect.promise(() => session.query("begin"))
    const { rowCount } = yield* Effect.promise(() => session.query(statement, [...values]))
    expect(rowCount).toBe(1)
    return Effect.promise(() => session.query("rollback"))
  })

const polling = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

layer(polling, { excludeTestServices: true })("a result whose batch is taken apart because of another one", (it) => {
  for (const [what, ends, isLinked] of [
    ["without a value", [undefined, "1"], false],
    ["with a value", ["1", undefined], true]
  ] as const)
    it.scoped(`${what} is reported once, is not lost, and frees its key at once`, () =>
      Effect.gen(function* () {
        const queue = yield* Queue
        const name = `apart.${what.replaceAll(" ", ".")}`
        const queues = yield* Queues
        yield* queues.declare([name])
        yield* queues.change(name, { perKey: { concurrency: 1, order: "none" } })
        const [one, two] = yield* claimed(name, ["a", "b"])
        if (one === undefined || two === undefined) return yield* Effect.dieMessage("two were stored")
        const woken: Array<string> = []
        yield* (yield* Wakeups).onWake(name, () => void woken.push(name))
        const written: Array<string> = []
        const [first, second] = [one, two].map((run, place) => ({
          ...run,
          end: End.Done({ result: ends[place] }),
          linked: place === 1 && isLinked,
          written: () => void written.push(run.id)
        }))
        if (first === undefined || second === undefined) return yield* Effect.dieMessage("there are two")
        const release = yield* holding("select from nightshift.job where id = $1 for update", [two.id])
        expect(yield* Effect.flip(queue.finalize([first, second]))).toMatchObject({ sqlState: "55P03" })
        expect([written, woken]).toEqual([[one.id], [name]])
        expect(yield* queue.finalize([first], "fail")).toEqual([])
        yield* release
        expect(yield* queue.finalize([second], "fail")).toEqual([])
        expect(written).toEqual([one.id, two.id])
      })
    )
})

layer(house, { excludeTestServices: true })("a success after a cool-down", (it) => {
  it.scoped("does not wait for another session that has locked the queue, and a later one starts the calm period", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const queue = yield* Queue
      yield* sql`insert into nightshift.queue (name, created_at, updated_at, throttle_attempts) values ('calm', now(), now(), 1)`
      const [first, second] = yield* claimed("calm", [undefined, undefined])
      if (first === undefined || second === undefined) return yield* Effect.dieMessage("two were stored")
      const release = yield* holding("select from nightshift.queue where name = 'calm' for update")
      const calmSince = sql`select calm_since is not null as calm from nightshift.queue where name = 'calm'`
      expect(yield* queue.finalize([{ ...first, end: End.Done({ result: undefined }) }])).toEqual([])
      expect(yield* calmSince).toEqual([{ calm: false }])
      yield* release
      expect(yield* queue.finalize([{ ...second, end: End.Done({ result: undefined }) }])).toEqual([])
      expect(yield* calmSince).toEqual([{ calm: true }])
    })
  )
})
