import { fileURLToPath } from "node:url"
import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer, Redacted, Schedule } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as Nightshift from "../support/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Real processes on a real PostgreSQL. Timeouts are shortened by settings; the tests observe the database, the API and
// the log, like an operator.

const app = fileURLToPath(new URL("../journeys/fixtures/cluster-app.mjs", import.meta.url))
const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

/** Each test starts and kills several processes, which takes minutes on a busy machine. */
const patient = 600_000

const quick = {
  NIGHTSHIFT_LEASE: "3s",
  NIGHTSHIFT_POD_HEARTBEAT: "500ms",
  NIGHTSHIFT_REBALANCE_INTERVAL: "500ms",
  QUEUE_HEARTBEAT: "500ms",
  QUEUE_STALE_AFTER: "3s",
  QUEUE_REAPER_INTERVAL: "500ms"
}

interface Pod extends Nightshift.Running {
  readonly id: string
  readonly get: (path: string) => Effect.Effect<string>
  readonly post: (path: string) => Effect.Effect<string>
}

const token = "sesame"

/** Starts a pod and looks up its id. */
const pod = (cwd: string, env: Record<string, string> = {}, queue = "work"): Effect.Effect<Pod, unknown, Parts> =>
  Effect.gen(function* () {
    const url = yield* DatabaseUrl
    const { sql } = yield* Database
    const running = yield* Nightshift.start(["serve", "--app", app, "--port", "0", "--queues", queue], {
      cwd,
      env: {
        DATABASE_URL: Redacted.value(url),
        NIGHTSHIFT_ADMIN_TOKEN: token,
        LOG_LEVEL: "info",
        LOG_FORMAT: "json",
        ...quick,
        ...env
      }
    })
    const [, address = ""] = yield* running.said(/"url":"(http:[^"]+)"/)
    const ask = (method: string, path: string) =>
      Effect.promise(async () => {
        const response = await fetch(`${address}${path}`, { method, headers: { authorization: `Bearer ${token}` } })
        return response.text()
      })
    const rows = yield* sql<{ id: string }>`select id from nightshift.pod where os_pid = ${running.pid}`
    return {
      ...running,
      id: rows[0]?.id ?? "unknown",
      get: (path) => ask("GET", path),
      post: (path) => ask("POST", path)
    }
  })

type Parts = DatabaseUrl | Database | Effect.Effect.Context<typeof Nightshift.folder>

/** Polls until the condition holds. */
const until = <A, E, R>(look: Effect.Effect<A, E, R>, isSo: (found: A) => boolean) =>
  Effect.repeat(look, { until: isSo, schedule: Schedule.spaced("50 millis") }).pipe(Effect.zipRight(look))

const leader = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql<{ pod: string | null; term: number }>`select pod_id as pod, term from nightshift.leader`
  return rows[0] ?? { pod: null, term: 0 }
})

/** Slots of each live pod, by pod id. */
const slots = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows = yield* sql<{ have: number }>`
    select (slots->0->>'have')::int as have from nightshift.pod where not draining order by id`
  return rows.map(({ have }) => have).join(", ")
})

const enqueue = (kind: string, seconds: number, count = 1) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const job = { kind, version: 1, queue: "work", payload: { seconds }, attempts: 5 }
    const stored = yield* queue.enqueue(Array.from({ length: count }, () => job))
    return stored[0]?.id ?? ""
  })

const job = (id: string) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const rows = yield* sql<{ status: string; pod: string | null; outcome: string | null; reason: string | null }>`
      select status, pod_id as pod, dead_reason as reason, history->-1->>'outcome' as outcome
      from nightshift.job where id = ${id}`
    return rows[0]
  })

const begun = (id: string) =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    return yield* until(sql`select what from diary where job = ${id}`, (rows) => rows.length > 0)
  })

/** An empty folder, and a table in which handlers record their runs. */
const prepared = Effect.gen(function* () {
  const { sql } = yield* Database
  yield* sql`create table diary (job uuid not null, what text not null)`
  return yield* Nightshift.folder
})

