import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as Nightshift from "../support/Nightshift.js"
import { scale } from "../support/Scale.js"
import * as TestDatabase from "../support/TestDatabase.js"

const app = fileURLToPath(new URL("../journeys/fixtures/ledger-app.mjs", import.meta.url))
const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))
const count = scale("KEYED_JOBS", 10_000)
const keys = scale("KEYED_KEYS", 300)

const pod = (cwd: string, url: Redacted.Redacted) =>
  Effect.tap(
    Nightshift.start(["serve", "--app", app, "--port", "0"], {
      cwd,
      env: { DATABASE_URL: Redacted.value(url), NIGHTSHIFT_SLOTS: "24", LOG_LEVEL: "warning" }
    }),
    (running) => running.said(/is up/)
  )

/** Enqueued in rotation, so every key is behind all others. */
const enqueueAll = Effect.gen(function* () {
  const queue = yield* Queue
  for (let from = 0; from < count; from += 1_000) {
    yield* queue.enqueue(
      Array.from({ length: Math.min(1_000, count - from) }, (_, index) => {
        const n = from + index
        return { kind: "keyed", version: 1, queue: "keys", key: `key-${n % keys}`, payload: { n }, attempts: 1 }
      })
    )
  }
})

describe("jobs with keys", () => {
  it.scopedLive(
    "run one at a time and in order on three pods, with progress on every key",
    () =>
      Effect.gen(function* () {
        const cwd = yield* Nightshift.folder
        const url = yield* DatabaseUrl
        const { sql } = yield* Database
        const queues = yield* Queues
        yield* sql`create table ledger (
          line bigserial primary key, key text not null, n int not null, open boolean not null default true)`
        yield* sql`create unique index one_at_a_time on ledger (key) where open`
        yield* queues.declare(["keys"])
        yield* queues.change("keys", { maxWorkers: 60, perKey: { concurrency: 1, order: "strict" } })
        yield* enqueueAll
        yield* Effect.all(
          Array.from({ length: 3 }, () => pod(cwd, url)),
          { concurrency: "unbounded" }
        )
        const left = sql<{ count: number }>`
          select count(*)::int as count from nightshift.job where status in ('pending', 'running')`
        yield* Effect.repeat(left, { until: ([row]) => row?.count === 0, schedule: Schedule.spaced("250 millis") })

        expect(yield* sql`select status, count(*)::int as count from nightshift.job group by 1`).toEqual([
          { status: "done", count }
        ])
        expect(yield* sql`select count(*)::int as lines, count(distinct n)::int as jobs from ledger`).toEqual([
          { lines: count, jobs: count }
        ])
        const disorder = yield* sql`select key from (
            select key, n, lag(n) over (partition by key order by line) as earlier from ledger) as steps
          where n < earlier`
        expect(disorder).toEqual([])
        // By the time half of the jobs were done, every key had made progress.
        const early = yield* sql<{ keys: number }>`
          select count(distinct key)::int as keys from (select key from ledger order by line limit ${count / 2}) as first`
        expect(early).toEqual([{ keys }])
      }).pipe(Effect.provide(house)),
    1_800_000
  )
})
