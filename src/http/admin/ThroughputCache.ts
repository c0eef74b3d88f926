import { Clock, Context, Duration, Effect, Layer } from "effect"
import * as CoalescingCache from "../../core/CoalescingCache.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { MinuteBuckets, type QueueThroughput, type TooMuchToMerge } from "../../history/MinuteBuckets.js"
import * as TimeGrid from "../../history/TimeGrid.js"
import type * as QueueView from "./QueueView.js"

/** Completed and dead jobs per queue in the last hour. Times are epoch milliseconds. */
export interface Throughput extends TimeGrid.Range {
  readonly width: Duration.Duration
  readonly queues: ReadonlyArray<QueueThroughput>
  /** When the query ran. */
  readonly at: number
}

/** The totals per queue. */
export interface Sums {
  readonly of: (queue: string) => QueueView.Throughput
  readonly at: number
}

const sum = (counts: ReadonlyArray<number> = []) => counts.reduce((all, count) => all + count, 0)

const sumsOf = ({ at, from, queues }: Throughput): Sums => {
  const seconds = (at - from) / 1000
  const counts = new Map(queues.map((of) => [of.queue, of]))
  return {
    of: (queue) => ({ seconds, completed: sum(counts.get(queue)?.completed), dead: sum(counts.get(queue)?.dead) }),
    at
  }
}

const lasting = Duration.hours(1)

/** Bucket widths: 30 points per hour, or 6 if the query for 30 would read too much. */
const widths = { fine: Duration.minutes(2), coarse: Duration.minutes(10) }

/** Throughput of all queues in the last hour, shared by all callers. */
export class ThroughputCache extends Context.Tag("nightshift/http/ThroughputCache")<
  ThroughputCache,
  {
    readonly read: Effect.Effect<Throughput, TooMuchToMerge | DatabaseError>
    /** Undefined if the query failed: throughput is optional in the responses that include it. */
    readonly sums: Effect.Effect<Sums | undefined>
  }
>() {
  static readonly layer: Layer.Layer<ThroughputCache, never, MinuteBuckets> = Layer.effect(
    ThroughputCache,
    Effect.gen(function* () {
      const buckets = yield* MinuteBuckets

      const gather = (width: Duration.Duration) =>
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          // Include the current, incomplete bucket, so recent events are visible.
          const grid = yield* TimeGrid.of({ from: now - Duration.toMillis(lasting) + 1, to: now + 1 }, width)
          const { from, to } = grid
          return { from, to, width, queues: yield* buckets.throughput({ from, to, width }) }
        })

      const query = gather(widths.fine).pipe(
        Effect.catchTag("TooMuchToMerge", () => gather(widths.coarse)),
        // Cannot happen: an hour has at most 30 points.
        Effect.catchTag("TooManyPoints", Effect.die)
      )
      const taken = yield* CoalescingCache.refreshed(query, "5 seconds")
      const read = Effect.map(taken, ({ at, value }) => ({ ...value, at }))
      const sums = Effect.catchAll(Effect.map(read, sumsOf), (error) =>
        Effect.as(Effect.logDebug("could not read the throughput of queues", error), undefined)
      )
      return { read, sums }
    })
  )
}
