import { instant } from "../../database/SqlInstant.js"
import { few, hot, opaque } from "../../database/Statements.js"
import { undoes, withClaim } from "../workflow/JournalSql.js"

// Claim statements. There are four, for queues with and without keys and with and without a rate. The pod chooses one
// from its cached copy of the queue's row; each statement checks the row itself and claims nothing if another one
// applies. The simplest also exists without the journals of executions, whose subqueries a claim of one plain job would
// prepare for nothing.

// `extract` computes in numeric, which costs a large claim more than reading the rows. As float8 the result can be half
// a microsecond early, hence the 0.0005.
const millis = (column: string) => `floor(date_part('epoch', ${column}) * 1000 + 0.0005)`

export interface Form {
  readonly keyed: boolean
  readonly rated: boolean
}

/** Key of the advisory lock: claims of a queue hold it shared, a settings change holds it exclusively. */
export const lockOf = (schema: string, queue: string): string =>
  `hashtextextended('${schema}.queue.' || ${queue}::text, 0)`

/** At most this many started jobs are remembered per key. Others that wait are found by their start time. */
const mostBegun = 64

// A row lock is not enough against a settings change: successive shared holders could starve the exclusive waiter for
// ever. The lock manager queues fairly. The lock ends with the statement's transaction.
const lock = (schema: string) => `pg_advisory_xact_lock_shared(${lockOf(schema, "$1")})`

// Asynchronous commit: if a server crash loses a claim, its jobs are still pending and no row carries its lease. Jobs
// start sooner because the claim does not wait for the disk. The setting is local to the transaction.
const entered = (schema: string) => `
  with entered as materialized (
    select set_config('synchronous_commit', 'off', true), ${lock(schema)}
  )`

/** Tokens in the bucket now. A clock that is set back adds none. */
const tokens = `least(q.rate_jobs, coalesce(q.rate_tokens, q.rate_jobs) + greatest(0,
        extract(epoch from (${instant("$2")} - q.rate_filled_at)) / extract(epoch from q.rate_per) * q.rate_jobs))`

/** The current row, not the one in the statement's snapshot: even the weakest row lock reads the latest version. */
const gate = (schema: string, { keyed, rated }: Form) => `, gate as materialized (
    select not q.paused and coalesce(q.throttled_until <= ${instant("$2")}, true)
      and (q.rate_jobs is null) = ${!rated}
      and (q.key_concurrency is null and coalesce(q.keys_cooling_until <= ${instant("$2")}, true)) = ${!keyed} as open
      ${rated ? `, ${tokens} as tokens` : ""}
      ${keyed ? ", q.key_concurrency as most, coalesce(q.key_order, 'none') as key_order, q.revision" : ""}
    from entered cross join ${schema}.queue q where q.name = $1
    for ${rated ? "no key update" : "key share"} of q
  )`

/** How many jobs may be claimed. The epsilon absorbs rounding errors. */
const most = ({ rated }: Form) =>
  rated ? "(select case when open then least($3::int, floor(tokens + 1e-6)::int) else 0 end from gate)" : "$3::int"

/**
 * A job that has crashed a pod is claimed alone, so that another crash is not blamed on other jobs: jobs before it are
 * claimed without it, and if it is first, it is claimed without the rest.
 */
const unsuspected = (among: string) => `place <= coalesce(
      (select case when min(place) > 1 then min(place) - 1 else min(place) end from ${among} where crash_count > 0), $3::int)`

/** Looks up a job by id only. Without statistics, the planner would read all unfinished jobs instead. */
const byId = (schema: string, id: string) =>
  `select id, priority, run_at, crash_count, lease, started_at, finished_at from ${schema}.job where id = ${id} limit 1`

/**
 * Due jobs in queue order, as one row of arrays: otherwise a claim of hundreds of jobs would materialize, count and
 * read them one by one. The rows are locked, so their ctids stay valid until the statement ends.
 */
const line = (schema: string, form: Form) => `, due as materialized (
    select array_agg(id) as ids, array_agg(spot) as spots, array_position(array_agg(crash_count > 0), true) as suspect
    from (
      select stretch.id, stretch.spot, stretch.crash_count
      from entered
      cross join unnest($6::smallint[], $7::float8[], $8::uuid[]) as start(priority, run_at, id)
      cross join lateral (
        -- One range of the claim index. Entries before the start are dead or taken and are not visited.
        select id, ctid as spot, crash_count from ${schema}.job
        -- A queue without a row has default settings.
        where (select open from gate) is not false and queue = $1 and finished_at is null and lease is null
          and priority = start.priority
          and (run_at, id) >= (${instant("start.run_at")}, start.id) and run_at <= ${instant("$2")}
        order by run_at, id
        limit ${most(form)}
        for update skip locked
      ) stretch
      limit ${most(form)}
    ) found
  ), taken as materialized (
    -- Jobs before a suspect are claimed without it; if it is first, it is claimed alone.
    select ids[1:most] as ids, spots[1:most] as spots
    from due cross join lateral (
      select case when suspect is null then $3::int when suspect = 1 then 1 else suspect - 1 end as most
    ) unsuspected
    where ids is not null
  )`