const byLead = (pods: ReadonlyArray<Pod>) =>
  Effect.map(leader, ({ pod: id }) => ({
    leading: pods.find((each) => each.id === id),
    following: pods.filter((each) => each.id !== id)
  }))

describe("three pods", () => {
  it.scopedLive(
    "share ten workers as 4, 3, 3; when one is killed with -9 the others run its jobs, and a killed leader is replaced",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const cwd = yield* prepared
        const pods = yield* Effect.all([pod(cwd), pod(cwd), pod(cwd)], { concurrency: "unbounded" })
        yield* until(slots, (all) => all === "4, 3, 3")
        yield* enqueue("long", 600, 10)
        const perPod = sql<{ count: number }>`
          select count(*)::int as count from nightshift.job where status = 'running' group by pod_id order by pod_id`
        yield* until(perPod, (rows) => rows.map(({ count }) => count).join(", ") === "4, 3, 3")

        const { following, leading } = yield* byLead(pods)
        const victim = following[0]
        yield* victim?.signal("SIGKILL") ?? Effect.void
        yield* until(slots, (all) => all === "5, 5")
        yield* until(perPod, (rows) => rows.map(({ count }) => count).join(", ") === "5, 5")
        const crashed = yield* sql<{ history: ReadonlyArray<{ outcome: string; pod: string }> }>`
          select history from nightshift.job where crash_count > 0`
        expect(crashed.length).toBeGreaterThanOrEqual(3)
        for (const { history } of crashed) expect(history).toMatchObject([{ outcome: "crashed", pod: victim?.id }])
        expect(yield* sql`select count(*)::int as count from nightshift.job where attempt <> 1`).toEqual([{ count: 0 }])

        const before = yield* leader
        yield* leading?.signal("SIGKILL") ?? Effect.void
        const last = following[1]
        const after = yield* until(leader, ({ pod: id }) => id === last?.id)
        expect(after.term).toBeGreaterThan(before.term)
        yield* until(slots, (all) => all === "10")
        const shown = JSON.parse(yield* last?.get("/api/v1/pods") ?? Effect.succeed("{}"))
        expect(shown).toMatchObject({ pods: [{ id: last?.id, leader: true }], unservedQueues: [] })
      }).pipe(Effect.provide(house)),
    patient
  )
})

describe("a leader", () => {
  it.scopedLive(
    "that was suspended past its lease changes nothing under its old term; one that is asked to stop is replaced at once",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const cwd = yield* prepared
        const pods = yield* Effect.all([pod(cwd), pod(cwd)], { concurrency: "unbounded" })
        const first = yield* leader
        const { following, leading } = yield* byLead(pods)
        yield* until(slots, (all) => all === "5, 5")
        yield* leading?.signal("SIGSTOP") ?? Effect.void
        const second = yield* until(leader, ({ pod: id }) => id === following[0]?.id)
        expect(second.term).toBeGreaterThan(first.term)
        // The other pods take its slots and remove it; the suspended pod does not know that.
        yield* until(slots, (all) => all === "10")
        yield* leading?.signal("SIGCONT") ?? Effect.void
        yield* leading?.said(/no longer leading the cluster/) ?? Effect.void
        yield* until(slots, (all) => all === "5, 5")
        expect(yield* leader).toEqual(second)
        expect(yield* sql`select distinct term from nightshift.share`).toEqual([{ term: second.term }])

        // It drains until its job ends, while another pod already leads.
        yield* enqueue("long", 3, 10)
        yield* until(sql`select 1 from diary where what = 'begun'`, (rows) => rows.length === 10)
        yield* following[0]?.signal("SIGTERM") ?? Effect.void
        yield* until(leader, ({ pod: id }) => id === leading?.id)
        expect(yield* sql`select draining from nightshift.pod where id = ${following[0]?.id}`).toEqual([
          { draining: true }
        ])
        expect(yield* following[0]?.finished ?? Effect.void).toMatchObject({ code: 0 })
        expect(yield* sql`select count(*)::int as pods from nightshift.pod`).toEqual([{ pods: 1 }])
        expect(yield* sql`select what, count(*)::int as count from diary group by 1`).toEqual([
          { what: "begun", count: 10 }
        ])
      }).pipe(Effect.provide(house)),
    patient
  )
})

