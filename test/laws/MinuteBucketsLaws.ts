import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Duration, Effect, type Layer, Option } from "effect"
import * as DurationText from "../../src/core/DurationText.js"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { MinuteBuckets, type SeriesRequest } from "../../src/history/MinuteBuckets.js"
import { noCounts } from "../../src/telemetry/BucketCount.js"
import { Histogram } from "../../src/telemetry/Histogram.js"
import type { KindTally } from "../../src/telemetry/KindTally.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import type { Advance } from "./Line.js"

const minute = 60_000

const histogramOf = (...millis: ReadonlyArray<number>) => {
  const histogram = new Histogram()
  for (const value of millis) histogram.record(value)
  return histogram
}

const summaryOf = (...millis: ReadonlyArray<number>) => histogramOf(...millis).summary()
const sketchOf = (...millis: ReadonlyArray<number>) => histogramOf(...millis).sketch()

interface Teller {
  readonly pod: PodId
  readonly tally: typeof Tally.Service
  readonly of: (kind?: string, queue?: string) => KindTally
  readonly flush: Effect.Effect<void, unknown>
}

interface Book {
  readonly buckets: typeof MinuteBuckets.Service
  /** The first minute of a day that no other law uses. */
  readonly start: number
  readonly advance: Advance
  /** A pod that counts and flushes. */
  readonly teller: Effect.Effect<Teller>
  readonly series: (more?: Partial<SeriesRequest>) => ReturnType<typeof MinuteBuckets.Service.series>
}

const open = (advance: Advance): Effect.Effect<Book, never, MinuteBuckets> =>
  Effect.gen(function* () {
    yield* advance("60 days")
    const buckets = yield* MinuteBuckets
    const ids = yield* makeGenerator
    const now = yield* Clock.currentTimeMillis
    const start = Math.floor(now / 86_400_000) * 86_400_000
    const teller = Effect.map(Tally.make, (tally): Teller => {
      const pod = ids.pod(now)
      let revision = 0
      return {
        pod,
        tally,
        of: (kind = "greet", queue = "mail") => tally.of(queue, kind),
        flush: Effect.suspend(() => {
          revision += 1
          return buckets.record(pod, revision, tally.take())
        })
      }
    })
    return {
      buckets,
      start,
      advance,
      teller: Effect.provide(teller, Metrics.layer),
      series: (more) => buckets.series({ from: start, to: start + 5 * minute, width: Duration.minutes(1), ...more })
    }
  })

type Law = (name: string, story: (book: Book) => Effect.Effect<void, unknown>) => void

