import { Clock, Duration, Effect } from "effect"
import type { Database } from "../database/Database.js"
import { type DatabaseError, mapErrors } from "../database/DatabaseError.js"
import * as ArrayText from "./ArrayText.js"
import type { JobSql } from "./JobSql.js"
import type { Purged } from "./Queue.js"
import type { Queues } from "./QueueSettings.js"
import { classesOf, type RetentionClass, RetentionMemory } from "./Retention.js"

/** How many rows one statement takes: enough to be worth it, few enough to be short. */
const batch = 5_000

/** Forgets finished jobs past what their queue keeps, class by class, in bounded statements. */
export const make = (
  database: typeof Database.Service,
  statements: JobSql,
  queues: typeof Queues.Service,
  retrying: <A>(effect: Effect.Effect<A, DatabaseError>) => Effect.Effect<A, DatabaseError>
): ((usual: Duration.Duration) => Effect.Effect<Purged, DatabaseError>) => {
  const { sql } = database
  const memory = new RetentionMemory()

  const purgeBatch = (group: RetentionClass, from: number, until: number) =>
    Effect.map(
      mapErrors(
        sql.unsafe(statements.purge, [
          group.status,
          from,
          until,
          ArrayText.ofPlain(group.queues),
          group.onlyThese,
          batch
        ]).raw
      ),
      (result) => (result as { readonly rowCount: number | null }).rowCount ?? 0
    ).pipe(retrying)

  const purgeClass = (group: RetentionClass, all: ReadonlyArray<RetentionClass>) =>
    Effect.gen(function* () {
      const until = (yield* Clock.currentTimeMillis) - Duration.toMillis(group.keepFor)
      const from = memory.from(group)
      let sum = 0
      for (;;) {
        const count = yield* purgeBatch(group, from, until)
        sum += count
        if (count < batch) break
      }
      memory.done(group, until, all)
      return sum
    })

  return (usual) =>
    Effect.gen(function* () {
      const all = classesOf(yield* queues.all, usual)
      const purged = { done: 0, dead: 0 }
      for (const group of all) purged[group.status] += yield* purgeClass(group, all)
      return purged
    })
}
