import { Clock, Duration, Effect, Layer, Schema } from "effect"
import type { PodId } from "../core/Ids.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { hot } from "../database/HotStatements.js"
import { named } from "../database/StatementTimes.js"
import { type Orders, type PodFacts, type PodState, Pods, type StoredPod } from "./Pods.js"

interface PodRow {
  readonly id: PodId
  readonly label: string | null
  readonly version: string
  readonly queues: ReadonlyArray<string>
  readonly kinds: ReadonlyArray<string>
  readonly slots: unknown
  readonly host: string
  readonly os_pid: number
  readonly node_version: string
  readonly draining: boolean
  readonly started_at: number
  readonly heartbeat_at: number
}

interface OrderRow {
  readonly queue: string
  readonly share: number | null
  readonly others: number
  readonly known: boolean
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
  slots: decodeSlots(row.slots),
  host: { name: row.host, pid: row.os_pid, node: row.node_version },
  draining: row.draining,
  startedAt: row.started_at,
  heartbeatAt: row.heartbeat_at
})

const instant = (parameter: string) => `pg_catalog.to_timestamp(${parameter}::float8 / 1000)`
const millis = (column: string) => `floor(extract(epoch from ${column}) * 1000)::float8`

const statementsOf = (schema: string) => ({
  beat: hot(`
  -- A beat that a crash of the server undoes is followed by the next: nobody waits for the disk.
  with hurry as materialized (
    select set_config('synchronous_commit', 'off', true)
  ), beaten as (
    update ${schema}.pod set heartbeat_at = ${instant("$2")}, slots = $3::jsonb, draining = $4
    from hurry where id = $1 returning id
  )
  select q.queue, exists (select from beaten) as known,
    (select s.slots from ${schema}.share s where s.queue = q.queue and s.pod_id = $1) as share,
    (select count(*)::int from ${schema}.pod p
      where p.id <> $1 and p.heartbeat_at > ${instant("$5")} and not p.draining and q.queue = any(p.queues)) as others
  from unnest($6::text[]) as q(queue)`),

  introduce: `
  insert into ${schema}.pod (id, heartbeat_at, slots, draining, label, version, queues, kinds, host, os_pid, node_version,
    started_at)
  values ($1, ${instant("$2")}, $3::jsonb, $4, $5, $6, $7, $8, $9, $10, $11, ${instant("$12")})
  on conflict (id) do nothing`,

  live: `
  select id, label, version, queues, kinds, slots, host, os_pid, node_version, draining,
    ${millis("started_at")} as started_at, ${millis("heartbeat_at")} as heartbeat_at
  from ${schema}.pod where heartbeat_at > ${instant("$1")} order by id`,

  leave: `
  with gone as (delete from ${schema}.pod where id = $1)
  delete from ${schema}.share where pod_id = $1`,

  removeDead: `
  with dead as (
    delete from ${schema}.pod where heartbeat_at <= ${instant("$1")} returning id
  ), freed as (
    delete from ${schema}.share s
    where s.pod_id in (select id from dead) or not exists (select from ${schema}.pod p where p.id = s.pod_id)
  )
  select id from dead order by id`
})

const make = Effect.gen(function* () {
  const { schema, sql, writes } = yield* Database
  const statements = named("pod", statementsOf(schema))

  const introduce = (facts: PodFacts, state: PodState, now: number) =>
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
        facts.startedAt
      ])
    )

  return Pods.of({
    beat: (facts, state, liveWithin) =>
      writes.watch(
        Effect.gen(function* () {
          const now = yield* Clock.currentTimeMillis
          const rows = yield* mapErrors(
            sql.unsafe<OrderRow>(statements.beat, [
              facts.id,
              now,
              JSON.stringify(state.slots),
              state.draining,
              now - Duration.toMillis(liveWithin),
              facts.queues
            ])
          )
          // The first beat of all, or the first after others took the pod for dead.
          if (rows[0]?.known !== true) yield* introduce(facts, state, now)
          return {
            shares: new Map(rows.flatMap(({ queue, share }) => (share === null ? [] : [[queue, share] as const]))),
            companions: new Map(rows.map(({ others, queue }) => [queue, others + 1]))
          } satisfies Orders
        })
      ),
    live: (within) =>
      Effect.gen(function* () {
        const since = (yield* Clock.currentTimeMillis) - Duration.toMillis(within)
        return (yield* mapErrors(sql.unsafe<PodRow>(statements.live, [since]))).map(toPod)
      }),
    leave: (id) => mapErrors(Effect.asVoid(sql.unsafe(statements.leave, [id]))),
    removeDead: (silentFor) =>
      Effect.gen(function* () {
        const since = (yield* Clock.currentTimeMillis) - Duration.toMillis(silentFor)
        return (yield* mapErrors(sql.unsafe<{ id: PodId }>(statements.removeDead, [since]))).map(({ id }) => id)
      })
  })
})

export const layer: Layer.Layer<Pods, never, Database> = Layer.effect(Pods, make)
