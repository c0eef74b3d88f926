import { hot } from "../database/HotStatements.js"

// Claims as SQL. One of four takes jobs from a queue, by what its row says: whether keys are looked at, and whether claims
// are rated. Which one a pod uses, it decides by what it knows of the row; each looks at the row itself, and takes nothing
// where another is due.

const instant = (parameter: string) => `to_timestamp(${parameter}::float8 / 1000)`
const millis = (column: string) => `floor(extract(epoch from ${column}) * 1000)::float8`

/** Where a job of a key stands: begun and waiting, not begun, running. Word for word as the index of keys has it. */
const standing = (job: string) =>
  `(case when ${job}.status = 'running' then 2 when ${job}.started_at is null then 1 else 0 end)`

/** The name of the lock that claims of a queue share, and that whoever changes its settings has alone. */
export const lockOf = (schema: string, queue: string): string => `hashtextextended('${schema}.queue.' || ${queue}, 0)`

/** The columns that a claim returns, in the order in which `ClaimedRow` reads them. */
const claimed = `j.id, j.kind, j.version, j.payload, j.key, j.attempt, j.max_attempts, j.crash_count, j.meta, j.priority,
    ${millis("j.created_at")} as created, ${millis("j.run_at")} as due`

// A claim that a crash of the server undoes leaves its jobs pending, and its lease fences nobody: nothing is lost by not
// waiting for the disk, and every job begins sooner. The setting ends with the statement's transaction, as does the lock.
// A row lock alone would not do against a change of settings: those who share one may follow each other for ever, past
// whoever waits to have it alone. The lock manager lets nobody past.
const entered = (schema: string) => `
  with entered as materialized (
    select set_config('synchronous_commit', 'off', true), pg_advisory_xact_lock_shared(${lockOf(schema, "$1")})
  )`

/** What the bucket holds at this instant. A clock that went back fills nothing. */
const tokens = `least(q.rate_jobs, coalesce(q.rate_tokens, q.rate_jobs)
      + greatest(0, extract(epoch from (${instant("$2")} - q.rate_filled_at)) / extract(epoch from q.rate_per) * q.rate_jobs))`

/** The row as it stands now, not as it stood when the statement began: locking a row, however weakly, reads its last version. */
const gate = (schema: string, { keyed, rated }: Form) => `, gate as materialized (
    select not q.paused and coalesce(q.throttled_until <= ${instant("$2")}, true)
      and (q.rate_jobs is null) = ${!rated}
      and (q.key_concurrency is null and coalesce(q.keys_cooling_until <= ${instant("$2")}, true)) = ${!keyed} as open
      ${rated ? `, coalesce(${tokens}, q.rate_jobs) as tokens` : ""}
      ${keyed ? ", q.key_concurrency as most, q.key_order, q.revision" : ""}
    from entered cross join ${schema}.queue q where q.name = $1
    for ${rated ? "no key update" : "key share"} of q
  )`

/** How many may be taken. Half a token too little by rounding is a whole one. */
const most = ({ rated }: Form) =>
  rated ? "(select case when open then least($3::int, floor(tokens + 1e-6)::int) else 0 end from gate)" : "$3::int"

/** Due jobs in the order of the line, locked. */
const line = (schema: string, form: Form) => `, due as (
    select found.id, found.crash_count, row_number() over () as place
    from (
      select stretch.id, stretch.crash_count
      from entered
      cross join unnest($6::smallint[], $7::float8[], $8::uuid[]) as start(priority, run_at, id)
      cross join lateral (
        -- One stretch of the claim index: entries before the start are dead or taken, and never visited.
        select id, crash_count from ${schema}.job
        -- A queue without a row is one that nobody has changed.
        where (select open from gate) is not false and queue = $1 and status = 'pending' and priority = start.priority
          and (run_at, id) >= (${instant("start.run_at")}, start.id) and run_at <= ${instant("$2")}
        order by run_at, id
        limit ${most(form)}
        for update skip locked
      ) stretch
      limit ${most(form)}
    ) found
  )`

