import { instant } from "../../database/SqlInstant.js"
import { few, hot, opaque } from "../../database/Statements.js"
import { sharedLock, triedLock } from "../settings/QueueSql.js"
import { columns } from "./ClaimedRow.js"

// The claim, one statement. docs/learn/claim.md explains it together with the cursor that chooses its parameters.
//
//   entered   shared lock against a settings change
//   gate      the queue's row: is it open, how many tokens, how many jobs per key
//   taken     the jobs to claim, locked: in queue order (`inOrder`), or round-robin by key (`byKey`)
//   leased    the row of the new lease
//   paid      the tokens of the jobs, if the queue has a rate
//   update    the jobs, pending to running
//
// The parts for keys, a rate and journals are left out of the text where a queue does not need them: they would cost
// every plain claim. The process chooses the form from its cached copy of the queue's row. The gate compares the form
// with the row itself and is closed if another form applies, so a stale copy claims nothing.
//
// A suspect is a job that has crashed a process. It is claimed alone, so that another crash is not blamed on other
// jobs.

export interface Form {
  /** Claims round-robin by key instead of in queue order. */
  readonly keyed: boolean
  /** Takes at most as many jobs as the bucket has tokens. */
  readonly rated: boolean
  /** Returns the journals of workflow executions. Their subqueries would delay a claim of one plain job. */
  readonly journals: boolean
}

/** All running jobs of a key are remembered, and waiting ones up to this number in all. Others are found by their start time. */
const maxRememberedStarts = 64

// Asynchronous commit: if a server crash loses a claim, its jobs are still pending and no row carries its lease. Jobs
// start sooner because the claim does not wait for the disk. The setting is local to the transaction.
const entered = (schema: string) => `
  with entered as materialized (
    select set_config('synchronous_commit', 'off', true), ${sharedLock(schema)}
  )`

/** Tokens in the bucket now. A clock that is set back adds none. */
const tokens = `least(q.rate_jobs, coalesce(q.rate_tokens, q.rate_jobs) + greatest(0,
        extract(epoch from (${instant("$2")} - q.rate_filled_at)) / extract(epoch from q.rate_per) * q.rate_jobs))`

/** Whether a row of the queue table lets jobs start, and this form of the statement applies to it. */
const isOpen = (now: string, { keyed, rated }: Pick<Form, "keyed" | "rated">) => `not q.paused
      and coalesce(q.throttled_until <= ${instant(now)}, true)
      and (q.rate_jobs is null) = ${!rated}
      and (q.key_concurrency is null and coalesce(q.keys_cooling_until <= ${instant(now)}, true)) = ${!keyed}`

/**
 * The current row, not the one in the statement's snapshot: a settings change locks the row for update, so even the
 * weakest row lock waits for the new version and reads it.
 */
export const gate = (
  schema: string,
  { keyed, rated }: Pick<Form, "keyed" | "rated">
): string => `, gate as materialized (
    select ${isOpen("$2", { keyed, rated })} as open
      ${rated ? `, ${tokens} as tokens` : ""}
      ${keyed ? ", q.key_concurrency as per_key, coalesce(q.key_order, 'none') as key_order, q.revision" : ""}
    from entered cross join ${schema}.queue q where q.name = $1
    for ${rated ? "no key update" : "key share"} of q
  )`

/** How many jobs may be claimed. The epsilon absorbs rounding errors. */
const claimLimit = ({ rated }: Form) =>
  rated ? "(select case when open then least($3::int, floor(tokens + 1e-6)::int) else 0 end from gate)" : "$3::int"

/** Looks up a job by id only. Without statistics, the planner would read all unfinished jobs instead. */
const byId = (schema: string, id: string) =>
  `select id, priority, run_at, crash_count, lease, started_at, finished_at from ${schema}.job where id = ${id} limit 1`

/**
 * The due jobs of a queue in its order, from the start positions `from`, as one row of arrays: otherwise a claim of
 * hundreds of jobs would materialize, count and read them one by one. The rows are locked, so their ctids stay valid until
 * the statement ends.
 */
