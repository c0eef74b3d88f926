import { isLinked } from "./JournalSql.js"
import { isRetriedWith } from "./RetrySql.js"

// Locks every job that an action on the jobs `$1` may change, in descending order of their ids, before the first
// change. Actions change jobs level by level; without these locks, two actions on overlapping trees of executions would
// deadlock.

/** Jobs with neither children nor waiting parents are left to the statement of the action, which may skip locked jobs. */
const locked = (schema: string, tree: string, others: string) => `
  with recursive ${tree}, chosen(id) as (${others})
  select id from ${schema}.job where id = any(array(select id from chosen)) order by id desc for update`

export const make = (schema: string) => ({
  /** For a requeue, which reaches children that have failed, and waits for those that were requeued before. */
  lockToRequeue: locked(
    schema,
    `tree(id, execution, above) as (
    select j.id, j.dedupe_key, null::uuid from ${schema}.job j where j.id = any($1::uuid[]) and j.woken is not null
    union
    select j.id, case when j.woken is not null and j.status = 'dead' then j.dedupe_key end, tree.id
    from tree join ${schema}.workflow_child l on l.parent = tree.execution and ${isRetriedWith(schema, "tree.id")}
    join ${schema}.job j on j.id = l.child and j.status <> 'done'
  )`,
    "select id from tree where above is not null union select above from tree where above is not null"
  ),

  /** For a cancel or a delete, which reaches children that have not ended and wakes the executions that wait for them. */
  lockToEnd: locked(
    schema,
    `tree(id, above) as (
    select j.id, null::uuid from ${schema}.job j where j.id = any($1::uuid[]) and ${isLinked("j")}
    union
    select l.child, tree.id from tree join ${schema}.job p on p.id = tree.id and p.woken is not null
    join ${schema}.workflow_child l on l.parent = p.dedupe_key and l.owned
  ), waiting(id, child) as (
    select p.id, l.child from tree join ${schema}.workflow_child l on l.child = tree.id and l.ended_at is null
    join ${schema}.job p on p.dedupe_key = l.parent and p.dedupe_scope = 'retained' and p.woken is not null
  )`,
    `select id from tree where above is not null union select above from tree where above is not null
    union select id from waiting union select child from waiting`
  )
})
