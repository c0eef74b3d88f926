import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, LogLevel, Schedule, type Scope } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** The default intervals, divided by ten. */
const intervals = {
  NIGHTSHIFT_POD_HEARTBEAT: "100ms",
  NIGHTSHIFT_REBALANCE_INTERVAL: "500ms",
  NIGHTSHIFT_LEASE: "1500ms",
  QUEUE_POLL: "200ms",
  QUEUE_HEARTBEAT: "1s",
  QUEUE_STALE_AFTER: "6s",
  QUEUE_REAPER_INTERVAL: "1500ms",
  SCHEDULE_POLL: "500ms"
}
const queues = Array.from({ length: 10 }, (_, n) => `queue-${n}`)

/** What the process has sent, by operation. */
class Sent {
  readonly counts = new Map<string, number>()
  readonly add = (operation: string) => void this.counts.set(operation, (this.counts.get(operation) ?? 0) + 1)
  get beats() {
    return this.counts.get("pod_beat") ?? 0
  }
  get all() {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0)
  }
  /** Completes after this many more heartbeats. */
  readonly during = (beats: number) =>
    Effect.suspend(() => {
      const end = this.beats + beats
      return Effect.repeat(Effect.void, { until: () => this.beats >= end, schedule: Schedule.spaced("10 millis") })
    })
}

/** A process that leads, serves ten queues and has nothing to do. */
const idle = <A, E>(test: (sent: Sent) => Effect.Effect<A, E, Nightshift.Services | DatabaseUrl | Scope.Scope>) =>
  Effect.gen(function* () {
    const url = yield* DatabaseUrl
    return yield* Effect.gen(function* () {
      const sent = new Sent()
      const { onStatement } = yield* Database
      const { leader } = yield* Leadership
      yield* onStatement(sent.add)
      yield* Effect.repeat(leader, { until: (found) => found._tag === "Some", schedule: Schedule.spaced("50 millis") })
      yield* sent.during(10)
      return yield* test(sent)
    }).pipe(
      Effect.provide(Nightshift.layer({ handlers: [NoopEcho.handler], queues, databaseUrl: url })),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries(intervals)))),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  }).pipe(Effect.scoped, Effect.provide(Layer.fresh(TestDatabase.layer)))

/** How many heartbeats the process sends until this query returns a row. */
const beatsUntil = <E, R>(sent: Sent, query: Effect.Effect<ReadonlyArray<unknown>, E, R>) =>
  Effect.suspend(() => {
    const before = sent.beats
    return Effect.map(
      Effect.repeat(query, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("20 millis") }),
      () => sent.beats - before
    )
  })

describe("an idle process that leads", () => {
  it.live("sends little more than its heartbeats", () =>
    idle((sent) =>
      Effect.gen(function* () {
        sent.counts.clear()
        yield* sent.during(20)
        expect(sent.all / sent.beats).toBeLessThan(1.5)
      })
    )
  )

  it.live("finds changes that no notification announces as soon as its polls would", () =>
    idle((sent) =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        yield* sql`insert into nightshift.job (id, queue, kind, payload, run_at, created_at, updated_at, max_attempts)
          values (gen_random_uuid(), 'queue-3', 'noop_echo', '{}', now(), now(), now(), 1)`
        expect(yield* beatsUntil(sent, sql`select from nightshift.job where finished_at is not null`)).toBeLessThan(8)
        yield* sql`update nightshift.queue set max_workers = 3 where name = 'queue-4'`
        const share = sql`select from nightshift.share where queue = 'queue-4' and slots = 3`
        expect(yield* beatsUntil(sent, share)).toBeLessThan(10)
        const wanted = sql`select from nightshift.pod where slots @> '[{"queue": "queue-4", "wanted": 3}]'`
        expect(yield* beatsUntil(sent, wanted)).toBeLessThan(8)
      })
    )
  )

  it.live("sends its heartbeats alone while a table that they read is locked", () =>
    idle((sent) =>
      Effect.gen(function* () {
        const other = yield* TestDatabase.connection
        const rowsOf = (text: string) => Effect.promise(async () => (await other.query(text)).rows)
        yield* rowsOf("begin")
        yield* rowsOf("lock table nightshift.job in access exclusive mode")
        const waiting = `select from pg_locks where not granted and relation = 'nightshift.job'::regclass`
        yield* beatsUntil(sent, rowsOf(waiting))
        yield* sent.during(5)
        yield* rowsOf("rollback")
      })
    )
  )
})
