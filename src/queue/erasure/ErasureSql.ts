import { erasedKey, subjectKey } from "../../core/Subject.js"
import { digestOf } from "../../database/SubjectText.js"

// Statements that erase jobs. `$1` are the ids of jobs that have ended, which the transaction has locked.

/** The index `job_subject` has the same condition. */
const ofSubject = `meta ? '${subjectKey}' and meta->>'${subjectKey}' = $1`

/** Tables whose rows belong to a job and have nothing that stays. */
const deleted = [
  "job_log",
  "follow_up_due",
  "job_undo",
  "workflow_stream",
  "workflow_chunk",
  "workflow_tag",
  "workflow_permit"
]

/** New names of steps are written in two statements: the first gives names that no step has. */
const marked = "chr(1) || names.number"

export const make = (schema: string) => {
  const counted = (table: string, on: string) =>
    `(select count(*)::int from own join ${schema}.${table} r on ${on}) as ${table}`
  const renamed = (table: string, column: string, own: string) => `
  update ${schema}.${table} set name = 'step ' || substr(name, 2) where ${column} = ${own} and starts_with(name, chr(1))`
  return {
    held: `
  with own as materialized (
    select id, dedupe_key, woken is not null as is_execution from ${schema}.job where ${ofSubject}
  )
  select (select count(*)::int from own where is_execution) as executions, ${counted("job_log", "r.job_id = own.id")},
    ${counted("workflow_step", "r.job_id = own.id and own.is_execution")},
    ${counted("workflow_stream", "r.job_id = own.id and own.is_execution")},
    ${counted("workflow_deferred", "r.execution = own.dedupe_key and own.is_execution")},
    ${counted("workflow_tag", "r.job_id = own.id and own.is_execution")}`,

    /** Counts by what decides the displayed state. `$2` is the time. */
    states: `
  select status, dead_reason as reason, last_error is not null as failed, run_at > to_timestamp($2::float8 / 1000) as later,
    count(*)::int as count
  from ${schema}.job where ${ofSubject} group by 1, 2, 3, 4`,

    unfinished: `
  select id, kind, case when woken is not null then dedupe_key end as execution, lease is not null as running,
    cancel_requested_at is not null as asked
  from ${schema}.job where ${ofSubject} and finished_at is null order by cancel_requested_at is not null, id limit $2`,

    count: `select count(*)::int as count from ${schema}.job where ${ofSubject} and finished_at is not null`,

    choose: `select id from ${schema}.job where ${ofSubject} and finished_at is not null order by id limit $2`,

    /** Locks the jobs `$2` that are still to be erased: another process may have erased or requeued some. */
    lock: `
  select id, queue, key, case when woken is not null then dedupe_key end as execution from ${schema}.job
  where ${ofSubject} and finished_at is not null and id = any($2::uuid[]) order by id desc for update`,

    /** The queues that have turns of these keys: queues `$1` and keys `$2`, in parallel. */
    queuesWithTurns: `
  select distinct t.queue from ${schema}.key_turn t
  join unnest($1::text[], $2::text[]) as k(queue, key) on t.queue = k.queue and t.key = k.key order by 1`,

    /** Deletes the turns of keys that no job needs any more. The caller has stopped all claims of the queues. */
    turns: `
  delete from ${schema}.key_turn t using unnest($1::text[], $2::text[]) as k(queue, key)
  where t.queue = k.queue and t.key = k.key and not exists (
    select from ${schema}.job j where j.queue = t.queue and j.key = t.key and j.finished_at is null)`,

    /** Erases the jobs `$1` at the time `$2`. Names of steps become numbers: they may be made of data. */
    erase: `
  with old as materialized (
    select id, key, case when woken is not null then dedupe_key end as execution from ${schema}.job where id = any($1::uuid[])
  ), named as (
    select s.job_id, s.name, s.sequence as first from ${schema}.workflow_step s where s.job_id = any($1::uuid[])
    union all
    select old.id, l.name, 2147483647 from old join ${schema}.workflow_child l on l.parent = old.execution
  ), names as materialized (
    select job_id, name, row_number() over (partition by job_id order by min(first), name) as number from named group by 1, 2
  ), ${deleted.map((table) => `of_${table} as (delete from ${schema}.${table} where job_id = any($1::uuid[]))`).join(", ")},
  letters as (
    delete from ${schema}.bot_dead_letter where job_id = any($1::uuid[]) and settled_at is not null
  ), waits as (
    delete from ${schema}.workflow_deferred where execution in (select execution from old)
  ), event_waits as (
    delete from ${schema}.event_wait where execution in (select execution from old)
  ), steps as (
    update ${schema}.workflow_step s set exit = 'null', name = ${marked}
    from names where s.job_id = names.job_id and s.name = names.name
  ), links as (
    update ${schema}.workflow_child l set parent = 'erased:' || old.id, name = ${marked}
    from old join names on names.job_id = old.id where l.parent = old.execution and l.name = names.name
  ), entries as (
    update ${schema}.audit a set target = case when a.target = old.execution then 'erased:' || old.id else a.target end,
      reason = null, before = null, after = null
    from old where a.target in (old.id::text, old.execution)
  ), endpoints as (
    -- The key of a webhook is its endpoint, whose response may quote the webhook.
    update ${schema}.endpoint e set last_error = null from old where e.id::text = old.key
  ), endpoint_entries as (
    -- The endpoint may have been deleted since.
    update ${schema}.audit a set before = a.before - 'lastError', after = a.after - 'lastError'
    from old where a.target = old.key and starts_with(a.act, 'endpoint.')
  )
  update ${schema}.job j set payload = 'null', result = null, progress = null, last_error = null, on_dead = null, key = null,
    history = (select jsonb_agg(h.entry - 'message' order by h.place) from jsonb_array_elements(j.history) with ordinality as h(entry, place)),
    meta = jsonb_build_object('${erasedKey}', $2::text),
    dedupe_key = case when j.woken is not null then 'erased:' || j.id end,
    dedupe_scope = case when j.woken is not null then 'retained' end, dedupe_until = null
  from old where j.id = old.id`,
    renameSteps: renamed("workflow_step", "job_id", "any($1::uuid[])"),
    renameLinks: renamed(
      "workflow_child",
      "parent",
      "any(array(select 'erased:' || id from unnest($1::uuid[]) as id))"
    ),

    /** The keys and dedupe keys of the jobs `$1`. */
    keys: `
  select distinct k.text from ${schema}.job j cross join lateral (values (j.key), (j.dedupe_key)) as k(text)
  where j.id = any($1::uuid[]) and k.text is not null`,

    /** Forgets the keys `$1`, and dedupe keys, in what operators did with them. */
    forgetKeys: [
      `update ${schema}.operation set filter = filter - '{key,dedupe,search}'::text[]
  where finished_at is not null and (filter->>'key' = any($1::text[]) or filter->>'dedupe' = any($1) or filter->>'search' = any($1))`,
      `update ${schema}.audit set after = after - 'filter'
  where after->'filter'->>'key' = any($1::text[]) or after->'filter'->>'dedupe' = any($1) or after->'filter'->>'search' = any($1)`,
      `delete from ${schema}.saved_view
  where filter->>'key' = any($1::text[]) or filter->>'dedupe' = any($1) or filter->>'search' = any($1)`
    ]
  }
}

