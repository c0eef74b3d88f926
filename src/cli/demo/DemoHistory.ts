import { Clock, Effect, Random } from "effect"
import { makeGenerator, type PodId } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { MinuteBuckets } from "../../history/MinuteBuckets.js"
import { type PodSample, PodSamples } from "../../history/PodSamples.js"
import {
  type BucketCount,
  bucketStart,
  type Grain,
  grains,
  minuteOf,
  RunningCounts
} from "../../telemetry/BucketCount.js"
import { Histogram } from "../../telemetry/Histogram.js"
import { type DemoProfile, isIncident, profiles, trafficFactor } from "./DemoProfile.js"

// Generated metrics of the past week, so that no chart starts empty. They are written through the same service that
// pods use, in the name of a pod that no longer exists.

const minute = 60_000
const hour = 60 * minute

/** History length per bucket width in minutes. Charts of longer ranges read wider buckets. */
const reach: Readonly<Record<Grain, number>> = { 1: 4 * hour, 10: 30 * hour, 60: 7 * 24 * hour }

/** History length of the pod's CPU and memory samples. */
const sampled = 2 * hour

interface Minute {
  readonly count: number
  /** Whether the minute lies in the simulated payment outage. */
  readonly trouble: boolean
  /** Random number from 0 to 1. */
  readonly chance: number
}

/** Adds one minute of one kind to every bucket that contains it. */
const addMinute = (buckets: ReadonlyArray<RunningCounts>, profile: DemoProfile, { chance, count, trouble }: Minute) => {
  const factor = trouble && profile.dead > 0 ? 10 : 1
  const retried = Math.round(count * profile.retried * factor)
  const dead = Math.round(count * profile.dead * factor + ((count * 0.37) % 1) * profile.dead * 20)
  const slow = Math.max(1, Math.round(count * 0.05))
  for (const bucket of buckets) {
    bucket.enqueued += count
    bucket.started += count + retried
    bucket.retried += retried
    bucket.dead += dead
    bucket.completed += Math.max(0, count - dead)
    for (const histogram of [bucket.processing, bucket.total]) {
      const wait = histogram === bucket.total ? 15 * factor : 0
      histogram.record(profile.usual * (0.6 + chance * 0.4) + wait, Math.round(count * 0.6))
      histogram.record(profile.usual * (1.2 + chance * 0.6) + wait, Math.round(count * 0.35))
      histogram.record(profile.worst * (trouble ? 1.5 : 0.4 + chance * 0.6) + wait, slow)
    }
  }
}

/** Returns the buckets of one kind, oldest first. The current minute is included up to now. */
const bucketsOf = (profile: DemoProfile, now: number, chances: () => number): ReadonlyArray<BucketCount> => {
  const written: Array<BucketCount> = []
  const open = grains.map((grain) => ({ grain, counts: new RunningCounts() }))
  for (let at = bucketStart(60, now - reach[60]); at < now; at += minute) {
    const share = Math.min(1, (now - at) / minute)
    const chance = chances()
    const count = Math.round(profile.perMinute * trafficFactor(at, chance) * share)
    const kept = open.filter(({ grain }) => at >= bucketStart(grain, now - reach[grain]))
    const counts = kept.map((bucket) => bucket.counts)
    addMinute(counts, profile, { count, chance, trouble: isIncident(now - at) })
    for (const { counts, grain } of kept) {
      const next = at + minute
      if (next < now && bucketStart(grain, next) === bucketStart(grain, at)) continue
      const { kind, queue } = profile
      written.push(counts.snapshot({ grain, start: bucketStart(grain, at), queue, kind }))
      counts.clear()
    }
  }
  return written
}

/** Returns the pod's resource and statement latency samples. */
const samplesOf = (pod: PodId, now: number): ReadonlyArray<PodSample> =>
  Array.from({ length: sampled / minute }, (_, index) => {
    const statements = new Histogram()
    statements.record(0.6 + (index % 7) / 20, 900)
    statements.record(4 + (index % 11) / 3, 60)
    return {
      minute: minuteOf(now) - (index + 1) * minute,
      pod,
      cpu: 0.1 + Math.sin(index / 9) / 30,
      rssBytes: 140e6 + (index % 13) * 1e6,
      eventLoop: { p99: 0.004, max: 0.02 + (index % 5) / 200 },
      pool: { busy: index % 3, idle: 8, waiting: 0 },
      statements: statements.sketch()
    }
  })

/** Writes the history. Randomness comes from Effect's Random, so the same seed gives the same week. */
export const write: Effect.Effect<void, DatabaseError, MinuteBuckets | PodSamples> = Effect.gen(function* () {
  const buckets = yield* MinuteBuckets
  const samples = yield* PodSamples
  const ids = yield* makeGenerator
  const now = yield* Clock.currentTimeMillis
  const pod = ids.pod(now - reach[60])
  const drawn = yield* Effect.replicateEffect(Random.next, 997)
  for (const [number, profile] of profiles.entries()) {
    let turn = number * 131
    const chances = () => drawn[turn++ % drawn.length] ?? 0.5
    yield* buckets.record(pod, 1, bucketsOf(profile, now, chances))
  }
  yield* Effect.forEach(samplesOf(pod, now), samples.record, { concurrency: 8, discard: true })
})