const dueInOrder = (
  schema: string,
  { from, gate, limit, now, queue }: Readonly<Record<"queue" | "now" | "limit" | "from" | "gate", string>>
) => `
    select array_agg(id) as ids, array_agg(spot) as spots, array_position(array_agg(crash_count > 0), true) as suspect
    from (
      select stretch.id, stretch.spot, stretch.crash_count
      from ${from}
      cross join lateral (
        -- One range of the claim index. Entries before the start are dead or taken and are not visited.
        select id, ctid as spot, crash_count from ${schema}.job
        -- A queue without a row has default settings. A worker declares its queues before it claims.
        where (${gate}) is not false and queue = ${queue} and finished_at is null and lease is null
          and priority = start.priority
          and (run_at, id) >= (${instant("start.run_at")}, start.id) and run_at <= ${instant(now)}
        order by run_at, id
        limit ${limit}
        for update skip locked
      ) stretch
      limit ${limit}
    ) found`

/** Jobs before a suspect are claimed without it; if it is first, it is claimed alone. */
const unsuspected = (array: string) =>
  `${array}[1:case when suspect is null then cardinality(ids) when suspect = 1 then 1 else suspect - 1 end] as ${array}`

/** Part `taken` in queue order. */
const inOrder = (schema: string, form: Form) => `, due as materialized (${dueInOrder(schema, {
  queue: "$1",
  now: "$2",
  limit: claimLimit(form),
  from: "entered cross join unnest($6::smallint[], $7::float8[], $8::uuid[]) as start(priority, run_at, id)",
  gate: "select open from gate"
})}
  ), taken as materialized (
    select ${unsuspected("ids")}, ${unsuspected("spots")} from due where ids is not null
  )`

// Candidate keys. The count of a key's running jobs comes from this statement's snapshot, which may be stale, and so
// does the key's turn number. The turn is compared again when its row is locked: if it is unchanged, no other claim has
// used the key since, and the count is right. A turn locked by another claim is skipped.
const keyScan = (schema: string) => `, key_scan as materialized (
    select k.key, t.spot, t.turn, gate.per_key, gate.key_order, begun.jobs as begun, begun.running,
      case when gate.per_key is null then $3::int else gate.per_key - begun.running end as room,
      -- Round-robin: keys after the last one served come first.
      row_number() over (order by k.key <= $7, k.key) as key_position
    from gate
    cross join unnest(${opaque("$6::text[]")}) as k(key)
    -- One lookup per key, then by ctid: otherwise the planner would read all key turns of the queue.
    left join lateral (
      select t.ctid as spot, t.turn, t.taken, t.cooling_until
      from ${schema}.key_turn t where t.queue = $1 and t.key = k.key limit 1
    ) t on true
    cross join lateral (
      select count(*) filter (where j.lease is not null)::int as running,
        array_agg(j.id order by j.lease is null, j.id)
          filter (where gate.key_order <> 'none' or j.lease is not null) as jobs
      from unnest(t.taken) as before(id) cross join lateral (${byId(schema, "before.id")}) j
      where j.finished_at is null and j.started_at is not null
    ) begun
    where gate.open and coalesce(t.cooling_until <= ${instant("$2")}, true)
      -- A settings change since this statement started may have let jobs start that its snapshot does not show.
      and gate.revision = (select q.revision from ${schema}.queue q where q.name = $1)
  )`

