import { Clock, Duration, Effect } from "effect"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import { QueueFull } from "../JobErrors.js"
import type { KnownQueues } from "../settings/KnownQueues.js"

// Enforces a queue's depth cap. Counting waiting jobs at every enqueue would cost more
// than storing them, so a count is reused for one second, for as many jobs as it left room for. Jobs that other processes
// store in the meantime can exceed the cap.

const countIsGoodFor = 1_000
const settingsAreGoodFor = Duration.seconds(5)

interface Room {
  readonly countedAt: number
  left: number
}

/**
 * Succeeds if all queues have room, otherwise rejects all jobs. `each` is the number of jobs that one entry represents.
 */
export type Pass = (
  jobs: ReadonlyArray<{ readonly queue: string }>,
  each?: number
) => Effect.Effect<void, QueueFull | DatabaseError>

export const make = (database: typeof Database.Service, known: typeof KnownQueues.Service): Pass => {
  const { schema, sql } = database
  const rooms = new Map<string, Room>()

  const countRoom = (queue: string, cap: number, now: number) =>
    Effect.map(
      mapErrors(
        sql.unsafe<{ waiting: number }>(`select ${schema}.waiting_jobs($1::text, $2::int, $3::float8) as waiting`, [
          queue,
          cap,
          now
        ])
      ),
      ([row]) => {
        const room = { countedAt: now, left: cap - (row?.waiting ?? 0) }
        rooms.set(queue, room)
        return room
      }
    )

  const pass = (queue: string, cap: number, count: number) =>
    Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const kept = rooms.get(queue)
      const isGood = kept !== undefined && now - kept.countedAt < countIsGoodFor && kept.left >= count
      const room = isGood ? kept : yield* countRoom(queue, cap, now)
      if (room.left < count) {
        // Some of these jobs may be stored nevertheless, because the others exist.
        rooms.delete(queue)
        return yield* new QueueFull({ queue, cap })
      }
      room.left -= count
    })

  const passOne = (queue: string, count: number) =>
    Effect.flatMap(known.get(queue, settingsAreGoodFor), (row) =>
      row?.depthCap === undefined ? Effect.void : pass(queue, row.depthCap, count)
    )

  return (jobs, each = 1) => {
    const counts = new Map<string, number>()
    for (const { queue } of jobs) counts.set(queue, (counts.get(queue) ?? 0) + each)
    const [first] = counts
    return counts.size === 1 && first !== undefined
      ? passOne(...first)
      : Effect.forEach(counts, ([queue, count]) => passOne(queue, count), { discard: true })
  }
}
