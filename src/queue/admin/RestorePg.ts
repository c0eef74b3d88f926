import { Effect } from "effect"
import type { JobId } from "../../core/Ids.js"
import type { Database } from "../../database/Database.js"
import { type DatabaseError, mapErrors } from "../../database/DatabaseError.js"
import * as SqlArrays from "../SqlArrays.js"
import type { StoredJobRow } from "../StoredJobRow.js"
import type { CountedEnds } from "../workflow/CountedEnds.js"
import * as UndoSql from "./UndoSql.js"

export interface Restored {
  readonly rows: ReadonlyArray<StoredJobRow>
  /** Queues of executions that woke up, because a job that they wait for has ended again. */
  readonly woken: ReadonlyArray<string>
}

/**
 * Restores jobs that an act changed, and the children that it requeued or cancelled with them. `ids` are in ascending
 * order, also from one call of an undo to the next. The caller runs this in a transaction.
 */
export const make = ({ schema, sql }: typeof Database.Service, counted: CountedEnds) => {
  const restore = UndoSql.restore(schema)
  const restoreBelow = UndoSql.restoreBelow(schema)

  return (act: string, ids: ReadonlyArray<JobId>, now: number): Effect.Effect<Restored, DatabaseError> =>
    Effect.gen(function* () {
      const rows = yield* mapErrors(sql.unsafe<StoredJobRow>(restore, [act, SqlArrays.ofPlain(ids), now]))
      const linked = rows.filter(({ is_child, woken }) => is_child === true || woken !== null).map(({ id }) => id)
      // Level by level: a child is not changed while an execution that waits for it has not ended.
      let above = rows.filter(({ woken }) => woken !== null).map(({ id }) => id)
      while (above.length > 0) {
        const below = yield* mapErrors(sql.unsafe<{ id: JobId }>(restoreBelow, [act, SqlArrays.ofPlain(above), now]))
        above = below.map(({ id }) => id)
        linked.push(...above)
      }
      return { rows, woken: yield* counted.reconnect(linked, now, { act, after: ids.at(-1) ?? act }) }
    })
}