const candidates = (schema: string) => `, candidate as (
    select first.id, first.priority, first.crash_count, first.round, key_scan.key, key_scan.key_position
    from key_scan
    cross join lateral (
      select id, priority, crash_count, row_number() over (order by
        fresh, case when fresh then priority end, case when fresh then run_at end, id) as round
      from (
        -- With an order, jobs that have started before come first.
        select j.id, j.priority, j.run_at, j.crash_count, false as fresh
        from unnest(key_scan.begun) as b(id) cross join lateral (${byId(schema, "b.id")}) j
        where key_scan.key_order <> 'none' and j.lease is null and j.finished_at is null and j.run_at <= ${instant("$2")}
        union all
        (select j.id, j.priority, j.run_at, j.crash_count, true
        from ${schema}.job j
        where j.queue = $1 and j.key = key_scan.key and j.finished_at is null and j.lease is null
          and j.run_at <= ${instant("$2")}
          and (key_scan.begun is null or key_scan.key_order = 'none' or (key_scan.key_order = 'serial' and j.id <> all(key_scan.begun)))
        order by j.priority, j.run_at, j.id limit key_scan.room)
      ) either
      order by round limit key_scan.room
    ) first
    where key_scan.room > 0
    union all
    -- Jobs without a key have no limit and take turns with the keys.
    select j.id, j.priority, j.crash_count, 1, null, k.key_position
    from gate
    cross join unnest(${opaque("$8::uuid[]")}) with ordinality as k(id, key_position)
    cross join lateral (${byId(schema, "k.id")}) j
    where gate.open and j.finished_at is null and j.lease is null and j.run_at <= ${instant("$2")}
  )`

const turns = (schema: string, form: Form) => `, ranked as materialized (
    select id, key, crash_count, row_number() over (order by priority, round, key_position, key) as rank
    from candidate
    order by rank limit ${claimLimit(form)}
  ), chosen as materialized (
    -- Jobs before a suspect are claimed without it; if it is first, it is claimed alone.
    select id, key, rank from ranked where rank <= coalesce(
      (select case when min(rank) > 1 then min(rank) - 1 else min(rank) end from ranked where crash_count > 0), $3::int)
  ), wanted as materialized (
    select key_scan.key, key_scan.spot, key_scan.turn, case when key_scan.per_key is null then '{}'
      else coalesce(key_scan.begun[1:greatest(${maxRememberedStarts}, key_scan.running)], '{}') || mine.jobs end as jobs
    from (select key, array_agg(id) as jobs from chosen where key is not null group by key) mine
    join key_scan on key_scan.key = mine.key
  ), held as materialized (
    select wanted.spot, wanted.jobs
    from wanted join ${schema}.key_turn t on t.ctid = wanted.spot and t.turn <= wanted.turn
    for update of t skip locked
  ), turned as (
    update ${schema}.key_turn t set turn = t.turn + 1, turned_at = ${instant("$2")}, taken = held.jobs
    from held where t.ctid = held.spot
    returning t.key
  ), made as (
    -- Insert in key order, so that two claims that add the same keys do not deadlock.
    insert into ${schema}.key_turn (queue, key, turn, turned_at, taken)
    select $1, key, 1, ${instant("$2")}, jobs from wanted where spot is null order by key
    on conflict do nothing
    returning key
  ), taken as materialized (
    select array_agg(j.id order by chosen.rank) as ids, array_agg(j.spot order by chosen.rank) as spots
    from chosen cross join lateral (
      select id, ctid as spot from ${schema}.job
      -- A job may have left the queue for another cell since its id was read.
      where id = chosen.id and queue = $1 and finished_at is null and lease is null and run_at <= ${instant("$2")}
      for update skip locked
    ) j
    where chosen.key is null or chosen.key in (select key from turned union all select key from made)
    having count(*) > 0
  )`

/**
 * Part `taken` of executions that pods with other releases have left to the releases `$6`. Such a pod had claimed them, so the
 * rate of the queue has let them start, and its order; a pause, a throttle and the limit of their key hold them. As in a claim by
 * key, a turn that has changed since the snapshot is skipped.
 */