// Jobs by key. What runs of a key is counted in what this statement sees, which may be old: so is the key's turn, and the
// turn is compared with the one that stands. Where it is the same, nobody has claimed of this key since, and the count is
// the most that can run. A turn that somebody else holds is passed over.
const keyedLine = (schema: string, form: Form) => `, ring as materialized (
    select k.key, t.turn, gate.key_order,
      case when gate.most is null then $3::int else gate.most - (
        select count(*)::int from (
          select from ${schema}.job r
          where r.queue = $1 and r.key = k.key and r.status in ('pending', 'running') and ${standing("r")} = 2
          limit gate.most
        ) busy) end as room,
      -- Keys take turns: those behind the last one served come first.
      row_number() over (order by k.key <= $7, k.key) as place
    from gate
    cross join unnest($6::text[]) as k(key)
    left join ${schema}.key_turn t on t.queue = $1 and t.key = k.key
    where gate.open and coalesce(t.cooling_until <= ${instant("$2")}, true)
      -- Settings that changed since this statement began may have let jobs begin that it does not see.
      and gate.revision = (select q.revision from ${schema}.queue q where q.name = $1)
  ), candidate as (
    select first.id, first.priority, first.crash_count, first.round, ring.key, ring.turn, ring.place
    from ring
    cross join lateral (
      select id, priority, crash_count, row_number() over (order by begun_first, priority, run_at, id) as round
      from (
        (select j.id, j.priority, j.run_at, j.crash_count, 0 as begun_first
        from ${schema}.job j
        where j.queue = $1 and j.key = ring.key and j.status in ('pending', 'running') and ${standing("j")} = 0
          and j.run_at <= ${instant("$2")}
        order by j.priority, j.run_at, j.id limit ring.room)
        union all
        (select j.id, j.priority, j.run_at, j.crash_count, case when ring.key_order = 'none' then 0 else 1 end
        from ${schema}.job j
        where j.queue = $1 and j.key = ring.key and j.status in ('pending', 'running') and ${standing("j")} = 1
          and j.run_at <= ${instant("$2")}
          -- In strict order, whoever has begun is waited for, due or not.
          and not (ring.key_order = 'strict' and exists (
            select from ${schema}.job b
            where b.queue = $1 and b.key = ring.key and b.status in ('pending', 'running') and ${standing("b")} = 0))
        order by j.priority, j.run_at, j.id limit ring.room)
      ) either
      order by round limit ring.room
    ) first
    where ring.room > 0
    union all
    select j.id, j.priority, j.crash_count, 1, null, null, k.place
    from gate
    cross join unnest($8::uuid[]) with ordinality as k(id, place)
    join ${schema}.job j on j.id = k.id and j.status = 'pending' and j.run_at <= ${instant("$2")}
    where gate.open
  ), chosen as materialized (
    select id, key, turn, crash_count, row_number() over (order by priority, round, place, key) as place
    from candidate
    order by place limit ${most(form)}
  ), wanted as (
    select distinct key, turn from chosen where key is not null
  ), held as materialized (
    select t.key from wanted join ${schema}.key_turn t on t.queue = $1 and t.key = wanted.key and t.turn = wanted.turn
    for update of t skip locked
  ), turned as (
    update ${schema}.key_turn t set turn = t.turn + 1, turned_at = ${instant("$2")}
    from held where t.queue = $1 and t.key = held.key
    returning t.key
  ), made as (
    -- In one order, so that two who make the same turns do not wait for each other.
    insert into ${schema}.key_turn (queue, key, turn, turned_at)
    select $1, key, 1, ${instant("$2")} from wanted where turn is null order by key
    on conflict do nothing
    returning key
  ), due as (
    select j.id, chosen.crash_count, chosen.place
    from chosen join ${schema}.job j on j.id = chosen.id and j.status = 'pending' and j.run_at <= ${instant("$2")}
    where chosen.key is null or chosen.key in (select key from turned union all select key from made)
    for update of j skip locked
  )`

const take = (schema: string, more: string) => `
    update ${schema}.job j
    set status = 'running', lease = $4, pod_id = $5, attempt = least(j.attempt + 1, j.max_attempts),
      started_at = ${instant("$2")}, heartbeat_at = ${instant("$2")}, updated_at = ${instant("$2")}
    from due
    -- A job that has crashed a pod is taken alone, so that nobody else is blamed if it does so again: what comes before it
    -- is taken without it, and when it comes first it is taken without the rest.
    where j.id = due.id
      and due.place <= coalesce(
        (select case when min(place) > first then min(place) - 1 else first end
          from due cross join (select min(place) as first from due) f where crash_count > 0 group by first), $3::int)
    returning ${claimed}${more}`

/** Pays for exactly what was taken. */
const paid = (schema: string) => `, paid as (
    update ${schema}.queue q
    set rate_tokens = gate.tokens - bill.jobs,
      rate_filled_at = greatest(q.rate_filled_at, ${instant("$2")})
    from gate cross join (select count(*) as jobs from taken) bill
    where q.name = $1 and bill.jobs > 0
  )`

export interface Form {
  readonly keyed: boolean
  readonly rated: boolean
}

const claimOf = (schema: string, form: Form): string => {
  const begin = entered(schema) + gate(schema, form) + (form.keyed ? keyedLine(schema, form) : line(schema, form))
  const taken = take(schema, form.keyed ? ", due.place" : "")
  return hot(form.rated ? `${begin}, taken as (${taken}\n  )${paid(schema)}\n  select * from taken` : begin + taken)
}

/**
 * Statements that claim, and that find what to claim. Parameters of all claims: queue, now, how many, lease, pod; then, of
 * those by line, where each priority begins; of those by key, the keys, the last one served, and jobs without a key.
 */
export const make = (schema: string) => ({
  claim: (form: Form) => claims(schema)[`${form.keyed}-${form.rated}`],

  /** The first due jobs in the order of the line, for those who look at keys. */
  front: hot(`
  select stretch.id, stretch.key, stretch.priority, ${millis("stretch.run_at")} as run_at
  from unnest($4::smallint[], $5::float8[], $6::uuid[]) as start(priority, run_at, id)
  cross join lateral (
    select id, key, priority, run_at from ${schema}.job
    where queue = $1 and status = 'pending' and priority = start.priority
      and (run_at, id) >= (${instant("start.run_at")}, start.id) and run_at <= ${instant("$2")}
    order by run_at, id
    limit $3::int
  ) stretch
  limit $3::int`),

  /** Keys behind one, in their order. Each step jumps over all jobs of a key. */
  keysAfter: hot(`
  with recursive step(key, number) as (
    (select key, 1 from ${schema}.job
    where queue = $1 and status in ('pending', 'running') and key > $2 order by key limit 1)
    union all
    select (select j.key from ${schema}.job j
      where j.queue = $1 and j.status in ('pending', 'running') and j.key > step.key order by j.key limit 1), number + 1
    from step where step.key is not null and number < $3::int
  )
  select key from step where key is not null`)
})
