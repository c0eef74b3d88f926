import { hot } from "../../database/HotStatements.js"
import { instant } from "../../database/SqlInstant.js"

// Claims as SQL. One of four takes jobs from a queue, by what its row says: whether keys are looked at, and whether claims
// are rated. Which one a pod uses, it decides by what it knows of the row; each looks at the row itself, and takes nothing
// where another is due.

// `extract` counts in numeric, which costs a large claim more than reading the rows. As float8 an instant may come out half a
// microsecond early.
const millis = (column: string) => `floor(date_part('epoch', ${column}) * 1000 + 0.0005)`

/** What a queue's row asks of a claim. */
export interface Form {
  readonly keyed: boolean
  readonly rated: boolean
}

/** The name of the lock that claims of a queue share, and that whoever changes its settings has alone. */
export const lockOf = (schema: string, queue: string): string =>
  `hashtextextended('${schema}.queue.' || ${queue}::text, 0)`

/** Jobs of a key that have begun and wait are remembered up to so many; what comes after is found by its start. */
const mostBegun = 64

// A row lock alone would not do against a change of settings: those who share one may follow each other for ever, past
// whoever waits to have it alone. The lock manager lets nobody past. The lock ends with the statement's transaction.
const lock = (schema: string) => `pg_advisory_xact_lock_shared(${lockOf(schema, "$1")})`

// A claim that a crash of the server undoes leaves its jobs pending, and its lease fences nobody: nothing is lost by not
// waiting for the disk, and every job begins sooner. The setting, too, ends with the transaction.
const entered = (schema: string) => `
  with entered as materialized (
    select set_config('synchronous_commit', 'off', true), ${lock(schema)}
  )`

/** What the bucket holds at this instant. A clock that went back fills nothing. */
const tokens = `least(q.rate_jobs, coalesce(q.rate_tokens, q.rate_jobs) + greatest(0,
        extract(epoch from (${instant("$2")} - q.rate_filled_at)) / extract(epoch from q.rate_per) * q.rate_jobs))`

/** The row as it stands now, and not when the statement began: locking a row, however weakly, reads its last version. */
const gate = (schema: string, { keyed, rated }: Form) => `, gate as materialized (
    select not q.paused and coalesce(q.throttled_until <= ${instant("$2")}, true)
      and (q.rate_jobs is null) = ${!rated}
      and (q.key_concurrency is null and coalesce(q.keys_cooling_until <= ${instant("$2")}, true)) = ${!keyed} as open
      ${rated ? `, ${tokens} as tokens` : ""}
      ${keyed ? ", q.key_concurrency as most, coalesce(q.key_order, 'none') as key_order, q.revision" : ""}
    from entered cross join ${schema}.queue q where q.name = $1
    for ${rated ? "no key update" : "key share"} of q
  )`

/** How many may be taken. What is missing to a whole token by rounding is not missing. */
const most = ({ rated }: Form) =>
  rated ? "(select case when open then least($3::int, floor(tokens + 1e-6)::int) else 0 end from gate)" : "$3::int"

/**
 * A job that has crashed a pod is taken alone, so that nobody else is blamed if it does so again: what comes before it is
 * taken without it, and when it comes first it is taken without the rest.
 */
const unsuspected = (among: string) => `place <= coalesce(
      (select case when min(place) > 1 then min(place) - 1 else min(place) end from ${among} where crash_count > 0), $3::int)`

/** A job by its id and in no other way: before it has statistics, the planner would rather read all that are not over. */
const byId = (schema: string, id: string) =>
  `select id, priority, run_at, crash_count, lease, started_at, finished_at from ${schema}.job where id = ${id} limit 1`

/**
 * Due jobs in the order of the line, as one row of arrays: a claim of hundreds would otherwise be kept, counted and read
 * again job by job. They are locked, so that their places in the table stay theirs until the statement ends.
 */
