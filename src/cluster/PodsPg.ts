import { Clock, Duration, Effect, Layer, Schema } from "effect"
import { ChangeWatch, perClock, steadyNow } from "../core/ChangeWatch.js"
import type { PodId } from "../core/Ids.js"
import * as AdvisoryLock from "../database/AdvisoryLock.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { Listener } from "../database/Listener.js"
import * as ServerIdentity from "../database/ServerIdentity.js"
import { instant, micros, millis } from "../database/SqlInstant.js"
import { hot, named } from "../database/Statements.js"
import {
  type Assignment,
  betweenTests,
  type PodFacts,
  type PodState,
  Pods,
  type Releases,
  type StoredPod
} from "./Pods.js"

interface PodRow {
  readonly id: PodId
  readonly label: string | null
  readonly version: string
  readonly queues: ReadonlyArray<string>
  readonly kinds: ReadonlyArray<string>
  readonly releases: Releases
  readonly slots: unknown
  readonly host: string
  readonly os_pid: number
  readonly connections: number | null
  readonly node_version: string
  readonly draining: boolean
  readonly started_at: number
  readonly heartbeat_at: number
  readonly beat: string
  readonly server: string | null
  readonly clock_offset: number | null
}

interface OrderRow {
  /** Null if the pod serves no queue. */
  readonly queue: string | null
  readonly share: number | null
  readonly others: number
  readonly releases: ReadonlyArray<Releases> | null
  readonly known: boolean
  /** Of all pods: id, heartbeat and dead_after_ms, which is null unless it is valid for this server. In the first row only. */
  readonly beats: ReadonlyArray<readonly [PodId, string, number | null]> | null
}

interface RemoteRow {
  readonly id: PodId
  readonly known: boolean
  /** Absent if the worker has none. */
  readonly shares: Readonly<Record<string, number>> | null
  /** Other pods, by queue. */
  readonly others: Readonly<Record<string, number>> | null
}

const decodeSlots = Schema.decodeUnknownSync(
  Schema.Array(Schema.Struct({ queue: Schema.String, wanted: Schema.Int, have: Schema.Int, busy: Schema.Int }))
)

const toPod = (row: PodRow): StoredPod => ({
  id: row.id,
  label: row.label ?? undefined,
  version: row.version,
  queues: row.queues,
  kinds: row.kinds,
  releases: row.releases,
  slots: decodeSlots(row.slots),
  host: { name: row.host, pid: row.os_pid, node: row.node_version },
  connections: row.connections ?? undefined,
  draining: row.draining,
  startedAt: row.started_at,
  heartbeatAt: row.heartbeat_at,
  server: row.server ?? undefined,
  clockOffset: row.clock_offset ?? undefined
})

const podColumns = `id, label, version, queues, kinds, releases, slots, host, os_pid, connections, node_version, draining,
    server, clock_offset, ${millis("started_at")} as started_at, ${millis("heartbeat_at")} as heartbeat_at,
    ${micros("heartbeat_at")}::text as beat`

/** SQL for the key of a pod's lock. `id` is an SQL expression of type text. */
const lockKey = (schema: string, id: string) => AdvisoryLock.key(schema, "process", id)

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

/** Deletes pods by a condition on `p` and `quiet`, and the shares of pods that do not exist. */
const removal = (schema: string, condition: string) => `
  with dead as (
    delete from ${schema}.pod p using unnest($1::uuid[], $2::bigint[]) as quiet(id, beat)
    where ${condition}
    returning p.id
  ), freed as (
    delete from ${schema}.share s
    where s.pod_id in (select id from dead) or not exists (select from ${schema}.pod p where p.id = s.pod_id)
  )
  select id from dead order by id`

