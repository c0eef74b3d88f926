import { Clock, Duration, Effect, Layer, Option } from "effect"
import { minuteOf } from "../telemetry/BucketCount.js"
import { type DatabaseFacts, DatabaseHealth, type DatabasePoint, type Health } from "./DatabaseHealth.js"
import * as TimeGrid from "./TimeGrid.js"

const well: DatabaseFacts = {
  sizeBytes: 0,
  jobBytes: 0,
  jobLiveTuples: 0,
  jobDeadTuples: 0,
  oldestTransactionSeconds: 0,
  connections: 0
}

const worse = (a: DatabaseFacts, b: DatabaseFacts): DatabaseFacts => ({
  sizeBytes: Math.max(a.sizeBytes, b.sizeBytes),
  jobBytes: Math.max(a.jobBytes, b.jobBytes),
  jobLiveTuples: Math.max(a.jobLiveTuples, b.jobLiveTuples),
  jobDeadTuples: Math.max(a.jobDeadTuples, b.jobDeadTuples),
  oldestTransactionSeconds: Math.max(a.oldestTransactionSeconds, b.oldestTransactionSeconds),
  connections: Math.max(a.connections, b.connections)
})

/** For tests without a database; always healthy. */
export const layer: Layer.Layer<DatabaseHealth> = Layer.sync(DatabaseHealth, () => {
  const rows = new Map<number, DatabaseFacts>()
  const look = Effect.map(Clock.currentTimeMillis, (at): Health => ({ at, ...well, blockers: [] }))
  return {
    look,
    sample: Effect.map(look, (health) => {
      const minute = minuteOf(health.at)
      if (rows.has(minute)) return Option.none()
      rows.set(minute, well)
      return Option.some(health)
    }),
    series: ({ width, ...range }) =>
      Effect.map(TimeGrid.of(range, width), (grid) => {
        const points = new Map<number, DatabasePoint>()
        for (const [minute, facts] of [...rows].sort(([a], [b]) => a - b)) {
          if (minute < grid.from || minute >= grid.to) continue
          const at = Math.floor(minute / grid.width) * grid.width
          points.set(at, { at, ...worse(points.get(at) ?? well, facts) })
        }
        return [...points.values()]
      }),
    purge: (olderThan) =>
      Effect.map(Clock.currentTimeMillis, (now) => {
        const old = [...rows.keys()].filter((minute) => minute < now - Duration.toMillis(olderThan))
        for (const minute of old) rows.delete(minute)
        return old.length
      })
  }
})
