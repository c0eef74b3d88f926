import type { QueueThroughput } from "./MinuteBuckets.js"
import * as TimeGrid from "./TimeGrid.js"

/** Done and dead jobs of a queue in the bucket that starts at `at`. */
export interface Count {
  readonly queue: string
  readonly at: number
  readonly completed: number
  readonly dead: number
}

/** Returns one series of counts per queue, by name. Counts of the same bucket are summed. */
export const of = (grid: TimeGrid.Grid, counts: Iterable<Count>): ReadonlyArray<QueueThroughput> => {
  const queues = new Map<string, Map<number, Count>>()
  for (const count of counts) {
    const buckets = queues.get(count.queue) ?? new Map<number, Count>()
    const known = buckets.get(count.at)
    buckets.set(count.at, {
      ...count,
      completed: count.completed + (known?.completed ?? 0),
      dead: count.dead + (known?.dead ?? 0)
    })
    queues.set(count.queue, buckets)
  }
  return [...queues]
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([queue, buckets]) => {
      const points = TimeGrid.fill(grid, buckets, (at) => ({ queue, at, completed: 0, dead: 0 }))
      return { queue, completed: points.map(({ completed }) => completed), dead: points.map(({ dead }) => dead) }
    })
}
