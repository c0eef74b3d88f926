import { expect, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Redacted } from "effect"
import pg from "pg"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(
  Layer.provide(Listener.layer),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provideMerge(SteppableClock.layer)
)

const stale = Duration.minutes(1)

const change = "update nightshift.job set progress = '1' where id = $1"

/** Ways in which a transaction locks the row `$1` of a job. */
const locks: Readonly<Record<string, ReadonlyArray<string>>> = {
  transaction: [change],
  "open savepoint": ["savepoint nested", change],
  "released savepoint": ["savepoint nested", change, "release savepoint nested"],
  "transaction and its savepoint": [
    "select from nightshift.job where id = $1 for key share",
    "savepoint nested",
    change,
    "savepoint deepest"
  ]
}

/** A job that a pod has claimed, and whose row a session of this application has locked in an open transaction. */
const heldJob = (name: string, application: string, lock: ReadonlyArray<string> = [change]) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    yield* queue.enqueue([{ kind: "test", version: 1, queue: name, payload: {}, attempts: 5 }])
    const pod = (yield* makeGenerator).pod(yield* Clock.currentTimeMillis)
    const [job] = yield* queue.claim({ queue: name, pod, limit: 1 })
    if (job === undefined) return yield* Effect.dieMessage("one was stored")
    const url = Redacted.value(yield* DatabaseUrl)
    const session = yield* Effect.acquireRelease(
      Effect.promise(async () => {
        const client = new pg.Client({ connectionString: url, application_name: application })
        client.on("error", () => {})
        await client.connect()
        await client.query("begin")
        for (const statement of lock) await client.query(statement, statement.includes("$1") ? [job.id] : [])
        return client
      }),
      (client) => Effect.promise(() => client.end().catch(() => {}))
    )
    const { sql } = yield* Database
    return {
      pod,
      status: Effect.map(
        sql<{ status: string }>`select status from nightshift.job where id = ${job.id}`,
        ([row]) => row?.status
      ),
      isOpen: Effect.promise(() =>
        session.query("select 1").then(
          () => true,
          () => false
        )
      )
    }
  })

/** Passes of the reaper, the first of which only notes the heartbeats. */
const passes = (count: number) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    for (let pass = 0; pass < count; pass += 1) {
      yield* queue.recoverStuck(stale)
      yield* SteppableClock.advance(stale)
    }
  })

layer(house, { excludeTestServices: true })("a transaction that holds a job of a pod without a heartbeat", (it) => {
  it.scoped.each(Object.keys(locks))("is ended, and its job rescued, once the pod is gone: lock of a %s", (lock) =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const { isOpen, status } = yield* heldJob(lock.replaceAll(" ", "-"), "nightshift", locks[lock])
      yield* passes(2)
      expect([yield* status, yield* isOpen]).toEqual(["running", true])
      yield* passes(1)
      // The server ends the session after it has answered.
      yield* Effect.repeat(queue.recoverStuck(stale), { until: ({ rescued }) => rescued === 1 }).pipe(
        Effect.timeout("20 seconds")
      )
      expect([yield* status, yield* isOpen]).toEqual(["pending", false])
    })
  )

  it.scoped("is left alone while the pod's row exists", () =>
    Effect.gen(function* () {
      const { isOpen, pod, status } = yield* heldJob("alive", "nightshift")
      const { sql } = yield* Database
      yield* sql`insert into nightshift.pod (id, heartbeat_at, slots, draining, version, queues, kinds, host, os_pid,
          node_version, started_at)
        values (${pod}, now(), '[]', false, '0', '{}', '{}', 'host', 1, '20', now())`
      yield* passes(5)
      expect([yield* status, yield* isOpen]).toEqual(["running", true])
    })
  )

  it.scoped("is left alone if it belongs to another application", () =>
    Effect.gen(function* () {
      const { isOpen, status } = yield* heldJob("foreign", "psql")
      yield* passes(5)
      expect([yield* status, yield* isOpen]).toEqual(["running", true])
    })
  )
})
