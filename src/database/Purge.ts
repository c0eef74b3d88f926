import { Clock, Duration, Effect } from "effect"

/**
 * Deletes what is older than this in batches: `remove` deletes up to `batch` rows from before an instant and returns how
 * many. Returns how many were deleted.
 */
export const purged = <E, R>(
  olderThan: Duration.Duration,
  batch: number,
  remove: (before: number) => Effect.Effect<number, E, R>
): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    const before = (yield* Clock.currentTimeMillis) - Duration.toMillis(olderThan)
    let sum = 0
    for (;;) {
      const count = yield* remove(before)
      sum += count
      if (count < batch) return sum
    }
  })
