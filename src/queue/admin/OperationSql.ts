import { instant, millis } from "../../database/SqlInstant.js"
import { isLinked } from "../workflow/JournalSql.js"
import { isKept, keep } from "../workflow/KeepSql.js"
import { isWhole, reopenFailed, requeueSet } from "../workflow/RetrySql.js"
import { cancelSet, forgotten } from "../workflow/WorkflowSql.js"
import type { Action } from "./Operations.js"

// Statements that apply an action to a batch of ids. Each locks the matching unlocked jobs in id order and returns a
// row per locked job: `changed` is false only when a requeue was blocked by a dedupe key. Jobs without a row were in
// another state, deleted, or locked by another transaction. The previous state of the jobs is saved under the act id `$3`.

const now = instant("$2")

/** `condition` selects the jobs the action accepts, `free` those it can be applied to, `change` applies it. */
const acting = (
  schema: string,
  action: Action,
  condition: string,
  wait: boolean,
  change: string,
  free = "select id from chosen",
  also?: string
) => `
  with chosen as (
    select * from ${schema}.job
    where id = any($1::uuid[]) and ${condition}
    order by id desc for update${wait ? "" : " skip locked"}
  ), free as (${free}), changed as (${change}), kept as (${keep(schema, action)})${also === undefined ? "" : `, ${also}`}
  select chosen.id, changed.id is not null as changed, changed.queue, changed.status,
    chosen.kind, chosen.woken is not null as "isExecution", ${isLinked("chosen")} as linked
  from chosen left join changed on changed.id = chosen.id`

/** A job that moves between two cells may be in both (fleet/move): deleted in one, it would be copied or released from the other. */
export const deletable = "status <> 'running' and position('>' in queue) = 0"

const updating = (schema: string, set: string) => `
    update ${schema}.job j set ${set}, updated_at = ${now}
    from free where j.id = free.id
    returning j.id, j.queue, j.status`

/** Of several jobs with the same key the newest gets it, unless another job holds it. */
const withFreeKeys = (schema: string) => `
    select id from (
      select id, dedupe_key, row_number() over (partition by dedupe_key order by id desc) as place from chosen
    ) ranked
    where dedupe_key is null or (place = 1 and not exists (
      select from ${schema}.job other
      where other.dedupe_key = ranked.dedupe_key and other.id <> ranked.id
        and (other.dedupe_scope = 'retained' or other.finished_at is null)))`

/** Returns the statement of an action. With `wait` it waits for locked jobs instead of skipping them. */
export const actionStatement = (schema: string, action: Action, wait: boolean): string => {
  switch (action) {
    case "cancel":
      // A job cancelled before it started stores no follow-up.
      return acting(schema, action, "status in ('pending', 'running')", wait, updating(schema, cancelSet(now)))
    case "requeue":
      return acting(
        schema,
        action,
        `status in ('done', 'dead') and ${isWhole("job")}`,
        wait,
        updating(schema, requeueSet(now)),
        withFreeKeys(schema),
        reopenFailed(schema, "chosen", now)
      )
    case "run-now":
      // A job that is already due keeps its position in the queue.
      return acting(schema, action, "status = 'pending'", wait, updating(schema, `run_at = least(j.run_at, ${now})`))
    case "delete":
      return acting(
        schema,
        action,
        deletable,
        wait,
        `delete from ${schema}.job j using free where j.id = free.id returning j.id, j.queue, j.status`,
        undefined,
        forgotten(schema, "chosen", isKept)
      )
  }
}

const named = (column: string) => `${millis(column)} as ${column}`

/** Columns of an operation, without its ids: there may be thousands, and each batch reads its own. */
export const operationColumns = `id, action, undoes, undoable, status, who, reason, filter, coalesce(cardinality(ids), 0) as id_count,
  ${named("created_at")}, ${named("updated_at")}, ${named("finished_at")}, last_id, reached, total, total_exact, done,
  failed, skipped, rehearsal, error`
