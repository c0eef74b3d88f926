import { describe, expect, it } from "@effect/vitest"
import { Clock, Context, Duration, Effect, Layer, TestClock } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { DatabaseHealth } from "../../src/history/DatabaseHealth.js"
import { MinuteBuckets, TooMuchToMerge } from "../../src/history/MinuteBuckets.js"
import * as MinuteBucketsMemory from "../../src/history/MinuteBucketsMemory.js"
import { PodSamples } from "../../src/history/PodSamples.js"
import { ThroughputCache } from "../../src/http/admin/ThroughputCache.js"
import * as Instant from "../../src/http/Instant.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { minuteOf, noCounts } from "../../src/telemetry/BucketCount.js"
import { Histogram } from "../../src/telemetry/Histogram.js"
import type { KindTally } from "../../src/telemetry/KindTally.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import { backends, layerPostgres, layer as memory, TestServer, viewerToken } from "./TestServer.js"

const minute = 60_000

const sketch = (...millis: ReadonlyArray<number>) => {
  const histogram = new Histogram()
  for (const value of millis) histogram.record(value)
  return histogram.sketch()
}

const aPod = Effect.gen(function* () {
  const now = yield* Clock.currentTimeMillis
  return { id: (yield* makeGenerator).pod(now), thisMinute: minuteOf(now) }
})

const get = (path: string) =>
  Effect.gen(function* () {
    const { ask } = yield* TestServer
    const { json, status } = yield* ask("GET", `/api/v1/metrics/${path}`, { token: viewerToken })
    expect(status, JSON.stringify(json)).toBe(200)
    return json
  })

/** Records counts of a pod and flushes them. */
const record = (count: (of: (kind: string) => KindTally) => void) =>
  Effect.gen(function* () {
    const buckets = yield* MinuteBuckets
    const tally = yield* Tally.make
    count((kind) => tally.of("mail", kind))
    yield* buckets.record((yield* aPod).id, 1, tally.take())
  }).pipe(Effect.provide(Metrics.layer))

