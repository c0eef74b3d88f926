import { instant, millis } from "../../database/SqlInstant.js"
import type { Action } from "./Operations.js"

// What one batch does to its jobs, as statements over ids. Each first locks those that it is for and nobody else holds, in
// the order of their ids, and answers what became of each: `changed`, or left as it was although it was locked, which only a
// requeue does. What is not answered was in another state, gone, or held by somebody.

const now = instant("$2")

/** `condition` says which jobs the action is for, `free` which of them it can be done to, `change` what is done. */
const acting = (schema: string, condition: string, wait: boolean, change: string, free = "select id from chosen") => `
  with chosen as (
    select id, dedupe_key from ${schema}.job
    where id = any($1::uuid[]) and ${condition}
    order by id for update${wait ? "" : " skip locked"}
  ), free as (${free}), changed as (${change})
  select chosen.id, changed.id is not null as changed, changed.queue, changed.status
  from chosen left join changed on changed.id = chosen.id`

const updating = (schema: string, set: string) => `
    update ${schema}.job j set ${set}, updated_at = ${now}
    from free where j.id = free.id
    returning j.id, j.queue, j.status`

/** Of several that share a key the newest may have it, unless somebody else holds it. */
const withFreeKeys = (schema: string) => `
    select id from (
      select id, dedupe_key, row_number() over (partition by dedupe_key order by id desc) as place from chosen
    ) ranked
    where dedupe_key is null or (place = 1 and not exists (
      select from ${schema}.job other
      where other.dedupe_key = ranked.dedupe_key and other.id <> ranked.id
        and (other.dedupe_scope = 'retained' or other.finished_at is null)))`

/** The statement of an action; `wait` for those that somebody holds, instead of leaving them out. */
export const actionStatement = (schema: string, action: Action, wait: boolean): string => {
  switch (action) {
    case "cancel":
      // A job that was cancelled before it began has nobody to tell, so no follow-up is stored.
      return acting(
        schema,
        "status in ('pending', 'running')",
        wait,
        updating(
          schema,
          `status = case when j.status = 'pending' then 'dead' else j.status end,
      dead_reason = case when j.status = 'pending' then 'cancelled' else j.dead_reason end,
      finished_at = case when j.status = 'pending' then ${now} else j.finished_at end,
      death_count = j.death_count + (case when j.status = 'pending' then 1 else 0 end),
      cancel_requested_at = coalesce(j.cancel_requested_at, ${now})`
        )
      )
    case "requeue":
      return acting(
        schema,
        "status in ('done', 'dead')",
        wait,
        updating(
          schema,
          `status = 'pending', attempt = 0, crash_count = 0, dead_reason = null, finished_at = null, started_at = null,
      cancel_requested_at = null, unknown_since = null, result = null, progress = null, last_error = null,
      run_at = ${now}`
        ),
        withFreeKeys(schema)
      )
    case "run-now":
      // A job that is due already keeps its place.
      return acting(schema, "status = 'pending'", wait, updating(schema, `run_at = least(j.run_at, ${now})`))
    case "delete":
      return acting(
        schema,
        "status <> 'running'",
        wait,
        `delete from ${schema}.job j using free where j.id = free.id returning j.id, j.queue, j.status`
      )
  }
}

const named = (column: string) => `${millis(column)} as ${column}`

/** A reading of an operation. The ids stay where they are: there may be thousands, and they are asked for batch by batch. */
export const operationColumns = `id, action, status, who, reason, filter, coalesce(cardinality(ids), 0) as id_count,
  ${named("created_at")}, ${named("updated_at")}, ${named("finished_at")}, last_id, reached, total, total_exact, done,
  failed, skipped, error`
