import { expect, layer } from "@effect/vitest"
import { Duration, Effect, Layer } from "effect"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { DirectHandoff } from "../../src/queue/handoff/DirectHandoff.js"
import type { NewJob } from "../../src/queue/NewJob.js"
import { type ClaimedJob, Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as LosingProxy from "../support/LosingProxy.js"
import { waiting } from "../support/States.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Direct handoff of a job to a free slot of its own process, on PostgreSQL only: in memory there is no round trip to
// save.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

const job = (queue: string, more: Partial<NewJob> = {}): NewJob => ({
  kind: "test",
  version: 1,
  queue,
  payload: { n: 1 },
  attempts: 5,
  ...more
})

/** A receiver with room for this many jobs that records what it gets. */
const receiverFor = (queue: string, most: number, takes = true) =>
  Effect.gen(function* () {
    const pod: PodId = (yield* makeGenerator).pod(0)
    const given: Array<ClaimedJob> = []
    let reserved = 0
    yield* Effect.flatMap(DirectHandoff, (free) =>
      free.join(queue, {
        pod,
        reserve: ({ count }) => {
          const isFree = given.length + reserved + count <= most
          if (isFree) reserved += count
          return isFree
        },
        release: (jobs) => {
          reserved -= jobs
        },
        take: (jobs) => {
          reserved -= jobs.length
          if (takes) given.push(...jobs)
          return takes
        }
      })
    )
    return { pod, given, reserved: () => reserved }
  })

const found = (id: ClaimedJob["id"]) => Effect.flatMap(JobSearch, (search) => search.get(id))

/** Enqueues one job and returns its id. */
const enqueueOne = (given: NewJob) =>
  Effect.gen(function* () {
    const [answer] = yield* Effect.flatMap(Queue, (queue) => queue.enqueue([given]))
    return answer?.id ?? (yield* Effect.dieMessage("no answer"))
  })

const claimAll = (queue: string) =>
  Effect.gen(function* () {
    const pod = (yield* makeGenerator).pod(0)
    return yield* Effect.flatMap(Queue, ({ claim }) => claim({ queue, pod, limit: 10 }))
  })

layer(house, { excludeTestServices: true })("a job that is handed to a free slot in its own process", (it) => {
  it.scoped("is handed over as if it had been claimed, and ends like any other", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { sql } = yield* Database
      const receiver = yield* receiverFor("free", 1)
      const id = yield* enqueueOne(job("free", { priority: 3 }))
      const stored = yield* found(id)
      expect(stored).toMatchObject({ state: "running", attempt: 1, pod: receiver.pod, priority: 3 })
      const [taken] = receiver.given
      expect(taken).toMatchObject({ id, queue: "free", kind: "test", version: 1, payload: { n: 1 }, attempt: 1 })
      expect(taken).toMatchObject({ attempts: 5, crashCount: 0, runAt: stored.runAt, createdAt: stored.createdAt })
      expect(yield* claimAll("free")).toEqual([])
      if (taken === undefined) return
      const lease = taken.lease
      expect(yield* queue.heartbeat([taken])).toEqual({ lost: [], cancelRequested: [] })
      expect(yield* queue.finalize([{ id, lease, end: End.Done({ result: undefined }) }])).toEqual([])
      expect(yield* found(id)).toMatchObject({ state: "done", attempt: 1 })
      expect(yield* sql`select from nightshift.job where lease = ${lease}`).toEqual([])
    })
  )

  it.scoped("is recovered when its process is gone", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      yield* receiverFor("gone", 1)
      const id = yield* enqueueOne(job("gone"))
      yield* queue.recoverStuck(Duration.zero)
      expect(yield* found(id)).toMatchObject({ state: waiting, attempt: 0, crashCount: 1 })
    })
  )

  it.scoped("is stored as pending when there are more jobs than free slots", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const receiver = yield* receiverFor("many", 2)
      yield* queue.enqueue([job("many"), job("many"), job("many")])
      expect(receiver.given).toEqual([])
      expect(yield* claimAll("many")).toHaveLength(3)
    })
  )

  const patient: ReadonlyArray<readonly [what: string, more: Partial<NewJob>]> = [
    ["is not due yet", { runAt: Date.now() + 60_000 }],
    ["has a key", { key: "chat" }],
    ["holds a dedupe key", { dedupe: { key: "once", scope: "active" } }],
    ["has a follow-up", { onDead: { kind: "mourn", version: 1, queue: "line", payload: 1, attempts: 1 } }]
  ]
  for (const [what, more] of patient) {
    it.scoped(`is stored as pending when it ${what}`, () =>
      Effect.gen(function* () {
        const receiver = yield* receiverFor("line", 1)
        const id = yield* enqueueOne(job("line", more))
        expect(yield* found(id)).toMatchObject({ state: waiting, attempt: 0 })
        expect([receiver.given, receiver.reserved()]).toEqual([[], 0])
      })
    )
  }

  const settings = [
    ["is paused", { paused: true }],
    ["has a rate", { rate: { jobs: 1, per: Duration.minutes(1) } }],
    ["limits its keys", { perKey: { concurrency: 1, order: "none" } }]
  ] as const
  for (const [what, patch] of settings) {
    it.scoped(`is stored as pending when its queue ${what}, whatever this process has cached`, () =>
      Effect.gen(function* () {
        const name = what.replaceAll(" ", "-")
        const queues = yield* Queues
        const receiver = yield* receiverFor(name, 1)
        yield* queues.declare([name])
        yield* queues.change(name, patch)
        const id = yield* enqueueOne(job(name))
        expect(yield* found(id)).toMatchObject({ state: waiting, attempt: 0 })
        expect([receiver.given, receiver.reserved()]).toEqual([[], 0])
        yield* queues.change(name, { paused: false })
        expect((yield* claimAll(name)).map((claimed) => claimed.id)).toEqual([id])
      })
    )
  }

  it.scoped("returns to the queue with its attempt when the receiver is gone", () =>
    Effect.gen(function* () {
      const receiver = yield* receiverFor("left", 1, false)
      const id = yield* enqueueOne(job("left"))
      expect(yield* found(id)).toMatchObject({ state: waiting, attempt: 0, crashCount: 0 })
      expect(receiver.reserved()).toBe(0)
      expect((yield* claimAll("left")).map((claimed) => claimed.id)).toEqual([id])
    })
  )

  it.scoped("is stored once and unclaimed when the reply to its INSERT was lost", () =>
    Effect.gen(function* () {
      const url = yield* LosingProxy.open(yield* DatabaseUrl, "lost-on-the-way", 1)
      const throughProxy = QueuePg.layer.pipe(
        Layer.provide(Listener.layer),
        Layer.provideMerge(Database.layer),
        Layer.provide(DatabaseUrl.layerOf(url)),
        Layer.provide(DatabaseConfig.layer)
      )
      const id = yield* Effect.gen(function* () {
        const receiver = yield* receiverFor("lossy", 1)
        const stored = yield* enqueueOne(job("lossy", { payload: "lost-on-the-way" }))
        expect([receiver.given, receiver.reserved()]).toEqual([[], 0])
        return stored
      }).pipe(Effect.provide(throughProxy))
      expect(yield* found(id)).toMatchObject({ state: waiting, attempt: 0, crashCount: 0 })
      expect((yield* claimAll("lossy")).map((claimed) => claimed.id)).toEqual([id])
    })
  )
})
