import type { Topic } from "../core/Versions.js"
import * as AdvisoryLock from "../database/AdvisoryLock.js"
import type { VersionSql } from "../database/Database.js"
import * as ServerIdentity from "../database/ServerIdentity.js"
import { instant, micros, millis } from "../database/SqlInstant.js"
import { hot } from "../database/Statements.js"

const podColumns = `id, label, version, queues, kinds, releases, slots, host, os_pid, connections, node_version, draining,
    server, clock_offset, ${millis("started_at")} as started_at, ${millis("heartbeat_at")} as heartbeat_at,
    ${micros("heartbeat_at")}::text as beat`

/** SQL for the key of a pod's lock. `id` is an SQL expression of type text. */
export const lockKey = (schema: string, id: string) => AdvisoryLock.key(schema, "process", id)

/**
 * Whether no session holds the lock of a pod. Takes the lock shared, so that concurrent observers do not block each other,
 * and until the end of the statement, so that it works through a pooler.
 */
const isFree = (schema: string, id: string) => `pg_catalog.pg_try_advisory_xact_lock_shared(${lockKey(schema, id)})`

/**
 * Whether a pod `p` has sent no heartbeat since `quiet` was read, and its lock is free. Only while the pod `$3` holds its own
 * lock: not after all locks were lost at once. The pod cannot take its lock again before the statement has committed.
 */
const isUnlocked = (schema: string) => `p.id = quiet.id and ${micros("p.heartbeat_at")} = quiet.beat
      and case when p.id = quiet.id and p.dead_after_ms is not null and ${ServerIdentity.isHere("p.server")}
        then not ${isFree(schema, "$3::uuid::text")} and ${isFree(schema, "p.id::text")} else false end`

/** Whether the pod of a share does not exist. */
const isOrphaned = (schema: string, share: string) =>
  `not exists (select from ${schema}.pod p where p.id = ${share}.pod_id)`

/** Deletes pods by a condition on `p` and `quiet`, and the shares of pods that do not exist. */
const removal = (schema: string, condition: string) => `
  with dead as (
    delete from ${schema}.pod p using unnest($1::uuid[], $2::bigint[]) as quiet(id, beat)
    where ${condition}
    returning p.id
  ), freed as (
    delete from ${schema}.share s
    where s.pod_id in (select id from dead) or ${isOrphaned(schema, "s")}
  )
  select id from dead order by id`

/** What the leader assigns slots by, and whether there is something to remove: a pod without a heartbeat, or a share of no pod. */
export const versions = (schema: string): ReadonlyArray<readonly [Topic, VersionSql]> => [
  [
    "slots",
    ({ quiet }) => `md5(concat_ws('|', ${quiet}::text,
      (select string_agg(concat_ws(',', p.id, p.draining, p.queues), ';' order by p.id) from ${schema}.pod p),
      (select string_agg(concat_ws(',', s.queue, s.pod_id, s.slots), ';' order by s.queue, s.pod_id) from ${schema}.share s)))`
  ],
  [
    "dead",
    ({ quiet }) => `case when cardinality(${quiet}) = 0
      and not exists (select from ${schema}.share s where ${isOrphaned(schema, "s")}) then '' end`
  ]
]

/** The versions of the topics `$10`, in the first row. */
const versionColumn = (given: ReadonlyMap<Topic, VersionSql>) => {
  const fields = [...given].map(([topic, sql]) => {
    const version = sql({ now: "$2::float8", queues: "$6::text[]", quiet: "$5::uuid[]" })
    return `'${topic}', case when '${topic}' = any($10::text[]) then ${version} end`
  })
  return `case when coalesce(q.place, 1) = 1 then jsonb_build_object(${fields.join(", ")}) end as versions,`
}

