import { instant, millis } from "../../database/SqlInstant.js"
import { resultColumn } from "../StoredJobRow.js"
import { isLinked, openWait } from "./JournalSql.js"

// Statements about the children of executions.

export const make = (schema: string) => ({
  /** Locks the parent if it holds its lease, and returns whether it has already started these children. */
  holdParent: `
  select j.dedupe_key as execution, exists (
    select from ${schema}.workflow_deferred d where d.execution = j.dedupe_key and d.kind = 'children' and d.name = $3
  ) as started
  from ${schema}.job j where j.id = $1 and j.lease = $2 for key share`,

  /**
   * Links children to the wait of their parent, for all of them, or for the first if `$7` is true. The lock waits for
   * children that are ending; those that end later see the links. An execution that existed before becomes a child. Returns how many are neither executions nor counted: their ends would not be reported.
   */
  linkChildren: `
  with given as (
    select g.child, g.owned, g.place::int - 1 as position
    from unnest($3::uuid[], $4::boolean[]) with ordinality as g(child, owned, place)
  ), standing as materialized (
    select j.id, ${isLinked("j")} as linked, j.finished_at is not null or $6::boolean as over
    from ${schema}.job j where j.id = any($3::uuid[]) order by j.id desc for no key update
  ), adopted as (
    update ${schema}.job j set is_child = true from standing s where j.id = s.id and j.is_child is not true
  ), links as (
    insert into ${schema}.workflow_child (parent, name, position, child, owned, ended_at)
    select $1, $2, g.position, g.child, g.owned, case when s.over then ${instant("$5")} end
    from given g join standing s on s.id = g.child
  ), wait as (
    insert into ${schema}.workflow_deferred (execution, kind, name, created_at, remaining, completed_at, exit)
    select $1, 'children', $2, ${instant("$5")}, due.ends, case when due.ends = 0 then ${instant("$5")} end,
      case when $7::boolean then '{"first": true}'::jsonb end
    from (
      select case when not $7::boolean then count(*) filter (where not s.over) when bool_or(s.over) then 0 else 1 end as ends
      from given g join standing s on s.id = g.child
    ) due
  )
  select count(*)::int as unlinked from standing where not linked and not over`,

  children: `
  select l.name, l.position, l.child, l.owned, j.kind, j.dedupe_key, j.woken, j.status,
    coalesce(j.dead_reason, j.dying) as dead_reason, j.cancel_requested_at is not null as cancelled, ${resultColumn}, j.last_error, ${millis("j.run_at")} as run_at,
    ${millis("j.created_at")} as created_at, ${millis("j.finished_at")} as finished_at,
    array(select d.kind from ${schema}.workflow_deferred d
      where j.woken is not null and d.execution = j.dedupe_key${openWait}) as waits
  from ${schema}.workflow_child l left join ${schema}.job j on j.id = l.child
  where l.parent = $1 and ($2::text is null or l.name = $2)
  order by l.name, l.position`,

  /** The children of the step `$2` of the execution `$1`, except for the one at `$3`, no longer belong to it. */
  disownChildren: `
  update ${schema}.workflow_child set owned = false where parent = $1 and name = $2 and position <> $3 and owned`,

  parents: `
  select distinct l.parent from ${schema}.workflow_child l
  where l.child = $1 and exists (select from ${schema}.job j where j.dedupe_key = l.parent and j.woken is not null)`
})