const parked = (schema: string) => `, found as materialized (
    select j.id, j.ctid as spot, j.crash_count > 0 as suspect, limited.key, limited.spot as turn_spot, limited.turn, limited.begun
    from entered cross join ${schema}.workflow_lifetime l join ${schema}.job j on j.id = l.job_id
    left join lateral (
      select j.key, t.spot, t.turn, t.begun, t.running, q.key_concurrency as most
      from ${schema}.queue q left join lateral (
        select t.ctid as spot, t.turn, busy.* from ${schema}.key_turn t cross join lateral (
          select array_agg(b.id) as begun, count(*) filter (where b.lease is not null) as running
          from unnest(t.taken) as before(id) cross join lateral (${byId(schema, "before.id")}) b
          where b.finished_at is null and b.id <> j.id
        ) busy
        where t.queue = $1 and t.key = j.key limit 1
      ) t on true
      where q.name = $1 and q.key_concurrency is not null and j.key is not null
    ) limited on true
    where l.release = any($6::text[]) and l.parked is not null and l.parked = j.woken and j.queue = $1
      and j.lease is null and j.finished_at is null and j.run_at > ${instant("$2")}
      and not exists (
        select from ${schema}.queue q where q.name = $1 and (q.paused or q.throttled_until > ${instant("$2")}))
      and coalesce(limited.running, 0) < coalesce(limited.most, 1)
    order by suspect, j.id limit $3::int for update of j, l skip locked
  ), chosen as materialized (
    select * from (
      select *, row_number() over (order by suspect, id) as rank, row_number() over (partition by key order by suspect, id) as place
      from found
    ) ranked
    where (not suspect or rank = 1) and (key is null or place = 1)
  ), held as materialized (
    select t.ctid as spot, chosen.id, chosen.begun from chosen join ${schema}.key_turn t
      on t.ctid = chosen.turn_spot and t.turn <= chosen.turn
    for update of t skip locked
  ), turned as (
    update ${schema}.key_turn t set turn = t.turn + 1, turned_at = ${instant("$2")}, taken = held.begun || held.id
    from held where t.ctid = held.spot
    returning t.key
  ), made as (
    insert into ${schema}.key_turn (queue, key, turn, turned_at, taken)
    select $1, key, 1, ${instant("$2")}, array[id] from chosen where key is not null and turn_spot is null order by key
    on conflict do nothing
    returning key
  ), taken as materialized (
    select array_agg(id order by rank) as ids, array_agg(spot order by rank) as spots
    from chosen where key is null or key in (select key from turned union all select key from made)
    having count(*) > 0
  ), unparked as (
    update ${schema}.workflow_lifetime l set parked = null from taken where l.job_id = any(taken.ids)
  )`

/** Part `taken` by key. */
const byKey = (schema: string, form: Form) => keyScan(schema) + candidates(schema) + turns(schema, form)

const leased = (schema: string) => `, leased as (
    insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
    select $4, $5, ${instant("$2")}, ids from taken
  )`

const paid = (schema: string) => `, paid as (
    update ${schema}.queue q
    set rate_tokens = gate.tokens - cardinality(taken.ids), rate_filled_at = greatest(q.rate_filled_at, ${instant("$2")})
    from gate cross join taken
    where q.name = $1
  )`

// The rows are locked, so the ctid identifies them without an index lookup. A row changed between this statement's
// snapshot and the lock has a ctid that the snapshot does not see: it is not updated, and the next claim finds it. So the
// journal of an execution, read in this snapshot, belongs to the value of `woken` that is returned.
const running = ({ lease, now, pod }: Readonly<Record<"lease" | "now" | "pod", string>>) => `set status = 'running',
    lease = ${lease}, pod_id = ${pod}, attempt = least(j.attempt + 1, j.max_attempts),
    started_at = ${instant(now)}, heartbeat_at = ${instant(now)}, updated_at = ${instant(now)}`

const take = (schema: string, { journals }: Form) => `
  update ${schema}.job j ${running({ lease: "$4", pod: "$5", now: "$2" })}
  from taken cross join unnest(taken.spots) with ordinality as job_spot(spot, number)
  where j.ctid = job_spot.spot and ${few("job_spot.number")}
  returning ${columns(schema, journals)}`

