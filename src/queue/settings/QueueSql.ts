import { Duration } from "effect"
import * as AdvisoryLock from "../../database/AdvisoryLock.js"
import { instant, millis, span } from "../../database/SqlInstant.js"
import { lockWait } from "../../database/Statements.js"
import { coolDownResetAfter, type QueueRow } from "./QueueRow.js"
import type { KeyOrder } from "./QueueSettings.js"

// Converts rows of the queue table to and from SQL. Times and durations are passed as milliseconds.

// Claims of a queue hold this advisory lock shared, a settings change holds it exclusively. A row lock is not enough:
// successive shared holders could starve the exclusive waiter for ever. The lock manager queues fairly. The lock ends
// with the transaction. Parameter 1 is the queue.
const lockKey = (schema: string, queue = "$1") => AdvisoryLock.key(schema, "queue", `${queue}::text`)

/** Part of a claim: no settings change commits between it and the end of the claim. */
export const sharedLock = (schema: string): string => `pg_advisory_xact_lock_shared(${lockKey(schema)})`

/** The same without waiting: whether no settings change is in progress. */
export const triedLock = (schema: string, queue: string): string =>
  `pg_try_advisory_xact_lock_shared(${lockKey(schema, queue)})`

const named = (column: string) => `${millis(column)} as ${column}`

export const columns = `name, max_workers, paused, ${named("retain_done")}, ${named("retain_dead")}, backoff_enabled,
  ${named("backoff_base")}, ${named("backoff_max")}, rate_jobs, ${named("rate_per")}, rate_tokens,
  ${named("rate_filled_at")}, key_concurrency, key_order, depth_cap, ${named("throttled_until")}, throttle_attempts,
  ${named("calm_since")}, ${named("keys_cooling_until")}, declared, revision`

export interface QueueColumns {
  readonly name: string
  readonly max_workers: number
  readonly paused: boolean
  readonly retain_done: number | null
  readonly retain_dead: number | null
  readonly backoff_enabled: boolean
  readonly backoff_base: number
  readonly backoff_max: number
  readonly rate_jobs: number | null
  readonly rate_per: number | null
  readonly rate_tokens: number | null
  readonly rate_filled_at: number | null
  readonly key_concurrency: number | null
  readonly key_order: KeyOrder | null
  readonly depth_cap: number | null
  readonly throttled_until: number | null
  readonly throttle_attempts: number
  readonly calm_since: number | null
  readonly keys_cooling_until: number | null
  readonly declared: QueueRow["declared"]
  readonly revision: number
}

const optionalSpan = (value: number | null) => (value === null ? undefined : Duration.millis(value))

export const toRow = (row: QueueColumns): QueueRow => ({
  name: row.name,
  maxWorkers: row.max_workers,
  paused: row.paused,
  retainDone: optionalSpan(row.retain_done),
  retainDead: optionalSpan(row.retain_dead),
  backoff: {
    enabled: row.backoff_enabled,
    base: Duration.millis(row.backoff_base),
    max: Duration.millis(row.backoff_max)
  },
  rate:
    row.rate_jobs === null || row.rate_per === null
      ? undefined
      : { jobs: row.rate_jobs, per: Duration.millis(row.rate_per) },
  perKey:
    row.key_concurrency === null || row.key_order === null
      ? undefined
      : { concurrency: row.key_concurrency, order: row.key_order },
  depthCap: row.depth_cap ?? undefined,
  throttledUntil: row.throttled_until ?? undefined,
  throttleAttempts: row.throttle_attempts,
  calmSince: row.calm_since ?? undefined,
  keysCoolingUntil: row.keys_cooling_until ?? undefined,
  bucket:
    row.rate_tokens === null || row.rate_filled_at === null
      ? undefined
      : { tokens: row.rate_tokens, filledAt: row.rate_filled_at },
  declared: row.declared,
  revision: row.revision
})

/** Cool-down in seconds if the upstream gives no delay: the queue's own backoff if it has one. */
const pause = (now: string) => `case when not q.backoff_enabled then 60 else least(extract(epoch from q.backoff_max),
      extract(epoch from q.backoff_base) * power(2, least(${attempts(now)}, 30))) end`

const attempts = (now: string) =>
  `(case when q.calm_since <= ${instant(now)} - interval '${coolDownResetAfter} milliseconds' then 0 else q.throttle_attempts end)`

const isCooling = (now: string) => `coalesce(q.throttled_until > ${instant(now)}, false)`

/** Attempts whose lease is still valid, with the delay that the upstream asked for. */
const held = (schema: string) => `unnest($1::uuid[], $2::uuid[], $3::float8[]) as e(id, lease, after)
    join ${schema}.job j on j.id = e.id and j.lease = e.lease`