const line = (schema: string, form: Form) => `, due as materialized (
    select array_agg(id) as ids, array_agg(spot) as spots, array_position(array_agg(crash_count > 0), true) as suspect
    from (
      select stretch.id, stretch.spot, stretch.crash_count
      from entered
      cross join unnest($6::smallint[], $7::float8[], $8::uuid[]) as start(priority, run_at, id)
      cross join lateral (
        -- One stretch of the claim index: entries before the start are dead or taken, and never visited.
        select id, ctid as spot, crash_count from ${schema}.job
        -- A queue without a row is one that nobody has changed.
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
    -- What comes before a suspect is taken without it; when it comes first, it is taken alone.
    select ids[1:most] as ids, spots[1:most] as spots
    from due cross join lateral (
      select case when suspect is null then $3::int when suspect = 1 then 1 else suspect - 1 end as most
    ) unsuspected
    where ids is not null
  )`

// Jobs by key. Which of a key's jobs run is found in what this statement sees, which may be old: so is the key's turn, and it
// is compared with the one that stands. Where it is the same, nobody has claimed of this key since, and no more can run than
// were counted. A turn that somebody else holds is passed over.
const keyScan = (schema: string) => `, keyScan as materialized (
    select k.key, t.spot, t.turn, gate.most, gate.key_order, begun.jobs as begun,
      case when gate.most is null then $3::int else gate.most - begun.running end as room,
      -- Keys take turns: those behind the last one served come first.
      row_number() over (order by k.key <= $7, k.key) as place
    from gate
    cross join unnest($6::text[]) as k(key)
    -- One look per key, and by its row's place from then on: the planner would rather read all turns of the queue at once.
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
      -- Settings that changed since this statement began may have let jobs begin that it does not see.
      and gate.revision = (select q.revision from ${schema}.queue q where q.name = $1)
  )`