describe.each(backends)("on %s, GET /api/v1/metrics/durations", (_, layer) => {
  it.scopedLive("shows how long attempts of a kind took, in bins of half an octave", () =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      yield* record((of) => {
        for (const millis of [9, 10, 10, 1_000]) of("greet").ran(millis, millis, now)
        of("other").ran(5_000, 5_000, now)
      })
      const { bins, processing } = (yield* get("durations?kind=greet")) as {
        readonly bins: ReadonlyArray<{ readonly from: number; readonly to: number; readonly count: number }>
        readonly processing: unknown
      }
      expect(processing).toMatchObject({ count: 4, max: 1 })
      expect(bins.map(({ count }) => count)).toEqual([3, 1])
      for (const { from, to } of bins) expect(to / from).toBeCloseTo(Math.SQRT2)
      expect(bins[0]?.from).toBeLessThan(0.009)
      expect(bins[0]?.to).toBeGreaterThanOrEqual(0.01)
      expect(yield* get("durations?kind=nothing")).toMatchObject({ bins: [], processing: { count: 0, p50: null } })
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, GET /api/v1/metrics/series", (_, layer) => {
  it.scopedLive("shows the counts of two pods in buckets of the requested width, latencies in seconds", () =>
    Effect.gen(function* () {
      const start = Date.UTC(2026, 0, 31, 9)
      yield* record((of) => {
        of("greet").enqueued(3, start)
        of("greet").started(1, start)
        of("greet").completed(start)
        of("greet").retried(start)
        of("greet").ran(20, 40, start)
      })
      yield* record((of) => {
        of("greet").died(2, "rejected", start)
        of("greet").rescued(1, start)
        for (const millis of [20, 20, 5_000]) of("greet").ran(millis, 9_000, start)
        of("greet").enqueued(100, start + 5 * minute)
        of("other").enqueued(1_000, start)
      })
      const range = "since=2026-01-31T09:00:00Z&until=2026-01-31T09:07:00Z&bucket=5m"
      const empty = { count: 0, sum: 0, p50: null, p95: null, p99: null, max: null }
      expect(yield* get(`series?queue=mail&kind=greet&${range}`)).toEqual({
        since: "2026-01-31T09:00:00.000Z",
        until: "2026-01-31T09:10:00.000Z",
        bucket: "5m",
        points: [
          {
            at: "2026-01-31T09:00:00.000Z",
            enqueued: 3,
            started: 1,
            completed: 1,
            retried: 1,
            dead: 2,
            cancelled: 0,
            rescued: 1,
            processing: { count: 4, sum: 5.06, p50: expect.closeTo(0.02, 2), p95: 5, p99: 5, max: 5 },
            total: { count: 4, sum: 27.04, p50: 9, p95: 9, p99: 9, max: 9 }
          },
          {
            at: "2026-01-31T09:05:00.000Z",
            ...noCounts,
            enqueued: 100,
            processing: empty,
            total: empty
          }
        ]
      })
      expect(yield* get(`series?kind=other&${range}`)).toMatchObject({ points: [{ enqueued: 1_000 }, noCounts] })
      expect(yield* get(`series?queue=nobody&${range}`)).toMatchObject({ points: [noCounts, noCounts] })
    }).pipe(Effect.provide(layer()))
  )

  it.scopedLive("shows the last hour by minute by default", () =>
    Effect.gen(function* () {
      const { thisMinute } = yield* aPod
      yield* record((of) => of("greet").enqueued(7, thisMinute))
      const seen = JSON.parse(JSON.stringify(yield* get("series")))
      expect(seen.bucket).toBe("1m")
      expect(seen.points.length).toBeGreaterThanOrEqual(60)
      const sum = seen.points.reduce((all: number, { enqueued }: { enqueued: number }) => all + enqueued, 0)
      expect(sum).toBe(7)
      const week = JSON.parse(
        JSON.stringify(yield* get(`series?since=${Instant.format(thisMinute - 7 * 24 * 60 * minute)}`))
      )
      expect(week.points.length).toBeLessThanOrEqual(200)
    }).pipe(Effect.provide(layer()))
  )
})

describe.each(backends)("on %s, GET /api/v1/metrics/queues", (_, layer) => {
  it.scopedLive("shows each queue's outcomes of the last hour, with the sums in the list of queues", () =>
    Effect.gen(function* () {
      const { thisMinute } = yield* aPod
      yield* record((of) => {
        of("greet").completed(thisMinute - 90 * minute)
        of("other").completed(thisMinute - 30 * minute)
        of("other").died(2, "rejected", thisMinute - 30 * minute)
        of("greet").completed(thisMinute)
      })
      yield* Effect.flatMap(Queues, (queues) => queues.declare(["mail", "idle"]))
      const seen = JSON.parse(JSON.stringify(yield* get("queues")))
      expect(seen).toMatchObject({ bucket: "2m", measuredAt: expect.stringMatching(/Z$/) })
      const points = (Date.parse(seen.until) - Date.parse(seen.since)) / 120_000
      expect([30, 31]).toContain(points)
      expect(seen.queues).toEqual([
        { queue: "mail", enqueued: expect.any(Array), completed: expect.any(Array), dead: expect.any(Array) }
      ])
      const [{ completed, dead }] = seen.queues
      expect([completed.length, dead.length]).toEqual([points, points])
      expect(completed.filter((count: number) => count > 0)).toEqual([1, 1])
      expect([completed.at(-1), Math.max(...dead)]).toEqual([1, 2])
      const { admin } = yield* TestServer
      const { json } = yield* admin("GET", "/api/v1/queues")
      const of = (completed: number, dead: number) => ({ seconds: expect.any(Number), completed, dead })
      expect(json).toMatchObject({
        measuredAt: seen.measuredAt,
        queues: [
          { name: "idle", throughput: of(0, 0), utilisation: 0 },
          { name: "mail", throughput: of(2, 2) }
        ]
      })
    }).pipe(Effect.provide(layer()))
  )
})

describe("the throughput of queues", () => {
  /** Buckets that refuse some widths as too expensive, and count the reads. */
  const crowded = (tooMuch: (minutes: number) => boolean) => {
    const asked: Array<number> = []
    const buckets = Layer.map(MinuteBucketsMemory.layer, (context) => {
      const real = Context.get(context, MinuteBuckets)
      return Context.make(MinuteBuckets, {
        ...real,
        throughput: (request) =>
          Effect.suspend(() => {
            asked.push(Duration.toMinutes(request.width))
            return tooMuch(Duration.toMinutes(request.width)) ? new TooMuchToMerge() : real.throughput(request)
          })
      })
    })
    return { asked, layer: Layer.provide(ThroughputCache.layer, buckets) }
  }

  it.effect("is read once for all callers, and again when it is stale", () => {
    const { asked, layer } = crowded(() => false)
    return Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2030, 0, 1))
      const { read } = yield* ThroughputCache
      const all = yield* Effect.all([read, read, read], { concurrency: "unbounded" })
      expect(new Set(all.map(({ at }) => at)).size).toBe(1)
      yield* TestClock.adjust("4 seconds")
      yield* read
      expect(asked).toEqual([2])
      yield* TestClock.adjust("1 second")
      expect((yield* read).at).toBe(Date.UTC(2030, 0, 1) + 5_000)
      expect(asked).toEqual([2, 2])
    }).pipe(Effect.provide(layer))
  })

  it.effect("has fewer points when the full resolution is too expensive, and fails when every width is", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2030, 0, 1))
      const coarse = crowded((minutes) => minutes < 10)
      const read = Effect.flatMap(ThroughputCache, (cache) => cache.read)
      expect(Duration.toMinutes((yield* Effect.provide(read, coarse.layer)).width)).toBe(10)
      const refused = yield* Effect.flip(Effect.provide(read, crowded(() => true).layer))
      expect(refused).toMatchObject({ _tag: "TooMuchToMerge" })
    })
  )
})

