import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"

/** Stores many jobs of a queue with this state and due time, in one statement. */
export const fill = (queue: string, count: number, state: "pending" | "done" | "dead", due = "yesterday") =>
  Effect.flatMap(
    Database,
    ({ sql }) => sql`
      insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at,
        finished_at, dead_reason)
      select gen_random_uuid(), ${queue}, 'k', '{}', 5, ${state}, ${due}::timestamptz, 'now', 'now',
        ${state === "pending" ? null : "now"}::timestamptz, ${state === "dead" ? "exhausted" : null}
      from generate_series(1, ${count})`
  )