// Candidate keys. The count of a key's running jobs comes from this statement's snapshot, which may be stale, and so
// does the key's turn number. The turn is compared again when its row is locked: if it is unchanged, no other claim has
// used the key since, and the count is right. A turn locked by another claim is skipped.
const keyScan = (schema: string) => `, key_scan as materialized (
    select k.key, t.spot, t.turn, gate.most, gate.key_order, begun.jobs as begun,
      case when gate.most is null then $3::int else gate.most - begun.running end as room,
      -- Round-robin: keys after the last one served come first.
      row_number() over (order by k.key <= $7, k.key) as place
    from gate
    cross join unnest(${opaque("$6::text[]")}) as k(key)
    -- One lookup per key, then by ctid: otherwise the planner would read all key turns of the queue.
    left join lateral (
      select t.ctid as spot, t.turn, t.taken, t.cooling_until
      from ${schema}.key_turn t where t.queue = $1 and t.key = k.key limit 1
    ) t on true
    cross join lateral (
      select count(*) filter (where j.lease is not null)::int as running,
        array_agg(j.id order by j.id) filter (where gate.key_order <> 'none' or j.lease is not null) as jobs
      from unnest(t.taken) as before(id) cross join lateral (${byId(schema, "before.id")}) j
      where j.finished_at is null and j.started_at is not null
    ) begun
    where gate.open and coalesce(t.cooling_until <= ${instant("$2")}, true)
      -- A settings change since this statement started may have let jobs start that its snapshot does not show.
      and gate.revision = (select q.revision from ${schema}.queue q where q.name = $1)
  )`

const candidates = (schema: string) => `, candidate as (
    select first.id, first.priority, first.crash_count, first.round, key_scan.key, key_scan.place
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
    select j.id, j.priority, j.crash_count, 1, null, k.place
    from gate
    cross join unnest(${opaque("$8::uuid[]")}) with ordinality as k(id, place)
    cross join lateral (${byId(schema, "k.id")}) j
    where gate.open and j.finished_at is null and j.lease is null and j.run_at <= ${instant("$2")}
  )`

const turns = (schema: string, form: Form) => `, ranked as materialized (
    select id, key, crash_count, row_number() over (order by priority, round, place, key) as place
    from candidate
    order by place limit ${most(form)}
  ), chosen as materialized (
    select id, key, place from ranked where ${unsuspected("ranked")}
  ), wanted as materialized (
    select key_scan.key, key_scan.spot, key_scan.turn, case when key_scan.most is null then '{}'
      else coalesce(key_scan.begun[1:${mostBegun}], '{}') || mine.jobs end as jobs
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
    select array_agg(j.id order by chosen.place) as ids, array_agg(j.spot order by chosen.place) as spots
    from chosen cross join lateral (
      select id, ctid as spot from ${schema}.job
      where id = chosen.id and finished_at is null and lease is null and run_at <= ${instant("$2")}
      for update skip locked
    ) j
    where chosen.key is null or chosen.key in (select key from turned union all select key from made)
    having count(*) > 0
  )`

const keyedLine = (schema: string, form: Form) => keyScan(schema) + candidates(schema) + turns(schema, form)

const paid = (schema: string) => `, paid as (
    update ${schema}.queue q
    set rate_tokens = gate.tokens - cardinality(taken.ids), rate_filled_at = greatest(q.rate_filled_at, ${instant("$2")})
    from gate cross join taken
    where q.name = $1
  )`

// The rows are locked, so the ctid identifies them without an index lookup. A row changed between this statement's
// snapshot and the lock has a ctid that the snapshot does not see: it is not updated, and the next claim finds it. So the
// journal of an execution, read in this snapshot, belongs to the value of `woken` that is returned.
const take = (schema: string, { keyed, rated }: Form, journals: boolean) => `, leased as (
    insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
    select $4, $5, ${instant("$2")}, ids from taken
  )${rated ? paid(schema) : ""}
  update ${schema}.job j
  set status = 'running', lease = $4, pod_id = $5, attempt = least(j.attempt + 1, j.max_attempts),
    started_at = ${instant("$2")}, heartbeat_at = ${instant("$2")}, updated_at = ${instant("$2")}
  from taken cross join unnest(taken.spots) with ordinality as place(spot, number)
  where j.ctid = place.spot and ${few("place.number")}
  returning j.id, j.kind, j.version, j.payload, j.key, j.attempt, j.max_attempts, j.crash_count, j.meta, j.priority,
    ${millis("j.created_at")}, ${millis("j.run_at")},
    case when j.woken is not null then jsonb_build_array(j.woken, j.dedupe_key, ${undoes},
    ${journals ? withClaim(schema) : "null"}, j.dying is not null, j.cut is true, j.release) end${keyed ? ", place.number::int" : ""}`

