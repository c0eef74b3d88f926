import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as Nightshift from "../support/Nightshift.js"
import { holdersOf } from "../support/PodLock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const app = fileURLToPath(new URL("../journeys/fixtures/cluster-app.mjs", import.meta.url))
const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

interface Pod extends Nightshift.Running {
  readonly id: string
}

const quick = {
  NIGHTSHIFT_LEASE: "3s",
  NIGHTSHIFT_POD_HEARTBEAT: "500ms",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_REAPER_INTERVAL: "500ms"
}

/** Starts two processes. */
const twoPods = (staleAfter: string) =>
  Effect.gen(function* () {
    const url = yield* DatabaseUrl
    const { sql } = yield* Database
    const cwd = yield* Nightshift.folder
    yield* sql`create table diary (job uuid not null, what text not null)`
    const start = Effect.gen(function* () {
      const running = yield* Nightshift.start(["serve", "--app", app, "--port", "0", "--queues", "work"], {
        cwd,
        env: { DATABASE_URL: Redacted.value(url), LOG_LEVEL: "info", QUEUE_STALE_AFTER: staleAfter, ...quick }
      })
      const [, id = ""] = yield* running.said(/process (\S+) started: serving work/)
      return { ...running, id } satisfies Pod
    })
    return yield* Effect.all([start, start])
  })

/** Polls until a query has rows. */
const rowsOf = <A, E, R>(query: Effect.Effect<ReadonlyArray<A>, E, R>) =>
  Effect.repeat(query, { until: (rows) => rows.length > 0, schedule: Schedule.spaced("50 millis") }).pipe(
    Effect.zipRight(query)
  )

/** Starts a job that does not end. Returns the process that runs it, and the other one. */
const startJob = (pods: ReadonlyArray<Pod>) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const queue = yield* Queue
    yield* queue.enqueue([{ kind: "long", version: 1, queue: "work", payload: { seconds: 3_600 }, attempts: 5 }])
    const [row] = yield* rowsOf(
      sql<{ pod: string }>`select j.pod_id as pod from nightshift.job j join diary on diary.job = j.id
        where j.status = 'running'`
    )
    const [owner, other] = [pods.find(({ id }) => id === row?.pod), pods.find(({ id }) => id !== row?.pod)]
    if (owner === undefined || other === undefined) return yield* Effect.dieMessage("no process runs the job")
    return { owner, other }
  })

/** Completes when the row of a process says that it holds its lock. */
const locked = ({ id }: Pod) =>
  Effect.flatMap(Database, ({ sql }) =>
    rowsOf(sql`select from nightshift.pod where id = ${id} and dead_after_ms is not null`)
  )

/** Completes when a process has sent this many more heartbeats. */
const beats = ({ id }: Pod, count: number) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const seen = new Set<string>()
    const look = Effect.map(
      sql<{ beat: string }>`select heartbeat_at::text as beat from nightshift.pod where id = ${id}`,
      (rows) => {
        for (const { beat } of rows) seen.add(beat)
        return seen.size > count
      }
    )
    yield* Effect.repeat(look, { until: (is) => is, schedule: Schedule.spaced("50 millis") })
  })

/** Completes when both processes could declare each other dead: undisturbed for NIGHTSHIFT_LEASE, which is six heartbeats. */
const armed = (pods: ReadonlyArray<Pod>) =>
  Effect.gen(function* () {
    for (const pod of pods) yield* locked(pod)
    for (const pod of pods) yield* beats(pod, 8)
  })

/** Two processes, one of which runs a job. */
const runningJob = (staleAfter: Parameters<typeof twoPods>[0]) =>
  Effect.gen(function* () {
    const pods = yield* twoPods(staleAfter)
    const roles = yield* startJob(pods)
    yield* armed(pods)
    return roles
  })

const jobs = Effect.flatMap(
  Database,
  ({ sql }) => sql<{ pod: string; crashes: number }>`
    select pod_id as pod, crash_count as crashes from nightshift.job where status = 'running'`
)

describe("a process with a running job", () => {
  it.scopedLive(
    "that is killed with -9 loses it to another process without waiting for QUEUE_STALE_AFTER",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        // The test ends long before this limit, or not at all.
        const { other, owner } = yield* runningJob("1h")
        yield* owner.signal("SIGKILL")
        yield* owner.finished
        yield* other.said(
          new RegExp(`process ${owner.id} is dead: its database session has ended .* instead of after 1h`)
        )
        yield* rowsOf(sql`select from diary having count(*) = 2`)
        expect(yield* jobs).toEqual([{ pod: other.id, crashes: 1 }])
        expect(other.printed()).toMatch(/rescuer recover: rescued=1 poisoned=0 cancelled=0/)
        expect(other.printed()).not.toMatch(/reaper recover/)
      }).pipe(Effect.provide(house)),
    120_000
  )

  it.scopedLive(
    "that is frozen keeps it until QUEUE_STALE_AFTER, because the server keeps its session",
    () =>
      Effect.gen(function* () {
        const { other, owner } = yield* runningJob("8s")
        yield* owner.signal("SIGSTOP")
        yield* other.said(/reaper recover: rescued=1/)
        expect(other.printed()).not.toMatch(/is dead/)
      }).pipe(Effect.provide(house)),
    120_000
  )

  it.scopedLive(
    "that only loses the session of its lock keeps it, and takes the lock again",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const { other, owner } = yield* runningJob("1h")
        // Ends each session that takes the lock, for ten heartbeats: longer than a dead process would be silent.
        const endSessions = Effect.flatMap(holdersOf(owner.id), (pids) =>
          Effect.forEach(pids, (pid) => sql`select pg_terminate_backend(${pid}, 5000)`)
        )
        yield* Effect.raceFirst(beats(owner, 10), Effect.repeat(endSessions, Schedule.spaced("200 millis")))
        yield* locked(owner)
        expect(yield* jobs).toEqual([{ pod: owner.id, crashes: 0 }])
        expect(other.printed()).not.toMatch(/is dead/)
      }).pipe(Effect.provide(house)),
    120_000
  )
})
