import { Clock, Context, Duration, Effect, Layer } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { MinuteBuckets, type QueueThroughput, type TooMuchToMerge } from "../../measures/MinuteBuckets.js"
import * as TimeGrid from "../../measures/TimeGrid.js"
import * as RefreshedValue from "../RefreshedValue.js"
import type * as QueueView from "./QueueView.js"

/** What became of jobs in the last hour, queue by queue. Instants are epoch milliseconds. */
export interface Throughput extends TimeGrid.Range {
  readonly width: Duration.Duration
  readonly queues: ReadonlyArray<QueueThroughput>
  /** When it was looked. */
  readonly at: number
}

/** The same in one number per queue. */
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

/** Thirty points are enough to see a shape; where even they are too much to gather, six must do. */
const widths = { usual: Duration.minutes(2), coarse: Duration.minutes(10) }

/** The queues' last hour for everybody who asks, gathered once for all queues and all who ask. */
export class ThroughputCache extends Context.Tag("nightshift/http/ThroughputCache")<
  ThroughputCache,
  {
    readonly read: Effect.Effect<Throughput, TooMuchToMerge | DatabaseError>
    /** Nothing where it could not be read: worth having beside other things, not worth failing for. */
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
          // The bucket that has only begun is part of it: what happens now is what people look for.
          const grid = yield* TimeGrid.of({ from: now - Duration.toMillis(lasting) + 1, to: now + 1 }, width)
          const { from, to } = grid
          return { from, to, width, queues: yield* buckets.throughput({ from, to, width }) }
        })

      const look = gather(widths.usual).pipe(
        Effect.catchTag("TooMuchToMerge", () => gather(widths.coarse)),
        // An hour has few points.
        Effect.catchTag("TooManyPoints", Effect.die)
      )
      const taken = yield* RefreshedValue.make(look, "5 seconds")
      const read = Effect.map(taken, ({ at, value }) => ({ ...value, at }))
      const sums = Effect.catchAll(Effect.map(read, sumsOf), (error) =>
        Effect.as(Effect.logDebug("the throughput of queues could not be read", error), undefined)
      )
      return { read, sums }
    })
  )
}
