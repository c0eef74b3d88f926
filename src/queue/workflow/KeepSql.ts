import { subjectKey } from "../../core/Subject.js"
import { instant } from "../../database/SqlInstant.js"

// Saves jobs before an action, for its undo.

type Action = "cancel" | "requeue" | "run-now" | "delete"

/** Columns that only delete changes. Undoing another action does not write them. */
const untouched = "{payload,meta,on_dead,history}"

/** The saved form of a job row. Of `meta`, the digest of the subject stays: erasure finds the copy by it. */
const keptRow = (action: Action, row: string) =>
  action === "delete"
    ? `to_jsonb(${row})`
    : `(to_jsonb(${row}) - '${untouched}'::text[]) || case when ${row}.meta ? '${subjectKey}'
        then jsonb_build_object('meta', jsonb_build_object('${subjectKey}', ${row}.meta->'${subjectKey}')) else '{}' end`

/** Whether the action keeps the previous state of its jobs. */
export const isKept = "$3::uuid is not null"

/** The waits and links of a deleted execution. Its steps are not deleted while its undo record exists. */
const keptExecution = (schema: string, action: Action) =>
  action !== "delete"
    ? "null::jsonb"
    : `case when chosen.woken is not null then jsonb_build_object(
      'waits', (select coalesce(jsonb_agg(to_jsonb(d)), '[]') from ${schema}.workflow_deferred d where d.execution = chosen.dedupe_key),
      'children', (select coalesce(jsonb_agg(to_jsonb(l)), '[]') from ${schema}.workflow_child l where l.parent = chosen.dedupe_key)
    ) end`

/**
 * Saves the rows of `chosen` that appear in `changed` under the act id `$3`, or none if that is null. Running jobs
 * cannot be restored, because their handlers were asked to stop. `below`: the jobs are children that were requeued or
 * cancelled with their parent.
 */
export const keep = (schema: string, action: Action, below = false): string => `
    insert into ${schema}.job_undo (act, job_id, at, below, action, before, execution)
    select $3::uuid, chosen.id, ${instant("$2")}, ${below}, '${action}', ${keptRow(action, "chosen")},
      ${keptExecution(schema, action)}
    from chosen join changed on changed.id = chosen.id
    where ${isKept} and chosen.status <> 'running'
    -- One act reached the job twice, as a child and by its own id, and nothing changed it in between.
    on conflict (act, job_id) do update set at = excluded.at, below = job_undo.below and excluded.below
      where job_undo.at = (excluded.before->>'updated_at')::timestamptz`
