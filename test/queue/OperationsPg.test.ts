import { describe, expect, it } from "@effect/vitest"
import { Clock, Duration, Effect, Layer, Option } from "effect"
import pg from "pg"
import { vi } from "vitest"
import { type JobId, makeGenerator } from "../../src/core/Ids.js"
import { never } from "../../src/core/Suspension.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { type Operation, Operations } from "../../src/queue/admin/Operations.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as TestDatabase from "../support/TestDatabase.js"

const pod = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling))
const layer = Layer.provideMerge(pod, TestDatabase.layer)

/** Stores dead or done jobs in the order of their ids. */
const fill = (count: number, stand: "dead" | "done", key = "null") =>
  Effect.flatMap(Database, ({ sql }) =>
    sql.unsafe<{ id: JobId }>(`
      insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at,
        finished_at, dead_reason, dedupe_key, dedupe_scope)
      select ('0198c0de-' || lpad(to_hex((select count(*) from nightshift.job) + n), 8, '0') || '7000800000000000')::uuid,
        'mail', 'k', '{}', 5, '${stand}', 'yesterday', 'yesterday', 'now', 'now',
        ${stand === "dead" ? "'exhausted'" : "null"}, ${key}, case when ${key} is null then null else 'active' end
      from generate_series(1, ${count}) as n returning id`)
  )

const begin = Effect.flatMap(Operations, (operations) =>
  operations.begin({ action: "requeue", who: "test", target: { filter: { queue: "mail", state: "dead" } } })
)

const drain: Effect.Effect<number, unknown, Operations> = Effect.gen(function* () {
  const { step } = yield* Operations
  return Option.isSome(yield* step()) ? 1 + (yield* drain) : 0
})

/** An execution that waits for its child, which is an execution. */
const startTree = (name: string) =>
  Effect.gen(function* () {
    const workflows = yield* Workflows
    const queue = yield* Queue
    const job = { kind: "order", version: 1, queue: name, payload: {}, attempts: 5 }
    const { id } = yield* workflows.start({ ...job, execution: name })
    const pod = (yield* makeGenerator).pod(yield* Clock.currentTimeMillis)
    const [run] = yield* queue.claim({ queue: name, pod, limit: 1 })
    if (run === undefined) return yield* Effect.dieMessage("no job is due")
    yield* workflows.startChildren(run, "ship", [{ ...job, execution: `${name}/child` }])
    const waits = [{ kind: "children", name: "ship" }] as const
    const end = End.Suspended({ woken: 0, runAt: never, waits, error: undefined })
    yield* queue.finalize([{ id, lease: run.lease, linked: true, end }])
    const [child] = yield* workflows.children(name)
    return child === undefined ? yield* Effect.dieMessage("no child was started") : { id, child: child.id }
  })

const requeued = Effect.flatMap(JobSearch, ({ total }) => total({ state: "pending" }, 100_000))