export const make = (schema: string) => ({
  declareHeld: `
  insert into ${schema}.queue (name, created_at, updated_at)
  select distinct j.queue, ${instant("$4")}, ${instant("$4")} from ${held(schema)} order by 1
  on conflict do nothing`,

  /**
   * A delay given by the upstream is used as is. Without one, the backoff curve applies; while the queue is cooling
   * down, another such job neither extends the cool-down nor counts.
   */
  coolQueue: `
  with ${lockWait("$6::text")}
  update ${schema}.queue q
  set throttled_until = greatest(${instant("$4")} + ${span("asked.after")}, case
      when ${isCooling("$4")} then q.throttled_until
      when asked.silent then ${instant("$4")} + make_interval(secs => ${pause("$4")}) end),
    throttle_attempts = case when ${isCooling("$4")} then q.throttle_attempts
      else least(${attempts("$4")} + asked.silent::int, 1000) end,
    calm_since = case when ${isCooling("$4")} then q.calm_since end
  from lock_wait, (
    select j.queue, max(e.after) as after, max(e.after) is null as silent from ${held(schema)} group by 1
  ) asked
  where q.name = asked.queue
  returning q.name, pg_notify($5, q.name)`,

  /** The queue's row records that some key is cooling down, so that claims check keys only then. */
  coolKeys: `
  with ${lockWait("$6::text")}, asked as materialized (
    select j.queue, j.key, max(coalesce(e.after, 60000)) as after from lock_wait, ${held(schema)} where j.key is not null group by 1, 2
  ), cooled as (
    insert into ${schema}.key_turn as t (queue, key, turn, turned_at, taken, cooling_until)
    select queue, key, 1, ${instant("$4")}, '{}', ${instant("$4")} + ${span("after")} from asked order by queue, key
    on conflict (queue, key) do update
    set turn = t.turn + 1, cooling_until = greatest(t.cooling_until, excluded.cooling_until)
  )
  update ${schema}.queue q set keys_cooling_until = greatest(q.keys_cooling_until, ${instant("$4")} + ${span("longest.after")})
  from (select queue, max(after) as after from asked group by 1) longest
  where q.name = longest.queue
  returning q.name, pg_notify($5, q.name)`,

  /** Starts the calm period at the first success after a cool-down, or at a later one while another session has locked the queue. */
  calm: `
  update ${schema}.queue set calm_since = ${instant("$2")}
  where name in (
    select name from ${schema}.queue
    where name = any($1::text[]) and throttle_attempts > 0 and calm_since is null
      and coalesce(throttled_until <= ${instant("$2")}, true)
    order by name for no key update skip locked)`,

  /** Deletes the turns of keys without active jobs, in bounded ranges after a given key. */
  purgeTurns: `
  with seen as (
    select queue, key, turn from ${schema}.key_turn t
    where (t.queue, t.key) > ($1, $2) order by t.queue, t.key limit $4
  ), gone as (
    delete from ${schema}.key_turn t using seen
    where t.queue = seen.queue and t.key = seen.key and t.turn = seen.turn
      and t.turned_at < ${instant("$3")} and coalesce(t.cooling_until < ${instant("$3")}, true)
      and not exists (select from unnest(t.taken) as x(id) join ${schema}.job j on j.id = x.id where j.finished_at is null)
    returning 1
  )
  select (select count(*)::int from gone) as gone, count(*)::int as seen,
    (select queue from seen order by queue desc, key desc limit 1) as queue,
    (select key from seen order by queue desc, key desc limit 1) as key
  from seen`,

  declare: `
  insert into ${schema}.queue (name, created_at, updated_at)
  select name, ${instant("$2")}, ${instant("$2")} from unnest($1::text[]) as name order by name
  on conflict do nothing`,

  all: `select ${columns} from ${schema}.queue order by name collate "C"`,

  some: `select ${columns} from ${schema}.queue where name = any($1::text[])`,

  /** Waits for running claims and blocks later ones until the transaction ends. */
  exclusiveLock: `select pg_advisory_xact_lock(${lockKey(schema)})`,

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
  on conflict (queue, key) do update set turn = t.turn + 1, turned_at = excluded.turned_at, taken = excluded.taken`,

  /** Locks the row until the transaction ends. */
  locked: `select ${columns} from ${schema}.queue where name = $1 for update`,

  write: `
  update ${schema}.queue set max_workers = $2, paused = $3, retain_done = ${span("$4")}, retain_dead = ${span("$5")},
    backoff_enabled = $6, backoff_base = ${span("$7")}, backoff_max = ${span("$8")}, rate_jobs = $9,
    rate_per = ${span("$10")}, rate_tokens = $11, rate_filled_at = ${instant("$12")}, key_concurrency = $13,
    key_order = $14, depth_cap = $15, throttled_until = ${instant("$16")}, throttle_attempts = $17,
    calm_since = ${instant("$18")}, revision = $19, updated_at = ${instant("$20")}, declared = $21::jsonb
  where name = $1`
})

const spanOf = (value: Duration.Duration | undefined) => (value === undefined ? null : Duration.toMillis(value))

export const parameters = (row: QueueRow, now: number): ReadonlyArray<unknown> => [
  row.name,
  row.maxWorkers,
  row.paused,
  spanOf(row.retainDone),
  spanOf(row.retainDead),
  row.backoff.enabled,
  spanOf(row.backoff.base),
  spanOf(row.backoff.max),
  row.rate?.jobs ?? null,
  spanOf(row.rate?.per),
  row.bucket?.tokens ?? null,
  row.bucket?.filledAt ?? null,
  row.perKey?.concurrency ?? null,
  row.perKey?.order ?? null,
  row.depthCap ?? null,
  row.throttledUntil ?? null,
  row.throttleAttempts,
  row.calmSince ?? null,
  row.revision,
  now,
  JSON.stringify(row.declared)
]
