import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Duration, Effect, type Layer } from "effect"
import { makeGenerator, type PodId } from "../../src/core/Ids.js"
import { MinuteBuckets, type SeriesRequest } from "../../src/measures/MinuteBuckets.js"
import { emptySketch, Histogram } from "../../src/telemetry/Histogram.js"
import { type MinuteCount, minuteOf, noCounts } from "../../src/telemetry/MinuteCount.js"
import type { Advance } from "./Line.js"

const minute = 60_000

const sketch = (...millis: ReadonlyArray<number>) => {
  const histogram = new Histogram()
  for (const value of millis) histogram.record(value)
  return histogram.sketch()
}

interface Book {
  readonly buckets: typeof MinuteBuckets.Service
  /** A minute that begins a day, long after those of other laws. */
  readonly start: number
  readonly pod: PodId
  readonly otherPod: PodId
  readonly advance: Advance
  readonly count: (more?: Partial<MinuteCount>) => MinuteCount
  readonly series: (more?: Partial<SeriesRequest>) => ReturnType<typeof MinuteBuckets.Service.series>
}

const open = (advance: Advance): Effect.Effect<Book, never, MinuteBuckets> =>
  Effect.gen(function* () {
    yield* advance("60 days")
    const buckets = yield* MinuteBuckets
    const ids = yield* makeGenerator
    const now = yield* Clock.currentTimeMillis
    const start = Math.floor(now / 86_400_000) * 86_400_000
    return {
      buckets,
      start,
      pod: ids.pod(now),
      otherPod: ids.pod(now),
      advance,
      count: (more) => ({
        ...noCounts,
        minute: start,
        queue: "mail",
        kind: "greet",
        processing: emptySketch,
        total: emptySketch,
        ...more
      }),
      series: (more) => buckets.series({ from: start, to: start + 5 * minute, width: Duration.minutes(1), ...more })
    }
  })

type Law = (name: string, story: (book: Book) => Effect.Effect<void, unknown>) => void

