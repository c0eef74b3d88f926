import { Clock, Effect, Random } from "effect"
import { makeGenerator } from "../../core/Ids.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { MinuteBuckets } from "../../measures/MinuteBuckets.js"
import { type BucketCount, type Grain, grains, minuteOf, RunningCounts, startOf } from "../../telemetry/BucketCount.js"
import { type DemoProfile, isIncident, profiles, tideOf } from "./DemoProfile.js"

// The counts of a week that never was, so that no chart begins empty. They are written through the port that pods write
// theirs to, in the name of a pod that is gone.

const minute = 60_000
const hour = 60 * minute

/** How far back buckets of each width go: charts of longer ranges read wider ones. */
const reach: Readonly<Record<Grain, number>> = { 1: 4 * hour, 10: 30 * hour, 60: 7 * 24 * hour }

/** What happened to one kind in one minute, added to every bucket that holds it. */
const addMinute = (buckets: ReadonlyArray<RunningCounts>, profile: DemoProfile, count: number, trouble: boolean) => {
  const factor = trouble && profile.dead > 0 ? 6 : 1
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
      histogram.record(profile.usual * 0.8 + wait, Math.max(1, Math.round(count * 0.6)))
      histogram.record(profile.usual * 1.4 + wait, Math.max(1, Math.round(count * 0.35)))
      histogram.record((profile.worst + wait) * (trouble ? 1.5 : 0.6 + (count % 5) / 10), slow)
    }
  }
}

/** The buckets of one kind, oldest first. `now` is the first minute that is not history. */
const bucketsOf = (profile: DemoProfile, now: number, chances: () => number): ReadonlyArray<BucketCount> => {
  const written: Array<BucketCount> = []
  const open = grains.map((grain) => ({ grain, counts: new RunningCounts() }))
  for (let at = startOf(60, now - reach[60]); at < now; at += minute) {
    const count = Math.round(profile.perMinute * tideOf(at, chances()))
    const kept = open.filter(({ grain }) => at >= startOf(grain, now - reach[grain]))
    addMinute(
      kept.map(({ counts }) => counts),
      profile,
      count,
      isIncident(now - at)
    )
    for (const { counts, grain } of kept) {
      const next = at + minute
      if (next < now && startOf(grain, next) === startOf(grain, at)) continue
      written.push({ grain, start: startOf(grain, at), queue: profile.queue, kind: profile.kind, ...counts.sketch() })
      counts.clear()
    }
  }
  return written
}

/** Writes it down. Chance comes from Effect's Random: the same seed, the same week. */
export const write: Effect.Effect<void, DatabaseError, MinuteBuckets> = Effect.gen(function* () {
  const buckets = yield* MinuteBuckets
  const ids = yield* makeGenerator
  const now = minuteOf(yield* Clock.currentTimeMillis)
  const pod = ids.pod(now - reach[60])
  const drawn = yield* Effect.replicateEffect(Random.next, 997)
  for (const [number, profile] of profiles.entries()) {
    let turn = number * 131
    const chances = () => drawn[turn++ % drawn.length] ?? 0.5
    yield* buckets.record(pod, 1, bucketsOf(profile, now, chances))
  }
})
