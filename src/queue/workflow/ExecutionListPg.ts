import { Clock, Effect } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { isId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import type { BoundedQuery } from "../search/BoundedQuery.js"
import type { ExecutionFilter } from "./Execution.js"
import * as ExecutionRows from "./ExecutionRows.js"
import { maxCounted, type SuspendedCounts, type Workflows } from "./Workflows.js"

/** Lists and counts executions. */
export const make = (
  { sql }: Pick<typeof Database.Service, "sql">,
  bounded: typeof BoundedQuery.Service,
  statements: Readonly<Record<"listExecutions" | "countExecutions" | "countSuspended", string>>
): Pick<typeof Workflows.Service, "list" | "count" | "suspended"> => {
  const parameters = (
    { prefix, state, workflow }: ExecutionFilter,
    before: string | undefined,
    limit: number | null,
    now: number
  ) => [workflow ?? null, prefix ?? null, state ?? null, before ?? null, limit, now]

  return {
    list: (filter, { before, limit }) =>
      Effect.gen(function* () {
        if (before !== undefined && !isId(before)) return yield* new BadCursor({ cursor: before })
        const now = yield* Clock.currentTimeMillis
        const given = parameters(filter, before, limit + 1, now)
        const rows = yield* bounded(mapErrors(sql.unsafe<ExecutionRows.ExecutionRow>(statements.listExecutions, given)))
        const page = rows.slice(0, limit)
        return {
          executions: page.map((row) => ExecutionRows.toSummary(row, now)),
          next: rows.length > limit ? page.at(-1)?.id : undefined
        }
      }),
    count: (filter) =>
      Effect.gen(function* () {
        const given = parameters(filter, undefined, null, yield* Clock.currentTimeMillis)
        const query = sql.unsafe<{ readonly count: number }>(statements.countExecutions, given)
        const [row] = yield* bounded(mapErrors(query), { scans: true })
        return row?.count ?? 0
      }),
    suspended: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* mapErrors(sql.unsafe<SuspendedCounts>(statements.countSuspended, [now, maxCounted]))
      return row ?? { sleeping: 0, waiting: 0, changed: 0 }
    })
  }
}