/** The heartbeat, alone or with versions. Alone it locks no other table than those of the cluster. */
export const beat = (schema: string, given?: ReadonlyMap<Topic, VersionSql>) =>
  hot(`
  -- Commits without waiting for the disk: a heartbeat lost in a server crash is replaced by the next one.
  with hurry as materialized (
    select set_config('synchronous_commit', 'off', true)
  ), beaten as (
    update ${schema}.pod set heartbeat_at = ${instant("$2")}, slots = $3::jsonb, draining = $4, clock_offset = $7,
      server = ${ServerIdentity.expression},
      -- Only if this server holds the lock for this process: the lock may be on another server during a failover.
      dead_after_ms = case when not ${isFree(schema, "$1::uuid::text")} then $9::int end
    from hurry where id = $1 returning id
  )
  select q.queue, exists (select from beaten) as known,
    case when coalesce(q.place, 1) = 1 then (
      select jsonb_agg(jsonb_build_array(p.id, ${micros("p.heartbeat_at")}::text,
        case when ${ServerIdentity.isHere("p.server")} then p.dead_after_ms end))
      from ${schema}.pod p
    ) end as beats,
    ${given === undefined ? "" : versionColumn(given)}
    (select s.slots from ${schema}.share s where s.queue = q.queue and s.pod_id = $1) as share,
    serving.others, serving.releases
  -- One row even without queues, so that the pod learns whether its row exists.
  from (values (1)) one left join unnest($6::text[]) with ordinality as q(queue, place) on true
  cross join lateral (
    select count(*)::int as others, jsonb_agg(distinct p.releases) filter (where p.releases <> $8::jsonb) as releases
    from ${schema}.pod p
    where p.id <> all($5::uuid[]) and p.id <> $1 and not p.draining and q.queue = any(p.queues)
  ) serving`)

export const make = (schema: string) => ({
  beat: beat(schema),

  introduce: `
  insert into ${schema}.pod (id, heartbeat_at, slots, draining, label, version, queues, kinds, host, os_pid, node_version,
    started_at, clock_offset, connections, releases, server, dead_after_ms)
  values ($1, ${instant("$2")}, $3::jsonb, $4, $5, $6, $7, $8, $9, $10, $11, ${instant("$12")}, $13, $14, $15::jsonb,
    ${ServerIdentity.expression}, case when not ${isFree(schema, "$1::uuid::text")} then $16::int end)
  on conflict (id) do nothing`,

  beatRemote: `
  with hurry as materialized (
    select set_config('synchronous_commit', 'off', true)
  ), worker as materialized (
    select id, slots, queues, kinds from jsonb_to_recordset($1::jsonb) as w(id uuid, slots jsonb, queues text[], kinds text[])
  ), beaten as (
    update ${schema}.pod p set heartbeat_at = ${instant("$2")}, slots = w.slots, queues = w.queues, kinds = w.kinds
    from hurry, worker w where p.id = w.id returning p.id
  )
  select w.id, exists (select from beaten b where b.id = w.id) as known,
    (select jsonb_object_agg(s.queue, s.slots) from ${schema}.share s where s.pod_id = w.id) as shares,
    (select jsonb_object_agg(q.queue, (
      select count(*) from ${schema}.pod p
      where p.id <> w.id and p.id <> all($3::uuid[]) and not p.draining and q.queue = any(p.queues)))
    from unnest(w.queues) as q(queue)) as others
  from worker w`,

  live: `
  select ${podColumns} from ${schema}.pod where heartbeat_at > ${instant("$1")} order by id`,

  all: `
  select ${podColumns} from ${schema}.pod order by id`,

  beats: `
  select id, ${micros("heartbeat_at")}::text as beat from ${schema}.pod`,

  leave: `
  with deleted as (delete from ${schema}.pod where id = $1)
  delete from ${schema}.share where pod_id = $1`,

  // Only if the heartbeat is unchanged since it was read; a pod with a newer heartbeat is alive.
  removeDead: removal(schema, `p.id = quiet.id and ${micros("p.heartbeat_at")} = quiet.beat`),

  unlocked: `
  select p.id from ${schema}.pod p, unnest($1::uuid[], $2::bigint[]) as quiet(id, beat) where ${isUnlocked(schema)}`,

  removeUnlocked: removal(schema, isUnlocked(schema))
})