/** Stores jobs of one kind as already claimed if the queue is open, and as pending otherwise. */
const insertClaimed = (schema: string) => `
  with entered as materialized (select ${lock(schema)})${gate(schema, { keyed: false, rated: false })}, way as materialized (
    -- A queue without a row has default settings.
    select coalesce((select open from gate), true) as is_open from entered
  ), leased as (
    insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
    select $4, $5, ${instant("$2")}, $3::uuid[] from way where is_open
  )
  insert into ${schema}.job (id, queue, kind, version, payload, priority, run_at, max_attempts, created_at, updated_at,
    status, lease, pod_id, attempt, started_at, heartbeat_at)
  select i.id, $1, $6, $7::int, i.payload, $9::smallint, ${instant("i.run_at")}, $11::smallint, ${instant("$2")}, ${instant("$2")},
    case when is_open then 'running' else 'pending' end, case when is_open then $4::uuid end,
    case when is_open then $5::uuid end, case when is_open then 1 else 0 end,
    case when is_open then ${instant("$2")} end, case when is_open then ${instant("$2")} end
  from rows from (unnest($3::uuid[]), jsonb_array_elements($8::jsonb), unnest($10::float8[])) as i(id, payload, run_at)
  cross join way
  returning lease is not null`

const claimOf = (schema: string, form: Form, journals = true): string =>
  hot(
    entered(schema) +
      gate(schema, form) +
      (form.keyed ? keyedLine(schema, form) : line(schema, form)) +
      take(schema, form, journals)
  )

/**
 * Statements that claim jobs and find candidates. Parameters of every claim: queue, now, limit, lease, pod. In queue
 * order: then the start position of each priority. By key: then the keys, the last key served, and jobs without a key.
 */
export const make = (schema: string) => ({
  line: claimOf(schema, { keyed: false, rated: false }, false),
  lineWithJournals: claimOf(schema, { keyed: false, rated: false }),
  lineRated: claimOf(schema, { keyed: false, rated: true }),
  keys: claimOf(schema, { keyed: true, rated: false }),
  keysRated: claimOf(schema, { keyed: true, rated: true }),

  /** Parameters: queue, now, ids, lease, pod; then the fields that the jobs share, their payloads and start times. */
  insertClaimed: hot(insertClaimed(schema)),

  /** The first due jobs in queue order, for claims by key. */
  front: hot(`
  select stretch.id, stretch.key, stretch.priority, ${millis("stretch.run_at")} as run_at
  from unnest($4::smallint[], $5::float8[], $6::uuid[]) as start(priority, run_at, id)
  cross join lateral (
    select id, key, priority, run_at from ${schema}.job
    where queue = $1 and finished_at is null and lease is null and priority = start.priority
      and (run_at, id) >= (${instant("start.run_at")}, start.id) and run_at <= ${instant("$2")}
    order by run_at, id
    limit $3::int
  ) stretch
  limit $3::int`),

  /** The keys after one, in order. Each step skips all jobs of a key. */
  keysAfter: hot(`
  with recursive step(key, number) as (
    (select key, 1 from ${schema}.job where queue = $1 and finished_at is null and key > $2 order by key limit 1)
    union all
    select (select j.key from ${schema}.job j
      where j.queue = $1 and j.finished_at is null and j.key > step.key order by j.key limit 1), number + 1
    from step where step.key is not null and number < $3::int
  )
  select key from step where key is not null`),

  /** Priorities that have waiting jobs. Each step skips all jobs of one priority. */
  priorities: hot(`
  with recursive step(priority) as (
    (select priority from ${schema}.job
    where queue = $1 and finished_at is null and lease is null order by priority limit 1)
    union all
    select (select j.priority from ${schema}.job j where j.queue = $1 and j.finished_at is null and j.lease is null
      and j.priority > step.priority order by j.priority limit 1)
    from step where step.priority is not null
  )
  select priority from step where priority is not null`),

  prioritiesBetween: `
  select found.priority
  from unnest($2::int[], $3::int[]) as gap(above, below)
  cross join lateral (
    select priority from ${schema}.job
    where queue = $1 and finished_at is null and lease is null and priority > gap.above and priority < gap.below
    order by priority limit 1
  ) found`,

  /**
   * Records the running jobs of each key when per-key limits are turned on. The caller holds the exclusive lock, so no
   * claim runs at the same time.
   */
  noteRunning: `
  insert into ${schema}.key_turn as t (queue, key, turn, turned_at, taken)
  select j.queue, j.key, 1, ${instant("$2")}, array_agg(j.id)
  from ${schema}.lease l cross join unnest(l.jobs) as held(id)
  join ${schema}.job j on j.id = held.id and j.lease = l.id
  where j.queue = $1 and j.key is not null
  group by 1, 2 order by 1, 2
  on conflict (queue, key) do update set turn = t.turn + 1, turned_at = excluded.turned_at, taken = excluded.taken`
})

export type ClaimSql = ReturnType<typeof make>
