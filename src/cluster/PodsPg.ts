import { Clock, Duration, Effect, Layer, Schema } from "effect"
import { ChangeWatch, perClock, steadyNow } from "../core/ChangeWatch.js"
import type { PodId } from "../core/Ids.js"
import type { Topic } from "../core/Versions.js"
import { Database } from "../database/Database.js"
import { mapErrors } from "../database/DatabaseError.js"
import { Listener } from "../database/Listener.js"
import { named } from "../database/Statements.js"
import * as PodSql from "./PodSql.js"
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
  /** Only if the heartbeat asked for some, and in the first row only. */
  readonly versions?: Readonly<Partial<Record<Topic, string | null>>> | null
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

const make = Effect.gen(function* () {
  const { schema, sql, versions, writes } = yield* Database
  const listener = yield* Listener
  const statements = named("pod", PodSql.make(schema))
  for (const [topic, version] of PodSql.versions(schema)) versions.set(topic, version)
  // Made when it is needed: by then all stores have added their versions.
  let beatWithVersions: string | undefined
  const beatFor = (topics: ReadonlyArray<Topic>) => {
    if (topics.length === 0) return statements.beat
    beatWithVersions ??= named("pod", { beat: PodSql.beat(schema, versions) }).beat
    return beatWithVersions
  }
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
    beat: (facts, state, liveWithin, limit, topics = []) =>
      writes.watch(
        Effect.gen(function* () {
          const watch = watchOf(yield* Effect.clock)
          const deadAfter = limit === undefined ? null : Math.ceil(Duration.toMillis(limit))
          const quiet = yield* quietPods(liveWithin)
          const now = yield* Clock.currentTimeMillis
          const sentAt = yield* steadyNow
          const rows = yield* mapErrors(
            sql.unsafe<OrderRow>(beatFor(topics), [
              facts.id,
              now,
              JSON.stringify(state.slots),
              state.draining,
              quiet,
              facts.queues,
              state.clockOffset ?? null,
              JSON.stringify(facts.releases),
              deadAfter,
              ...(topics.length === 0 ? [] : [topics])
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
            silent: silentPods(watch).flatMap(({ id }) => (id === facts.id ? [] : [id])),
            versions: rows.find(({ versions }) => versions)?.versions ?? {}
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
          yield* Effect.forEach(
            workers.filter(({ id }) => !known.has(id)),
            (worker) => introduce(worker, worker, null, now),
            { discard: true }
          )
          return new Map(
            rows.map(({ id, others, shares }) => [
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
    holdLock: (id) => listener.holdLock(PodSql.lockKey(schema, "$1::text"), id),
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