const laws = (law: Law) => {
  law("the counts of a minute are read from its bucket, and other buckets are empty", (book) =>
    Effect.gen(function* () {
      const teller = yield* book.teller
      const at = book.start + minute
      teller.of().enqueued(9, at)
      for (let run = 0; run < 8; run += 1) teller.of().started(1, at)
      teller.of().completed(at)
      teller.of().retried(at)
      teller.of().died(2, "rejected", at)
      teller.of().died(1, "cancelled", at)
      teller.of().rescued(3, at)
      for (const millis of [5, 10, 20]) teller.of().ran(millis, millis + 30, at)
      yield* teller.flush
      const points = yield* book.series()
      expect(points.map((point) => point.at)).toEqual([0, 1, 2, 3, 4].map((index) => book.start + index * minute))
      expect(points[1]).toEqual({
        at,
        enqueued: 9,
        started: 8,
        completed: 1,
        retried: 1,
        dead: 2,
        cancelled: 1,
        rescued: 3,
        processing: summaryOf(5, 10, 20),
        total: summaryOf(35, 40, 50),
        totals: sketchOf(35, 40, 50)
      })
      const empty = { count: 0, sum: 0, p50: undefined, p95: undefined, p99: undefined, max: undefined }
      expect(points[0]).toEqual({ at: book.start, ...noCounts, processing: empty, total: empty, totals: sketchOf() })
    })
  )

  law("a flush replaces the pod's previous values of the bucket, and is idempotent", (book) =>
    Effect.gen(function* () {
      const { of, pod, tally } = yield* book.teller
      of().enqueued(3, book.start)
      const first = tally.take()
      yield* book.buckets.record(pod, 1, first)
      of().enqueued(4, book.start)
      of().ran(2, 2, book.start)
      const grown = tally.take()
      yield* book.buckets.record(pod, 2, grown)
      yield* book.buckets.record(pod, 2, grown)
      expect((yield* book.series())[0]).toMatchObject({ enqueued: 7, processing: { count: 1 } })
      // Considered lost and sent again meanwhile.
      yield* book.buckets.record(pod, 1, first)
      expect((yield* book.series())[0]).toMatchObject({ enqueued: 7, processing: { count: 1 } })
      expect((yield* book.series({ width: Duration.hours(1) }))[0]).toMatchObject({ enqueued: 7 })
    })
  )

  law("a minute that ended long ago is still written", (book) =>
    Effect.gen(function* () {
      const [late, other] = [yield* book.teller, yield* book.teller]
      late.of().died(2, "rejected", book.start)
      other.of().died(1, "rejected", book.start + 4 * minute)
      yield* other.flush
      yield* book.advance("3 hours")
      yield* late.flush
      expect((yield* book.series()).map(({ dead }) => dead)).toEqual([2, 0, 0, 0, 1])
    })
  )

  law("the counts of two pods are added up", (book) =>
    Effect.gen(function* () {
      const [ours, theirs] = [yield* book.teller, yield* book.teller]
      for (const millis of [1, 5, 5, 900]) ours.of().ran(millis, millis, book.start)
      for (const millis of [2, 70, 80]) theirs.of().ran(millis, millis, book.start)
      ours.of().enqueued(4, book.start)
      theirs.of().enqueued(3, book.start)
      yield* ours.flush
      yield* theirs.flush
      const [point] = yield* book.series()
      expect(point).toMatchObject({ enqueued: 7, total: summaryOf(1, 5, 5, 900, 2, 70, 80) })
    })
  )

  law("wider buckets have the percentiles of all their runs, not the mean of percentiles", (book) =>
    Effect.gen(function* () {
      const { flush, of } = yield* book.teller
      // A busy fast minute and a quiet slow one: means of percentiles would report half of all runs as slow.
      const quick = Array.from({ length: 990 }, (_, index) => 1 + (index % 3))
      const slow = Array.from({ length: 10 }, () => 60_000)
      for (const millis of quick) of().ran(millis, millis, book.start)
      for (const millis of slow) of().ran(millis, millis, book.start + minute)
      yield* flush
      for (const width of [2, 10, 30, 60, 180]) {
        const [whole] = yield* book.series({ width: Duration.minutes(width) })
        expect(whole?.processing).toEqual(summaryOf(...quick, ...slow))
        expect(whole?.processing.p95).toBeLessThan(4)
      }
    })
  )

  law("every width gives the same totals", (book) =>
    Effect.gen(function* () {
      const { flush, of } = yield* book.teller
      // Flushes at irregular times, across the ends of minutes, ten minutes and hours.
      for (let step = 0; step < 150; step += 1) {
        const at = book.start + step * 61_000
        of().enqueued(1 + (step % 3), at)
        of().ran(1 + step, 2 + step, at)
        if (step % 7 === 0) yield* flush
      }
      yield* flush
      const to = book.start + 180 * minute
      const all = yield* book.series({ to, width: Duration.hours(3) })
      expect(all[0]?.enqueued).toBe(300)
      for (const width of [1, 5, 10, 20, 30, 60, 90]) {
        const points = yield* book.series({ to, width: Duration.minutes(width) })
        expect(points.reduce((sum, point) => sum + point.enqueued, 0)).toBe(300)
        expect(points.reduce((sum, { processing }) => sum + processing.count, 0)).toBe(150)
        const last = points.findLast(({ processing }) => processing.count > 0)
        expect(last?.processing.max).toBe(150)
      }
    })
  )

  law("buckets start at multiples of their width and cover the whole range", (book) =>
    Effect.gen(function* () {
      const { flush, of } = yield* book.teller
      of().enqueued(1, book.start)
      of().enqueued(2, book.start + 14 * minute)
      of().enqueued(4, book.start + 15 * minute)
      yield* flush
      const range = { from: book.start + 7 * minute + 1, to: book.start + 14 * minute + 1 }
      const points = yield* book.series({ ...range, width: Duration.minutes(5) })
      expect(points.map(({ at, enqueued }) => [(at - book.start) / minute, enqueued])).toEqual([
        [5, 0],
        [10, 2]
      ])
      // A width that is not a multiple of a minute is rounded up.
      const odd = yield* book.series({ ...range, width: Duration.seconds(250) })
      expect(odd.map(({ at }) => at)).toEqual(points.map(({ at }) => at))
    })
  )

  law("too many buckets are refused, with a width that is accepted", (book) =>
    Effect.gen(function* () {
      const to = book.start + Duration.toMillis("30 days")
      const refused = yield* Effect.flip(book.series({ to }))
      if (refused._tag !== "TooManyPoints") throw refused
      const points = yield* book.series({ to, width: Option.getOrThrow(DurationText.parse(refused.narrowest)) })
      expect(points.length).toBeGreaterThan(1_000)
    })
  )

  law("series can be filtered by queue and kind, whatever their names", (book) =>
    Effect.gen(function* () {
      const odd = `it's "odd" \\ {1,2} ü 🦉`
      const { flush, of } = yield* book.teller
      of("greet", "mail").enqueued(1, book.start)
      of(odd, "mail").enqueued(2, book.start)
      of("greet", "files").enqueued(4, book.start)
      of(odd, "files").enqueued(8, book.start)
      yield* flush
      const enqueued = (more: Partial<SeriesRequest>) => Effect.map(book.series(more), ([first]) => first?.enqueued)
      expect(yield* enqueued({})).toBe(15)
      expect(yield* enqueued({ queue: "files" })).toBe(12)
      expect(yield* enqueued({ kind: odd })).toBe(10)
      expect(yield* enqueued({ queue: "files", kind: odd })).toBe(8)
      expect(yield* enqueued({ queue: "nobody" })).toBe(0)
    })
  )

  law("the outcomes of all queues are read at once, every bucket of each active queue", (book) =>
    Effect.gen(function* () {
      const odd = `it's "odd" \\ {1,2} ü 🦉`
      const [ours, theirs] = [yield* book.teller, yield* book.teller]
      ours.of("greet", "mail").completed(book.start)
      ours.of("other", "mail").completed(book.start + minute)
      theirs.of("greet", "mail").completed(book.start + minute)
      theirs.of("greet", "mail").died(3, "rejected", book.start + 4 * minute)
      theirs.of("greet", odd).died(2, "rejected", book.start + 2 * minute)
      ours.of("greet", "idle").enqueued(5, book.start)
      ours.of("greet", "later").completed(book.start + 6 * minute)
      yield* ours.flush
      yield* theirs.flush
      const range = { from: book.start, to: book.start + 6 * minute }
      const none = [0, 0, 0, 0, 0, 0]
      const read = (minutes: number) => book.buckets.throughput({ ...range, width: Duration.minutes(minutes) })
      expect(yield* read(1)).toEqual([
        { queue: "idle", enqueued: [5, 0, 0, 0, 0, 0], completed: none, dead: none },
        { queue: odd, enqueued: none, completed: none, dead: [0, 0, 2, 0, 0, 0] },
        { queue: "mail", enqueued: none, completed: [1, 2, 0, 0, 0, 0], dead: [0, 0, 0, 0, 3, 0] }
      ])
      expect(yield* read(2)).toEqual([
        { queue: "idle", enqueued: [5, 0, 0], completed: [0, 0, 0], dead: [0, 0, 0] },
        { queue: odd, enqueued: [0, 0, 0], completed: [0, 0, 0], dead: [0, 2, 0] },
        { queue: "mail", enqueued: [0, 0, 0], completed: [3, 0, 0], dead: [0, 0, 3] }
      ])
      const month = { from: book.start, to: book.start + Duration.toMillis("30 days") }
      const refused = yield* Effect.flip(book.buckets.throughput({ ...month, width: Duration.minutes(1) }))
      expect(refused).toMatchObject({ _tag: "TooManyPoints" })
    })
  )

  law("totals sort kinds by deaths, then by runs", (book) =>
    Effect.gen(function* () {
      const { flush, of } = yield* book.teller
      of("calm").started(0, book.start)
      for (let run = 0; run < 3; run += 1) of("busy").started(0, book.start + run * minute)
      of("ill").died(1, "rejected", book.start)
      of("later").died(9, "rejected", book.start + 5 * minute)
      yield* flush
      const to = book.start + 5 * minute
      const totals = yield* book.buckets.totals({ from: book.start, to })
      expect(totals.map(({ dead, kind, started }) => [kind, dead, started])).toEqual([
        ["ill", 1, 0],
        ["busy", 0, 3],
        ["calm", 0, 1]
      ])
      expect(totals[0]).toEqual({ ...noCounts, queue: "mail", kind: "ill", dead: 1 })
      for (const hours of [12, 24 * 7]) {
        const wide = yield* book.buckets.totals({ from: to - Duration.toMillis(`${hours} hours`), to })
        expect(wide.map(({ kind }) => kind)).toContain("busy")
      }
    })
  )

  law("purge deletes what is past its retention, and nothing else", (book) =>
    Effect.gen(function* () {
      yield* book.buckets.purge(Duration.days(1))
      const { flush, of } = yield* book.teller
      of().died(1, "rejected", book.start)
      of().died(2, "rejected", book.start + minute)
      of().died(4, "rejected", book.start + 2 * 60 * minute)
      yield* flush
      yield* book.advance(book.start + 3 * 60 * minute - (yield* Clock.currentTimeMillis))
      const dead = (width: number) =>
        Effect.map(book.series({ to: book.start + 180 * minute, width: Duration.minutes(width) }), (points) =>
          points.reduce((sum, point) => sum + point.dead, 0)
        )
      // The first minute, its ten-minute bucket and its hour.
      expect(yield* book.buckets.purge(Duration.millis(179 * minute))).toBe(3)
      expect(yield* book.buckets.purge(Duration.millis(179 * minute))).toBe(0)
      expect([yield* dead(1), yield* dead(10), yield* dead(60)]).toEqual([6, 4, 4])
    })
  )
}

/** Laws of the minute buckets. */
export const minuteBucketsLaws = (
  name: string,
  layer: Layer.Layer<MinuteBuckets>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    laws((title, story) => it.effect(title, () => Effect.flatMap(open(options.advance), story)))
  })