const laws = (law: Law) => {
  law("what was counted of a minute is read back in its bucket, and other buckets are empty", (book) =>
    Effect.gen(function* () {
      const counted = { enqueued: 9, started: 8, completed: 5, retried: 2, dead: 1, rescued: 3 }
      const processing = sketch(5, 10, 20)
      yield* book.buckets.record(book.pod, 1, [
        book.count({ ...counted, minute: book.start + minute, processing, total: sketch(50) })
      ])
      const points = yield* book.series()
      expect(points.map(({ at }) => at)).toEqual([0, 1, 2, 3, 4].map((index) => book.start + index * minute))
      expect(points[1]).toMatchObject({
        ...counted,
        processing: { count: 3, sum: 35, max: 20 },
        total: { count: 1, sum: 50, p50: 50, max: 50 }
      })
      const empty = { count: 0, sum: 0, p50: undefined, p95: undefined, p99: undefined, max: undefined }
      expect(points[0]).toEqual({ at: book.start, ...noCounts, processing: empty, total: empty })
    })
  )

  law("a flush replaces what the pod wrote of the minute before, and the same again changes nothing", (book) =>
    Effect.gen(function* () {
      const first = [book.count({ enqueued: 3, processing: sketch(1) })]
      const grown = [book.count({ enqueued: 7, processing: sketch(1, 2) })]
      yield* book.buckets.record(book.pod, 1, first)
      yield* book.buckets.record(book.pod, 2, grown)
      yield* book.buckets.record(book.pod, 2, grown)
      expect((yield* book.series())[0]).toMatchObject({ enqueued: 7, processing: { count: 2 } })
      // Believed lost, and sent once more meanwhile.
      yield* book.buckets.record(book.pod, 1, first)
      expect((yield* book.series())[0]).toMatchObject({ enqueued: 7, processing: { count: 2 } })
    })
  )

  law("a minute that is long over is still written", (book) =>
    Effect.gen(function* () {
      yield* book.buckets.record(book.pod, 1, [book.count({ minute: book.start + 4 * minute, dead: 1 })])
      yield* book.advance("3 hours")
      yield* book.buckets.record(book.pod, 2, [book.count({ dead: 2 })])
      expect((yield* book.series()).map(({ dead }) => dead)).toEqual([2, 0, 0, 0, 1])
    })
  )

  law("what two pods counted is added up", (book) =>
    Effect.gen(function* () {
      const ours = [1, 5, 5, 900]
      const theirs = [2, 70, 80]
      yield* book.buckets.record(book.pod, 1, [book.count({ completed: 4, total: sketch(...ours) })])
      yield* book.buckets.record(book.otherPod, 7, [book.count({ completed: 3, total: sketch(...theirs) })])
      const [point] = yield* book.series()
      expect(point).toMatchObject({ completed: 7, total: Histogram.of(sketch(...ours, ...theirs)).summary() })
    })
  )

  law("wider buckets have the percentiles of all that is in them, not the mean of percentiles", (book) =>
    Effect.gen(function* () {
      // A busy quick minute and a quiet slow one: means of percentiles would say that half of all runs are slow.
      const quick = Array.from({ length: 990 }, (_, index) => 1 + (index % 3))
      const slow = Array.from({ length: 10 }, () => 60_000)
      yield* book.buckets.record(book.pod, 1, [
        book.count({ processing: sketch(...quick) }),
        book.count({ minute: book.start + minute, processing: sketch(...slow) })
      ])
      const [whole, ...others] = yield* book.series({ width: Duration.hours(1) })
      expect(others).toEqual([])
      expect(whole?.processing).toEqual(Histogram.of(sketch(...quick, ...slow)).summary())
      expect(whole?.processing.p95).toBeLessThan(4)
    })
  )

  law("buckets begin at multiples of their width and hold the whole range", (book) =>
    Effect.gen(function* () {
      yield* book.buckets.record(book.pod, 1, [
        book.count({ started: 1 }),
        book.count({ minute: book.start + 14 * minute, started: 2 }),
        book.count({ minute: book.start + 15 * minute, started: 4 })
      ])
      const range = { from: book.start + 7 * minute + 1, to: book.start + 14 * minute + 1 }
      const points = yield* book.series({ ...range, width: Duration.minutes(5) })
      expect(points.map(({ at, started }) => [(at - book.start) / minute, started])).toEqual([
        [5, 0],
        [10, 2]
      ])
      // A width that is no whole number of minutes is widened to one.
      const odd = yield* book.series({ ...range, width: Duration.seconds(250) })
      expect(odd.map(({ at }) => at)).toEqual(points.map(({ at }) => at))
    })
  )

  law("more buckets than anybody can look at are refused, with a width that is not", (book) =>
    Effect.gen(function* () {
      const to = book.start + Duration.toMillis("30 days")
      const refused = yield* Effect.flip(book.series({ to }))
      if (refused._tag !== "TooManyPoints") throw refused
      const points = yield* book.series({ to, width: Duration.seconds(refused.narrowest) })
      expect(points.length).toBeGreaterThan(1_000)
    })
  )

  law("a queue and a kind can be looked at alone, whatever they are called", (book) =>
    Effect.gen(function* () {
      const odd = `it's "odd" \\ {1,2} ü 🦉`
      yield* book.buckets.record(book.pod, 1, [
        book.count({ completed: 1 }),
        book.count({ kind: odd, completed: 2 }),
        book.count({ queue: "files", completed: 4 }),
        book.count({ queue: "files", kind: odd, completed: 8 })
      ])
      const completed = (more: Partial<SeriesRequest>) => Effect.map(book.series(more), ([first]) => first?.completed)
      expect(yield* completed({})).toBe(15)
      expect(yield* completed({ queue: "files" })).toBe(12)
      expect(yield* completed({ kind: odd })).toBe(10)
      expect(yield* completed({ queue: "files", kind: odd })).toBe(8)
      expect(yield* completed({ queue: "nobody" })).toBe(0)
    })
  )

  law("totals name kinds by their deaths, then by their work", (book) =>
    Effect.gen(function* () {
      yield* book.buckets.record(book.pod, 1, [
        book.count({ kind: "calm", started: 5 }),
        book.count({ kind: "busy", started: 50 }),
        book.count({ kind: "busy", minute: book.start + minute, started: 50 }),
        book.count({ kind: "ill", dead: 1 }),
        book.count({ kind: "later", minute: book.start + 5 * minute, dead: 9 })
      ])
      const totals = yield* book.buckets.totals({ from: book.start, to: book.start + 5 * minute })
      expect(totals.map(({ dead, kind, started }) => [kind, dead, started])).toEqual([
        ["ill", 1, 0],
        ["busy", 0, 100],
        ["calm", 0, 5]
      ])
      expect(totals[0]).toEqual({ ...noCounts, queue: "mail", kind: "ill", dead: 1 })
    })
  )

  law("what is older than its time is forgotten, and nothing else", (book) =>
    Effect.gen(function* () {
      yield* book.buckets.purge(Duration.days(1))
      const now = minuteOf(yield* Clock.currentTimeMillis)
      yield* book.buckets.record(book.pod, 1, [
        book.count({ minute: now - 62 * minute, dead: 1 }),
        book.count({ minute: now - 61 * minute, dead: 2 }),
        book.count({ minute: now - 59 * minute, dead: 4 }),
        book.count({ minute: now, dead: 8 })
      ])
      expect(yield* book.buckets.purge(Duration.hours(1))).toBe(2)
      expect(yield* book.buckets.purge(Duration.hours(1))).toBe(0)
      const [only] = yield* book.buckets.totals({ from: 0, to: now + minute })
      expect(only?.dead).toBe(12)
    })
  )
}

/** What the port promises, whatever is behind it. */
export const minuteBucketsLaws = (
  name: string,
  layer: Layer.Layer<MinuteBuckets>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    laws((title, story) => it.effect(title, () => Effect.flatMap(open(options.advance), story)))
  })