const claim = (schema: string, form: Form): string =>
  hot(
    entered(schema) +
      gate(schema, form) +
      (form.keyed ? byKey(schema, form) : inOrder(schema, form)) +
      leased(schema) +
      (form.rated ? paid(schema) : "") +
      take(schema, form)
  )

/**
 * The claim of several queues in queue order, without rates and journals. Parameters: now, the queues, each
 * once, with limits, leases and pods, and the start positions with the place of their queue. Returns the place of the queue, then the columns of
 * a job; null instead of them for a queue whose settings are being changed, which has to be claimed alone. Waiting for it
 * here would delay the others.
 */
const together = (schema: string): string =>
  hot(`
  with line as materialized (
    select place, queue, jobs, lease, pod, ${triedLock(schema, "queue")} as entered
    from (select set_config('synchronous_commit', 'off', true)) setting
    cross join unnest(${opaque("$2::text[]")}, ${opaque("$3::int[]")}, ${opaque("$4::uuid[]")}, ${opaque("$5::uuid[]")})
      with ordinality as line(queue, jobs, lease, pod, place)
  ), gate as materialized (
    select q.name, ${isOpen("$1", { keyed: false, rated: false })} as open
    from line join ${schema}.queue q on q.name = line.queue where line.entered
    for key share of q
  ), due as materialized (
    select line.place, line.lease, line.pod, found.* from line cross join lateral (${dueInOrder(schema, {
      queue: "line.queue",
      now: "$1",
      limit: "line.jobs",
      from: `(
        select priority, run_at, id
        from unnest(${opaque("$6::int[]")}, ${opaque("$7::smallint[]")}, ${opaque("$8::float8[]")}, ${opaque("$9::uuid[]")})
          as given(place, priority, run_at, id)
        where given.place = line.place
      ) start`,
      gate: "line.entered and (select open from gate where gate.name = line.queue) is not false"
    })}) found
  ), taken as materialized (
    select place, lease, pod, ${unsuspected("ids")}, ${unsuspected("spots")} from due where ids is not null and ${few("place")}
  ), leased as (
    insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
    select lease, pod, ${instant("$1")}, ids from taken
  ), updated(place) as (
    update ${schema}.job j ${running({ lease: "taken.lease", pod: "taken.pod", now: "$1" })}
    from taken cross join unnest(taken.spots) with ordinality as job_spot(spot, number)
    where j.ctid = job_spot.spot and ${few("job_spot.number")}
    returning taken.place, ${columns(schema, false)}
  )
  select line.place::int, updated.*
  from line left join updated on updated.place = line.place
  where updated.place is not null or not line.entered`)

const plain: Form = { keyed: false, rated: false, journals: false }

/**
 * The claim statement in each form. Parameters: queue, now, limit, lease, pod. In queue order: then the start position
 * of each priority. By key: then the keys, the last key served, and jobs without a key.
 */
export const make = (schema: string) => ({
  together: together(schema),
  line: claim(schema, plain),
  lineWithJournals: claim(schema, { ...plain, journals: true }),
  lineRated: claim(schema, { ...plain, rated: true }),
  lineRatedWithJournals: claim(schema, { ...plain, rated: true, journals: true }),
  keys: claim(schema, { ...plain, keyed: true }),
  keysWithJournals: claim(schema, { ...plain, keyed: true, journals: true }),
  keysRated: claim(schema, { ...plain, keyed: true, rated: true }),
  keysRatedWithJournals: claim(schema, { keyed: true, rated: true, journals: true }),
  /** Executions that are left to releases of this pod. Parameters: queue, now, limit, lease, pod, releases. */
  parked: hot(entered(schema) + parked(schema) + leased(schema) + take(schema, { ...plain, journals: true }))
})

export type ClaimSql = ReturnType<typeof make>

/** The claim statement of a form. */
export const textOf = (statements: ClaimSql, { journals, keyed, rated }: Form): string =>
  statements[`${keyed ? "keys" : "line"}${rated ? "Rated" : ""}${journals ? "WithJournals" : ""}` as const]