describe("operations on PostgreSQL", () => {
  it.scopedLive("are executed by several pods at once, each job once", () =>
    Effect.gen(function* () {
      yield* fill(5_500, "dead")
      const { id } = yield* begin
      const steppers = Effect.provide(Effect.exit(drain), pod)
      yield* Effect.all([steppers, steppers, steppers], { concurrency: "unbounded" })
      yield* drain
      const operations = yield* Operations
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 5_500, skipped: {} })
      expect(yield* requeued).toEqual({ count: 5_500, exact: true })
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("resume after the pod that ran them is gone", () =>
    Effect.gen(function* () {
      yield* fill(2_500, "dead")
      const { id } = yield* begin
      // The first pod finishes a batch and loses its connections during the next.
      yield* Effect.gen(function* () {
        const { step } = yield* Operations
        yield* step()
        const { sql } = yield* Database
        const cut = sql`select pg_terminate_backend(pid) from pg_stat_activity
          where datname = current_database() and query ilike '%for update skip locked%' and pid <> pg_backend_pid()`
        yield* Effect.all([Effect.exit(step()), Effect.exit(Effect.replicateEffect(cut, 20))], { concurrency: 2 })
      }).pipe(Effect.provide(pod))
      yield* drain
      const operations = yield* Operations
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 2_500 })
      expect(yield* requeued).toEqual({ count: 2_500, exact: true })
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("read a bounded number of jobs in one batch, however few match", () =>
    Effect.gen(function* () {
      yield* fill(45_000, "done")
      yield* fill(3, "dead")
      yield* begin
      const { step } = yield* Operations
      const went: Array<Operation> = []
      for (let next = yield* step(); Option.isSome(next); next = yield* step()) went.push(next.value)
      expect(went.map(({ done, status }) => `${status} ${done}`)).toEqual(["running 0", "running 0", "done 3"])
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("skip a job that another transaction locks for long, and report it", () =>
    Effect.gen(function* () {
      const [held] = yield* fill(3, "dead")
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin"))
      yield* Effect.promise(() => other.query("select from nightshift.job where id = $1 for update", [held?.id]))
      const { id } = yield* begin
      yield* drain
      const operations = yield* Operations
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 2, skipped: { locked: 1 } })
    }).pipe(Effect.provide(layer))
  )

  for (const action of ["cancel", "requeue", "delete"] as const)
    it.scopedLive(
      `skip a job whose parent or child is locked for long, and hold up no other operation, at ${action}`,
      () =>
        Effect.gen(function* () {
          const workflows = yield* Workflows
          const [free, parent] = yield* Effect.forEach(["free", "parent"], startTree)
          if (free === undefined || parent === undefined) return expect.fail("two trees")
          if (action === "requeue") for (const name of ["free", "parent"]) yield* workflows.cancel(name, { now: true })
          const isBelow = action === "delete"
          const other = yield* TestDatabase.connection
          yield* Effect.promise(() => other.query("begin"))
          const { rowCount } = yield* Effect.promise(() =>
            other.query("select from nightshift.job where id = $1 for update", [isBelow ? parent.id : parent.child])
          )
          expect(rowCount).toBe(1)
          const operations = yield* Operations
          const of = (ids: ReadonlyArray<JobId>) => operations.begin({ action, who: "test", target: { ids } })
          const first = yield* of(isBelow ? [parent.child, free.child] : [parent.id, free.id])
          const [plain] = yield* fill(1, "dead")
          const second = yield* operations.begin({
            action: "requeue",
            who: "test",
            target: { ids: plain === undefined ? [] : [plain.id] }
          })
          yield* drain
          expect(yield* operations.get(first.id)).toMatchObject({ status: "done", done: 1, skipped: { locked: 1 } })
          expect(yield* operations.get(second.id)).toMatchObject({ status: "done", done: 1 })
          yield* Effect.promise(() => other.query("rollback"))
          const again = yield* of(isBelow ? [parent.child] : [parent.id])
          yield* drain
          expect(yield* operations.get(again.id)).toMatchObject({ status: "done", done: 1, skipped: {} })
        }).pipe(Effect.provide(layer))
    )

  it.scopedLive("process hundreds of jobs beside a locked tree with a few statements", () =>
    Effect.gen(function* () {
      const tree = yield* startTree("tree")
      yield* (yield* Workflows).cancel("tree", { now: true })
      const plain = yield* fill(300, "dead")
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin"))
      const { rowCount } = yield* Effect.promise(() =>
        other.query("select from nightshift.job where id = $1 for update", [tree.child])
      )
      expect(rowCount).toBe(1)
      const operations = yield* Operations
      const ids = [tree.id, ...plain.map(({ id }) => id)]
      const { id } = yield* operations.begin({ action: "requeue", who: "test", target: { ids } })
      const query = yield* Effect.acquireRelease(
        Effect.sync(() => vi.spyOn(pg.Query.prototype as pg.Query & { readonly submit: () => void }, "submit")),
        (spy) => Effect.sync(() => spy.mockRestore())
      )
      yield* drain
      const statements = query.mock.calls.length
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 300, skipped: { locked: 1 } })
      expect(statements).toBeGreaterThan(0)
      expect(statements).toBeLessThan(200)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("skip a job whose key is taken concurrently, and process the rest", () =>
    Effect.gen(function* () {
      yield* fill(20, "dead", "'key-' || n")
      const other = yield* TestDatabase.connection
      yield* Effect.promise(() => other.query("begin"))
      yield* Effect.promise(() =>
        other.query(`insert into nightshift.job (id, queue, kind, payload, max_attempts, run_at, created_at, updated_at,
          dedupe_key, dedupe_scope) values (gen_random_uuid(), 'new', 'k', '{}', 5, 'now', 'now', 'now', 'key-7', 'active')`)
      )
      const { id } = yield* begin
      yield* drain
      yield* Effect.promise(() => other.query("commit"))
      const operations = yield* Operations
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 19, skipped: { locked: 1 } })
      const again = yield* begin
      yield* drain
      expect(yield* operations.get(again.id)).toMatchObject({ done: 0, skipped: { dedupe_key_held: 1 } })
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("keep the journal of deleted executions until their undo expires", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const { start } = yield* Workflows
      const jobs = { kind: "order", version: 1, queue: "mail", payload: {}, attempts: 5 }
      const [one, other] = [yield* start({ ...jobs, execution: "1" }), yield* start({ ...jobs, execution: "2" })]
      yield* sql`insert into nightshift.workflow_step
        (job_id, name, attempt, sequence, kind, outcome, exit, started_at, ended_at)
        select id, 'pay', 1, 1, 'run', 'done', '1', now(), now() from nightshift.job`
      const admin = yield* JobAdmin
      const ids = yield* makeGenerator
      const act = ids.plain((yield* Clock.currentTimeMillis) - 120_000)
      yield* admin.recordingUndo(act).remove(one.id)
      yield* admin.remove(other.id)
      const steps = sql`select job_id from nightshift.workflow_step`
      expect(yield* steps).toEqual([{ job_id: one.id }])
      expect(yield* admin.pruneUndo(Duration.hours(1))).toBe(0)
      expect(yield* steps).toHaveLength(1)
      expect(yield* admin.pruneUndo(Duration.minutes(1))).toBe(1)
      expect(yield* steps).toEqual([])
    }).pipe(Effect.provide(layer))
  )
})
