import { Clock, Effect } from "effect"
import { BadCursor } from "../../core/BadCursor.js"
import { floorOf, isId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { mapErrors } from "../../database/DatabaseError.js"
import type { BoundedQuery } from "../search/BoundedQuery.js"
import { maxSortedJobs, readCursor, writeCursor } from "../search/JobSort.js"
import type { ExecutionFilter, ExecutionState } from "./Execution.js"
import * as ExecutionListSql from "./ExecutionListSql.js"
import { type ExecutionSort, stateCountsOf } from "./ExecutionPage.js"
import * as ExecutionRows from "./ExecutionRows.js"
import { maxCounted, type SuspendedCounts, type Workflows } from "./Workflows.js"

type Statements = ReturnType<typeof ExecutionListSql.make>

interface SortedRow extends ExecutionRows.ExecutionRow {
  readonly place: number | null
  /** How many executions were sorted. */
  readonly looked: number
  readonly newest: string
}

/** The id of an execution has the time of its start, give or take what the clocks of processes are adjusted by. */
const slack = 86_400_000

const earlier = (a: string | undefined, b: string | undefined) =>
  a === undefined || (b !== undefined && b < a) ? b : a

/** Lists and counts executions. */
export const make = (
  { sql }: Pick<typeof Database.Service, "sql">,
  bounded: typeof BoundedQuery.Service,
  statements: Statements
): Pick<typeof Workflows.Service, "list" | "count" | "countStates" | "suspended"> => {
  /** The parameters, and whether the statement is that for tags. */
  const parametersOf = (
    { prefix, roots, since, state, tag = {}, until, workflow }: ExecutionFilter,
    before: string | undefined,
    limit: number | null,
    now: number
  ) => {
    const below = earlier(before?.toLowerCase(), until === undefined ? undefined : floorOf(until + slack))
    const lowest = since === undefined ? null : floorOf(since - slack)
    const [first] = Object.entries(tag)
    const common = [
      workflow ?? null,
      prefix ?? null,
      state ?? null,
      below ?? null,
      limit,
      now,
      lowest,
      since ?? null,
      until ?? null,
      roots ?? null
    ]
    return first === undefined
      ? { isTagged: false, given: common }
      : { isTagged: true, given: [...common, ...first, JSON.stringify(tag), Object.keys(tag).length] }
  }

  const listSorted = (filter: ExecutionFilter, sort: ExecutionSort, before: string | undefined, limit: number) =>
    Effect.gen(function* () {
      const after = before === undefined ? undefined : readCursor(sort, before)
      if (before !== undefined && after === undefined) return yield* new BadCursor({ cursor: before })
      const now = yield* Clock.currentTimeMillis
      const at = after?.at ?? now
      const { given, isTagged } = parametersOf(filter, undefined, limit + 1, at)
      const text = statements[ExecutionListSql.sortedName(sort, isTagged)]
      const page = [after !== undefined, after?.value ?? null, after?.id ?? null, after?.newest ?? null]
      const rows = yield* bounded(mapErrors(sql.unsafe<SortedRow>(text, [...given, ...page])), { scans: !isTagged })
      const shown = rows.slice(0, limit)
      const last = shown.at(-1)
      return {
        executions: shown.map((row) => ExecutionRows.toSummary(row, now)),
        next:
          last === undefined || rows.length <= limit
            ? undefined
            : writeCursor(sort, { value: last.place, id: last.id, newest: after?.newest ?? last.newest, at }),
        sortedAmong: last !== undefined && last.looked >= maxSortedJobs ? maxSortedJobs : undefined
      }
    })

  return {
    list: (filter, { before, limit, sort }) =>
      Effect.gen(function* () {
        if (sort !== undefined) return yield* listSorted(filter, sort, before, limit)
        if (before !== undefined && !isId(before)) return yield* new BadCursor({ cursor: before })
        const now = yield* Clock.currentTimeMillis
        const { given, isTagged } = parametersOf(filter, before, limit + 1, now)
        const text = isTagged ? statements.listTagged : statements.listExecutions
        const rows = yield* bounded(mapErrors(sql.unsafe<ExecutionRows.ExecutionRow>(text, given)))
        const page = rows.slice(0, limit)
        return {
          executions: page.map((row) => ExecutionRows.toSummary(row, now)),
          next: rows.length > limit ? page.at(-1)?.id : undefined
        }
      }),
    count: (filter) =>
      Effect.gen(function* () {
        const { given, isTagged } = parametersOf(filter, undefined, null, yield* Clock.currentTimeMillis)
        const text = isTagged ? statements.countTagged : statements.countExecutions
        const query = sql.unsafe<{ readonly count: number }>(text, given)
        const [row] = yield* bounded(mapErrors(query), { scans: !isTagged })
        return row?.count ?? 0
      }),
    countStates: (filter) =>
      Effect.gen(function* () {
        const { given, isTagged } = parametersOf(filter, undefined, null, yield* Clock.currentTimeMillis)
        const text = isTagged ? statements.countTaggedStates : statements.countStates
        const query = sql.unsafe<{ readonly state: ExecutionState; readonly count: number }>(text, given)
        const rows = yield* bounded(mapErrors(query), { scans: !isTagged })
        return stateCountsOf(rows.map(({ count, state }) => [state, count]))
      }),
    suspended: Effect.gen(function* () {
      const now = yield* Clock.currentTimeMillis
      const [row] = yield* mapErrors(sql.unsafe<SuspendedCounts>(statements.countSuspended, [now, maxCounted]))
      return row ?? { sleeping: 0, waiting: 0, changed: 0 }
    })
  }
}