describe("a metrics request", () => {
  it.scopedLive("is refused with the name of the field", () =>
    Effect.gen(function* () {
      const { admin } = yield* TestServer
      for (const [field, query, says] of [
        ["bucket", "bucket=0", /from 1m to 30d/],
        ["bucket", "bucket=90s", /whole minutes/],
        ["bucket", "bucket=300", /such as 5m/],
        ["bucket", "bucket=31d", /from 1m to 30d/],
        ["bucket", "bucket=1m&since=2026-01-01T00:00:00Z&until=2026-01-31T00:00:00Z", /buckets of at least 29m/],
        ["since", "since=yesterday", /RFC 3339/],
        ["since", "since=2026-01-31T09:00:00Z&until=2026-01-31T09:00:00Z", /before until/],
        ["until", "until=2026-01-31", /RFC 3339/],
        ["queue", "queue=%00", /NUL/],
        ["quue", "quue=mail", /not a known field/]
      ] as const) {
        const refused = yield* admin("GET", `/api/v1/metrics/series?${query}`)
        expect(refused, query).toMatchObject({
          status: 400,
          json: { error: { field, message: expect.stringMatching(says) } }
        })
      }
    }).pipe(Effect.provide(memory()))
  )

  it.scopedLive("requires a token", () =>
    Effect.gen(function* () {
      const { ask } = yield* TestServer
      for (const path of ["series", "queues", "pods", "database"]) {
        expect(yield* ask("GET", `/api/v1/metrics/${path}`)).toMatchObject({ status: 401 })
      }
    }).pipe(Effect.provide(memory()))
  )
})

describe("GET /api/v1/metrics/pods", () => {
  it.scopedLive("shows each pod's resource usage", () =>
    Effect.gen(function* () {
      const pods = yield* PodSamples
      const { id, thisMinute } = yield* aPod
      yield* pods.record({
        minute: thisMinute,
        pod: id,
        cpu: 0.5,
        rssBytes: 123_456_789,
        eventLoop: { p99: 0.004, max: 0.25 },
        pool: { busy: 3, idle: 1, waiting: 0 },
        statements: sketch(2)
      })
      expect(yield* get("pods?bucket=1h")).toMatchObject({
        bucket: "1h",
        pods: [
          {
            pod: id,
            points: [
              {
                cpu: 0.5,
                rssBytes: 123_456_789,
                eventLoopDelay: { p99: 0.004, max: 0.25 },
                pool: { busy: 3, idle: 1, waiting: 0 },
                statements: { count: 1, max: 0.002 }
              }
            ]
          }
        ]
      })
    }).pipe(Effect.provide(layerPostgres()))
  )
})

describe("GET /api/v1/metrics/database", () => {
  it.scopedLive("shows the database's current and past health", () =>
    Effect.gen(function* () {
      yield* Effect.flatMap(DatabaseHealth, (health) => health.sample)
      const facts = {
        at: expect.stringMatching(/Z$/),
        sizeBytes: expect.any(Number),
        jobBytes: expect.any(Number),
        jobLiveTuples: expect.any(Number),
        jobDeadTuples: expect.any(Number),
        oldestTransactionSeconds: 0,
        connections: expect.any(Number)
      }
      expect(yield* get("database")).toMatchObject({
        bucket: "1m",
        now: { ...facts, blockers: [] },
        statements: { count: 0, p99: null },
        points: [facts]
      })
    }).pipe(Effect.provide(layerPostgres()))
  )
})