const candidates = (schema: string) => `, candidate as (
    select first.id, first.priority, first.crash_count, first.round, keyScan.key, keyScan.place
    from keyScan
    cross join lateral (
      select id, priority, crash_count, row_number() over (order by
        fresh, case when fresh then priority end, case when fresh then run_at end, id) as round
      from (
        -- In order, whoever has begun comes before those who have not.
        select j.id, j.priority, j.run_at, j.crash_count, false as fresh
        from unnest(keyScan.begun) as b(id) cross join lateral (${byId(schema, "b.id")}) j
        where keyScan.key_order <> 'none' and j.lease is null and j.finished_at is null and j.run_at <= ${instant("$2")}
        union all
        (select j.id, j.priority, j.run_at, j.crash_count, true
        from ${schema}.job j
        where j.queue = $1 and j.key = keyScan.key and j.finished_at is null and j.lease is null
          and j.run_at <= ${instant("$2")}
          and (keyScan.begun is null or keyScan.key_order = 'none' or (keyScan.key_order = 'serial' and j.id <> all(keyScan.begun)))
        order by j.priority, j.run_at, j.id limit keyScan.room)
      ) either
      order by round limit keyScan.room
    ) first
    where keyScan.room > 0
    union all
    -- Jobs without a key are nobody's rivals, and take turns with the keys.
    select j.id, j.priority, j.crash_count, 1, null, k.place
    from gate
    cross join unnest($8::uuid[]) with ordinality as k(id, place)
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
    select keyScan.key, keyScan.spot, keyScan.turn, case when keyScan.most is null then '{}'
      else coalesce(keyScan.begun[1:${mostBegun}], '{}') || mine.jobs end as jobs
    from (select key, array_agg(id) as jobs from chosen where key is not null group by key) mine
    join keyScan on keyScan.key = mine.key
  ), held as materialized (
    select wanted.spot, wanted.jobs
    from wanted join ${schema}.key_turn t on t.ctid = wanted.spot and t.turn <= wanted.turn
    for update of t skip locked
  ), turned as (
    update ${schema}.key_turn t set turn = t.turn + 1, turned_at = ${instant("$2")}, taken = held.jobs
    from held where t.ctid = held.spot
    returning t.key
  ), made as (
    -- In one order, so that two who make the same turns do not wait for each other.
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

/** Pays for exactly what was taken. */
const paid = (schema: string) => `, paid as (
    update ${schema}.queue q
    set rate_tokens = gate.tokens - cardinality(taken.ids), rate_filled_at = greatest(q.rate_filled_at, ${instant("$2")})
    from gate cross join taken
    where q.name = $1
  )`

// The rows are locked, so their places are as good as their ids and found without an index. One that was changed between
// this statement's beginning and the lock stands at a place that the statement does not see yet: it is left as it is, and
// the next claim finds it.
const take = (schema: string, { keyed, rated }: Form) => `, leased as (
    insert into ${schema}.lease (id, pod_id, claimed_at, jobs)
    select $4, $5, ${instant("$2")}, ids from taken
  )${rated ? paid(schema) : ""}
  update ${schema}.job j
  set status = 'running', lease = $4, pod_id = $5, attempt = least(j.attempt + 1, j.max_attempts),
    started_at = ${instant("$2")}, heartbeat_at = ${instant("$2")}, updated_at = ${instant("$2")}
  from taken cross join unnest(taken.spots) with ordinality as place(spot, number)
  where j.ctid = place.spot
  returning j.id, j.kind, j.version, j.payload, j.key, j.attempt, j.max_attempts, j.crash_count, j.meta, j.priority,
    ${millis("j.created_at")}, ${millis("j.run_at")}${keyed ? ", place.number::int" : ""}`

/** Stores jobs of one kind as taken already, where the queue lets jobs begin, and as pending where it does not. */
const insertClaimed = (schema: string) => `
  with entered as materialized (select ${lock(schema)})${gate(schema, { keyed: false, rated: false })}, way as materialized (
    -- A queue without a row is one that nobody has changed.
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

const claimOf = (schema: string, form: Form): string =>
  hot(
    entered(schema) +
      gate(schema, form) +
      (form.keyed ? keyedLine(schema, form) : line(schema, form)) +
      take(schema, form)
  )

/**
 * Statements that claim, and that find what to claim. Parameters of all claims: queue, now, how many, lease, pod; then, of
 * those by line, where each priority begins; of those by key, the keys, the last one served, and jobs without a key.
 */
export const make = (schema: string) => ({
  line: claimOf(schema, { keyed: false, rated: false }),
  lineRated: claimOf(schema, { keyed: false, rated: true }),
  keys: claimOf(schema, { keyed: true, rated: false }),
  keysRated: claimOf(schema, { keyed: true, rated: true }),

  /** Parameters: queue, now, ids, lease, pod; then what the jobs share, and their payloads and starts. */
  insertClaimed: hot(insertClaimed(schema)),

  /** The first due jobs in the order of the line, for those who look at keys. */
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

  /** Keys behind one, in their order. Each step jumps over all jobs of a key. */
  keysAfter: hot(`
  with recursive step(key, number) as (
    (select key, 1 from ${schema}.job where queue = $1 and finished_at is null and key > $2 order by key limit 1)
    union all
    select (select j.key from ${schema}.job j
      where j.queue = $1 and j.finished_at is null and j.key > step.key order by j.key limit 1), number + 1
    from step where step.key is not null and number < $3::int
  )
  select key from step where key is not null`),

  /** Priorities of a queue that have waiting jobs. Each step jumps over all jobs of one priority. */
  priorities: `
  with recursive step(priority) as (
    (select priority from ${schema}.job
    where queue = $1 and finished_at is null and lease is null order by priority limit 1)
    union all
    select (select j.priority from ${schema}.job j where j.queue = $1 and j.finished_at is null and j.lease is null
      and j.priority > step.priority order by j.priority limit 1)
    from step where step.priority is not null
  )
  select priority from step where priority is not null`,

  /** Priorities with waiting jobs in the gaps between those already known. */
  prioritiesBetween: `
  select found.priority
  from unnest($2::int[], $3::int[]) as gap(above, below)
  cross join lateral (
    select priority from ${schema}.job
    where queue = $1 and finished_at is null and lease is null and priority > gap.above and priority < gap.below
    order by priority limit 1
  ) found`,

  /** What runs of each key when keys begin to be limited. Nobody claims meanwhile. */
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