/** A pattern of the subject as a word, or of its digest, which entries about deleted jobs have. */
const quoted = (text: string, digest: string, before = "[^[:alnum:]]") =>
  `(^|${before})(${text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&")}|${digest})($|[^[:alnum:]])`

/** What may precede a word in JSON: also an escaped character, such as `\n`, whose last character may be a letter. */
const beforeInJson = String.raw`[^[:alnum:]]|(^|[^\\])(\\\\)*\\([bfnrt]|u[0-9a-f]{4})`

/** The parameters of the statements below: the pattern for texts, and for JSON. */
export const patternsOf = (subject: string): readonly [string, string] => {
  const digest = digestOf(subject)
  return [quoted(subject, digest), quoted(JSON.stringify(subject).slice(1, -1), digest, beforeInJson)]
}

/** Erases the places where operators have quoted a text. */
export const quotes = (schema: string) => {
  const values = "before::text ~ $2 or after::text ~ $2"
  const ofSchedule = "starts_with(act, 'schedule.')"
  // Entries about a schedule of the subject have its digest, or only its name.
  const isAbout = `(${values} or ${ofSchedule}
      and target in (select target from ${schema}.audit where ${ofSchedule} and (${values})))`
  const inAudit = `target ~ $1 or reason ~ $1 or ${isAbout}`
  const inOperation = "finished_at is not null and (filter::text ~ $2 or reason ~ $1 or error ~ $1)"
  const inView = "name ~ $1 or filter::text ~ $2"
  const without = (column: string, condition = `${column} ~ $1`) =>
    `${column} = case when ${condition} then null else ${column} end`
  return {
    count: `
  select ((select count(*) from ${schema}.audit where ${inAudit}) + (select count(*) from ${schema}.operation where ${inOperation})
    + (select count(*) from ${schema}.saved_view where ${inView}))::int as count`,
    erase: `
  with entries as (
    update ${schema}.audit set reason = null, ${without("before", isAbout)}, ${without("after", isAbout)},
      target = case when target ~ $1 or ${ofSchedule} and not exists (
        select from ${schema}.schedule s where s.name = target) then 'erased' else target end
    where ${inAudit} returning 1
  ), operations as (
    -- Without the fields that quote it. The operation has ended: nothing reads the filter again.
    update ${schema}.operation set ${without("reason")}, ${without("error")}, filter = case when filter is not null then (
      select coalesce(jsonb_object_agg(f.key, f.value), '{}') from jsonb_each(filter) f where f.value::text !~ $2) end
    where ${inOperation} returning 1
  ), views as (
    delete from ${schema}.saved_view where ${inView} returning 1
  )
  select ((select count(*) from entries) + (select count(*) from operations) + (select count(*) from views))::int as count`
  }
}