const statementsOf = (schema: string) => ({
  beat: hot(`
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
    (select s.slots from ${schema}.share s where s.queue = q.queue and s.pod_id = $1) as share,
    serving.others, serving.releases
  -- One row even without queues, so that the pod learns whether its row exists.
  from (values (1)) one left join unnest($6::text[]) with ordinality as q(queue, place) on true
  cross join lateral (
    select count(*)::int as others, jsonb_agg(distinct p.releases) filter (where p.releases <> $8::jsonb) as releases
    from ${schema}.pod p
    where p.id <> all($5::uuid[]) and p.id <> $1 and not p.draining and q.queue = any(p.queues)
  ) serving`),

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

const make = Effect.gen(function* () {
  const { schema, sql, writes } = yield* Database
  const listener = yield* Listener
  const statements = named("pod", statementsOf(schema))
  const watchOf = perClock(() => ({
    beats: new ChangeWatch<PodId, string>(),
    readAt: Number.NEGATIVE_INFINITY,
    /** When the last heartbeat of this process was sent, and what it returned of pods that held their lock. */
    sentAt: Number.NEGATIVE_INFINITY,
    lockHolders: [] as ReadonlyArray<{ readonly id: PodId; readonly beat: string; readonly deadAfter: number }>,
    /** The heartbeats of the silent pods whose lock was free at the last test. */
    unlocked: new ChangeWatch<PodId, string>()
  }))
  type Watch = ReturnType<typeof watchOf>

  /** Compares the heartbeats of all pods with the previous read. Returns the rows and when the query was started. */
  const readBeats = <Row extends Pick<PodRow, "id" | "beat">>(statement: string) =>
    Effect.gen(function* () {
      const watch = watchOf(yield* Effect.clock)
      const sentAt = yield* steadyNow
      const rows = yield* mapErrors(sql.unsafe<Row>(statement))
      watch.readAt = yield* steadyNow
      watch.beats.record(
        rows.map(({ beat, id }) => [id, beat]),
        watch.readAt
      )
      return { sentAt, rows, beats: watch.beats }
    })

  /** Returns the pods without a heartbeat for `within`. */
  const quietPods = (within: Duration.Duration) =>
    Effect.gen(function* () {
      const watch = watchOf(yield* Effect.clock)
      const now = yield* steadyNow
      const limit = Duration.toMillis(within)
      if (now - watch.readAt >= limit / 3) yield* readBeats(statements.beats)
      return watch.beats.quietFor(limit, now).map(([id]) => id)
    })

  const recordBeats = (watch: Watch, beats: NonNullable<OrderRow["beats"]>, sentAt: number) =>
    Effect.map(steadyNow, (now) => {
      watch.readAt = now
      watch.sentAt = sentAt
      watch.lockHolders = beats.flatMap(([id, beat, deadAfter]) => (deadAfter === null ? [] : { id, beat, deadAfter }))
      watch.beats.record(
        beats.map(([id, beat]) => [id, beat]),
        now
      )
    })

  /** The pods that had been silent for more than half of their `deadAfter` when the last heartbeat of this process was sent. */
  const silentPods = (watch: Watch) =>
    watch.lockHolders.flatMap(({ id, beat, deadAfter }) => {
      const silentFor = watch.beats.unchangedFor(id, watch.sentAt)
      return silentFor > deadAfter / 2 ? [{ id, beat, deadAfter, silentFor }] : []
    })

  /** Runs a statement on these pods, of which it may need the id of the observer. Returns those that it found. */
  const among = (
    statement: string,
    quiet: ReadonlyArray<readonly [PodId, string]>,
    ...observer: ReadonlyArray<PodId>
  ) =>
    Effect.map(
      mapErrors(
        sql.unsafe<{ id: PodId }>(statement, [quiet.map(([id]) => id), quiet.map(([, beat]) => beat), ...observer])
      ),
      (found) => found.map(({ id }) => id)
    )

  const introduce = (facts: PodFacts, state: PodState, deadAfter: number | null, now: number) =>
    mapErrors(
      sql.unsafe(statements.introduce, [
        facts.id,
        now,
        JSON.stringify(state.slots),
        state.draining,
        facts.label ?? null,
        facts.version,
        facts.queues,
        facts.kinds,
        facts.host.name,
        facts.host.pid,
        facts.host.node,
        facts.startedAt,
        state.clockOffset ?? null,
        facts.connections ?? null,
        JSON.stringify(facts.releases),
        deadAfter
      ])
    )

  return Pods.of({
    beat: (facts, state, liveWithin, limit) =>
      writes.watch(
        Effect.gen(function* () {
          const watch = watchOf(yield* Effect.clock)
          const deadAfter = limit === undefined ? null : Math.ceil(Duration.toMillis(limit))
          const quiet = yield* quietPods(liveWithin)
          const now = yield* Clock.currentTimeMillis
          const sentAt = yield* steadyNow
          const rows = yield* mapErrors(
            sql.unsafe<OrderRow>(statements.beat, [
              facts.id,
              now,
              JSON.stringify(state.slots),
              state.draining,
              quiet,
              facts.queues,
              state.clockOffset ?? null,
              JSON.stringify(facts.releases),
              deadAfter
            ])
          )
          yield* recordBeats(watch, rows.find(({ beats }) => beats !== null)?.beats ?? [], sentAt)
          // The first heartbeat, or the first one after another pod removed this pod as dead.
          if (rows[0]?.known !== true) yield* introduce(facts, state, deadAfter, now)
          return {
            shares: new Map(
              rows.flatMap(({ queue, share }) => (queue === null || share === null ? [] : [[queue, share] as const]))
            ),
            servingPods: new Map(rows.flatMap(({ others, queue }) => (queue === null ? [] : [[queue, others + 1]]))),
            otherReleases: new Map(
              rows.flatMap(({ queue, releases }) => (queue === null || releases === null ? [] : [[queue, releases]]))
            ),
            silent: silentPods(watch).flatMap(({ id }) => (id === facts.id ? [] : [id]))
          } satisfies Assignment
        })
      ),
    beatRemote: (workers, liveWithin) =>
      writes.watch(
        Effect.gen(function* () {
          if (workers.length === 0) return new Map()
          const quiet = yield* quietPods(liveWithin)
          const now = yield* Clock.currentTimeMillis
          const given = workers.map(({ id, kinds, queues, slots }) => ({ id, slots, queues, kinds }))
          const rows = yield* mapErrors(
            sql.unsafe<RemoteRow>(statements.beatRemote, [JSON.stringify(given), now, quiet])
          )
          const known = new Set(rows.filter((row) => row.known).map(({ id }) => id))
          const fresh = workers.filter(({ id, joins }) => joins && !known.has(id))
          yield* Effect.forEach(fresh, (worker) => introduce(worker, worker, null, now), { discard: true })
          for (const { id } of fresh) known.add(id)
          return new Map(
            rows
              .filter(({ id }) => known.has(id))
              .map(({ id, others, shares }) => [
                id,
                {
                  shares: new Map(Object.entries(shares ?? {})),
                  servingPods: new Map(Object.entries(others ?? {}).map(([queue, count]) => [queue, count + 1]))
                }
              ])
          )
        })
      ),
    present: (within) =>
      Effect.map(readBeats<PodRow>(statements.all), ({ sentAt, beats, rows }) => {
        const quiet = new Set(beats.quietFor(Duration.toMillis(within), sentAt).map(([id]) => id))
        return rows.filter(({ id }) => !quiet.has(id)).map(toPod)
      }),
    live: (within) =>
      Effect.gen(function* () {
        const since = (yield* Clock.currentTimeMillis) - Duration.toMillis(within)
        return (yield* mapErrors(sql.unsafe<PodRow>(statements.live, [since]))).map(toPod)
      }),
    leave: (id) => mapErrors(Effect.asVoid(sql.unsafe(statements.leave, [id]))),
    removeDead: (silentFor) =>
      Effect.gen(function* () {
        const { sentAt, beats } = yield* readBeats(statements.beats)
        return yield* among(statements.removeDead, beats.quietFor(Duration.toMillis(silentFor), sentAt))
      }),
    holdLock: (id) => listener.holdLock(lockKey(schema, "$1::text"), id),
    removeUnlocked: (by) =>
      Effect.gen(function* () {
        const watch = watchOf(yield* Effect.clock)
        const silent = silentPods(watch)
        if (silent.length === 0) return []
        const quiet = silent.map(({ id, beat }) => [id, beat] as const)
        const free = new Set(yield* among(statements.unlocked, quiet, by))
        watch.unlocked.record(
          quiet.filter(([id]) => free.has(id)),
          watch.sentAt
        )
        // A process that lives takes its lock again, or sends a heartbeat, between two tests.
        const dead = silent.filter(
          ({ id, deadAfter, silentFor }) =>
            silentFor >= deadAfter && watch.unlocked.unchangedFor(id, watch.sentAt) >= deadAfter * betweenTests
        )
        if (dead.length === 0) return []
        const removed = new Set(
          yield* among(
            statements.removeUnlocked,
            dead.map(({ id, beat }) => [id, beat]),
            by
          )
        )
        return dead.flatMap(({ id, silentFor }) =>
          removed.has(id) ? [{ id, silentFor: Duration.millis(silentFor) }] : []
        )
      })
  })
})

export const layer: Layer.Layer<Pods, never, Database | Listener> = Layer.effect(Pods, make)
