import { instant } from "../../database/SqlInstant.js"
import type { Action } from "./Operations.js"

// Saves jobs before an action, for its undo.

/** Columns that only delete changes. Undoing another action does not write them. */
const untouched = "{payload,meta,on_dead,history}"

/** The saved form of a job row. */
const keptRow = (action: Action, row: string) =>
  action === "delete" ? `to_jsonb(${row})` : `to_jsonb(${row}) - '${untouched}'::text[]`

/**
 * Saves the rows of `chosen` that appear in `changed` under the act id `$3`, or none if it is null. Running jobs cannot
 * be restored, because their handlers were asked to stop; nor can deleted executions, which would repeat their steps
 * without their journal. `below`: the jobs are children that were requeued with their parent.
 */
export const keep = (schema: string, action: Action, below = false): string => `
    insert into ${schema}.job_undo (act, job_id, at, below, action, before)
    select $3::uuid, chosen.id, ${instant("$2")}, ${below}, '${action}', ${keptRow(action, "chosen")}
    from chosen join changed on changed.id = chosen.id
    where $3::uuid is not null and chosen.status <> 'running'${action === "delete" ? " and chosen.woken is null" : ""}
    on conflict do nothing`
