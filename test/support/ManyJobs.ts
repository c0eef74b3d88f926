import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"

/** Stored by one statement: few enough for the time limit of statements on a busy machine. */
const atOnce = 50_000

/** Stores many jobs of a queue with this state and due time. */
export const fill = (queue: string, count: number, state: "pending" | "done" | "dead", due = "yesterday") =>
  Effect.flatMap(Database, ({ sql }) =>
    Effect.loop(count, {
      while: (left) => left > 0,
      step: (left) => left - atOnce,
      body: (left) => sql`
        insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at,
          finished_at, dead_reason)
        select gen_random_uuid(), ${queue}, 'k', '{}', 5, ${state}, ${due}::timestamptz, 'now', 'now',
          ${state === "pending" ? null : "now"}::timestamptz, ${state === "dead" ? "exhausted" : null}
        from generate_series(1, ${Math.min(left, atOnce)})`,
      discard: true
    })
  )