describe("a job that runs on another pod", () => {
  it.scopedLive(
    "is interrupted when it is cancelled, and its finalizers run; one that ignores it is abandoned and its slot replaced",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const cwd = yield* prepared
        // With a heartbeat per minute, only the notification can stop the job in time.
        const slow = { QUEUE_HEARTBEAT: "60s", QUEUE_STALE_AFTER: "300s", NIGHTSHIFT_SLOTS: "1" }
        const worker = yield* pod(cwd, slow)
        const other = yield* pod(cwd, slow, "elsewhere")
        const long = yield* enqueue("long", 600)
        yield* begun(long)
        expect(JSON.parse(yield* other.post(`/api/v1/jobs/${long}/cancel`))).toMatchObject({
          state: "running",
          cancelRequestedAt: expect.any(String)
        })
        yield* until(job(long), (found) => found?.status === "dead")
        expect(yield* job(long)).toMatchObject({ reason: "cancelled", outcome: "cancelled" })
        expect(yield* sql`select what from diary where job = ${long} order by what`).toEqual([
          { what: "begun" },
          { what: "cleaned up" }
        ])

        const deaf = yield* enqueue("deaf", 600)
        yield* begun(deaf)
        yield* other.post(`/api/v1/jobs/${deaf}/cancel`)
        yield* until(job(deaf), (found) => found?.status === "dead")
        expect(yield* job(deaf)).toMatchObject({ reason: "cancelled", outcome: "abandoned" })
        expect(yield* worker.get("/metrics")).toContain('nightshift_slots_abandoned_total{queue="work"} 1')
        const next = yield* enqueue("long", 0)
        yield* until(job(next), (found) => found?.status === "done")
      }).pipe(Effect.provide(house)),
    patient
  )
})

describe("a pod", () => {
  it.scopedLive(
    "reports a handler that blocks its event loop, and leaves nothing behind when it stops",
    () =>
      Effect.gen(function* () {
        const { sql } = yield* Database
        const cwd = yield* prepared
        const only = yield* pod(cwd, { SHUTDOWN_GRACE: "500ms" })
        yield* enqueue("blocking", 2)
        yield* only.said(/heartbeat was .* late because the event loop was blocked \(kinds that ran: blocking\)/)
        expect(yield* only.get("/metrics")).toMatch(/^nightshift_heartbeats_late_total [1-9]/m)

        // One job holds a transaction, one sleeps: both outlast the grace period.
        const open = yield* enqueue("in_transaction", 600)
        const asleep = yield* enqueue("long", 600)
        yield* begun(asleep)
        const busy = sql`select 1 from pg_stat_activity
          where datname = current_database() and state = 'idle in transaction'`
        yield* until(busy, (rows) => rows.length > 0)
        yield* only.signal("SIGTERM")
        expect(yield* only.finished).toMatchObject({ code: 0, signal: null })
        for (const id of [open, asleep]) {
          expect(yield* job(id)).toMatchObject({ status: "pending", outcome: "interrupted by shutdown" })
        }
        expect(
          yield* sql`select count(*)::int as count from nightshift.job where attempt > 1 or crash_count > 0`
        ).toEqual([{ count: 0 }])
        expect(yield* leader).toMatchObject({ pod: null })
        expect(yield* sql`select id from nightshift.pod`).toEqual([])
        expect(yield* sql`select pod_id from nightshift.share`).toEqual([])
        yield* until(
          sql`select pid from pg_stat_activity where datname = current_database()
            and application_name like 'nightshift%' and state like 'idle in transaction%'`,
          (rows) => rows.length === 0
        )
      }).pipe(Effect.provide(house)),
    patient
  )
})
