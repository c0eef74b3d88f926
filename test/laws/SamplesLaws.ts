import { expect, layer as withLayer } from "@effect/vitest"
import { Clock, Duration, Effect, type Layer, Option } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { DatabaseHealth } from "../../src/history/DatabaseHealth.js"
import { type PodSample, PodSamples } from "../../src/history/PodSamples.js"
import { emptySketch, Histogram } from "../../src/telemetry/Histogram.js"
import type { Advance } from "./Line.js"

const minute = 60_000

const sketch = (...millis: ReadonlyArray<number>) => {
  const histogram = new Histogram()
  for (const value of millis) histogram.record(value)
  return histogram.sketch()
}

const open = (advance: Advance) =>
  Effect.gen(function* () {
    yield* advance("60 days")
    const now = yield* Clock.currentTimeMillis
    const ids = yield* makeGenerator
    const start = Math.floor(now / 86_400_000) * 86_400_000
    const [older, newer] = [ids.pod(now), ids.pod(now + 1)]
    const sample = (more: Partial<PodSample> = {}): PodSample => ({
      minute: start,
      pod: older,
      cpu: 0.5,
      rssBytes: 100,
      eventLoop: { p99: 0.001, max: 0.002 },
      pool: { busy: 1, idle: 2, waiting: 0 },
      statements: emptySketch,
      ...more
    })
    const pods = yield* PodSamples
    const health = yield* DatabaseHealth
    return { advance, pods, health, start, older, newer, sample }
  })

type Book = Effect.Effect.Success<ReturnType<typeof open>>
type Law = (name: string, story: (book: Book) => Effect.Effect<void, unknown>) => void

const laws = (law: Law) => {
  law("a pod's sample of a minute is read back whole, and a second one replaces it", ({ older, pods, sample, start }) =>
    Effect.gen(function* () {
      yield* pods.record(sample({ cpu: 9 }))
      yield* pods.record(sample({ cpu: 0.25, rssBytes: 5e9, statements: sketch(1, 2) }))
      const range = { from: start, to: start + 3 * minute, width: Duration.minutes(1) }
      expect(yield* pods.series(range)).toEqual([
        {
          pod: older,
          points: [
            {
              at: start,
              cpu: 0.25,
              rssBytes: 5e9,
              eventLoop: { p99: 0.001, max: 0.002 },
              pool: { busy: 1, idle: 2, waiting: 0 },
              statements: Histogram.of(sketch(1, 2)).summary()
            }
          ]
        }
      ])
    })
  )

  law("wider buckets have the mean CPU usage and the maximum of everything else, per pod, newest first", (book) =>
    Effect.gen(function* () {
      const { newer, older, pods, sample, start } = book
      yield* pods.record(sample({ cpu: 0.1, rssBytes: 7, pool: { busy: 4, idle: 0, waiting: 9 } }))
      yield* pods.record(
        sample({
          minute: start + 4 * minute,
          cpu: 0.3,
          rssBytes: 5,
          eventLoop: { p99: 1, max: 3 },
          statements: sketch(8)
        })
      )
      yield* pods.record(sample({ minute: start + 5 * minute, cpu: 4, statements: sketch(2) }))
      yield* pods.record(sample({ pod: newer, minute: start + minute, statements: sketch(4, 4) }))
      const seen = yield* pods.series({ from: start, to: start + 10 * minute, width: Duration.minutes(5) })
      expect(seen.map(({ pod, points }) => [pod, points.map(({ at }) => (at - start) / minute)])).toEqual([
        [newer, [0]],
        [older, [0, 5]]
      ])
      expect(seen[1]?.points[0]).toMatchObject({
        cpu: expect.closeTo(0.2, 9),
        rssBytes: 7,
        eventLoop: { p99: 1, max: 3 },
        pool: { busy: 4, idle: 2, waiting: 9 },
        statements: { count: 1, max: 8 }
      })
      const all = yield* pods.statements({ from: start, to: start + 10 * minute })
      expect(all).toEqual(Histogram.of(sketch(8, 2, 4, 4)).summary())
      expect(yield* pods.statements({ from: start - minute, to: start })).toMatchObject({ count: 0, p50: undefined })
    })
  )

  law("a range with too many buckets is refused", ({ health, pods, start }) =>
    Effect.gen(function* () {
      const request = { from: start, to: start + Duration.toMillis("30 days"), width: Duration.minutes(1) }
      expect(yield* Effect.flip(pods.series(request))).toMatchObject({ _tag: "TooManyPoints" })
      expect(yield* Effect.flip(health.series(request))).toMatchObject({ _tag: "TooManyPoints" })
    })
  )

  law("one pod samples the database per minute, however many try", ({ advance, health }) =>
    Effect.gen(function* () {
      yield* advance(minute - ((yield* Clock.currentTimeMillis) % minute))
      const from = yield* Clock.currentTimeMillis
      const first = yield* health.sample
      expect(Option.map(first, ({ at }) => at)).toEqual(Option.some(from))
      yield* advance("59 seconds")
      expect(yield* health.sample).toEqual(Option.none())
      yield* advance("1 second")
      expect(Option.isSome(yield* health.sample)).toBe(true)
      const points = yield* health.series({ from, to: from + 5 * minute, width: Duration.minutes(1) })
      expect(points.map(({ at }) => (at - from) / minute)).toEqual([0, 1])
      expect(points[0]).toEqual({
        at: from,
        sizeBytes: expect.any(Number),
        jobBytes: expect.any(Number),
        jobLiveTuples: expect.any(Number),
        jobDeadTuples: expect.any(Number),
        oldestTransactionSeconds: 0,
        connections: expect.any(Number)
      })
    })
  )

  law("purge deletes what is past its retention, and nothing else", ({ advance, health, pods, sample, start }) =>
    Effect.gen(function* () {
      yield* Effect.all([pods.purge(Duration.zero), health.purge(Duration.zero)])
      yield* health.sample
      yield* pods.record(sample({ minute: start - minute }))
      yield* pods.record(sample())
      yield* advance(start + Duration.toMillis("1 day") - (yield* Clock.currentTimeMillis))
      yield* health.sample
      expect(yield* pods.purge(Duration.days(1))).toBe(1)
      expect(yield* health.purge(Duration.hours(1))).toBe(1)
      const range = { from: start - minute, to: start + 2 * Duration.toMillis("1 day"), width: Duration.hours(1) }
      expect((yield* pods.series(range)).flatMap(({ points }) => points).length).toBe(1)
      expect((yield* health.series(range)).length).toBe(1)
    })
  )
}

/** Laws of the sample ports. */
export const samplesLaws = (
  name: string,
  layer: Layer.Layer<PodSamples | DatabaseHealth>,
  options: { readonly clock: "test" | "live"; readonly advance: Advance }
): void =>
  withLayer(layer, { excludeTestServices: options.clock === "live" })(name, (it) => {
    laws((title, story) => it.effect(title, () => Effect.flatMap(open(options.advance), story)))
  })
