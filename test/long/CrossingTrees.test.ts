import { describe, expect, it } from "@effect/vitest"
import { Effect, Exit, Layer } from "effect"
import type { JobId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Actions on executions reach their children. Two of them over the same trees, from different places, must not deadlock.

const layer = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const trees = 150
const rounds = 4

/** Chains of three executions: level 1 started level 2, which started level 3. Ids of lower levels are not in order. */
const plant = Effect.flatMap(Database, ({ sql }) =>
  Effect.gen(function* () {
    yield* sql.unsafe(`
      insert into nightshift.job (id, queue, kind, payload, max_attempts, status, run_at, created_at, updated_at, finished_at,
        dead_reason, dedupe_key, dedupe_scope, woken)
      select md5(level || '/' || tree)::uuid, 'trees', 'order', '{}', 5, 'dead', 'yesterday', 'yesterday', 'yesterday', 'now',
        'rejected', level || '/' || tree, 'retained', 1
      from generate_series(1, 3) as level, generate_series(1, ${trees}) as tree`)
    yield* sql.unsafe(`
      insert into nightshift.workflow_child (parent, name, position, child, owned, ended_at)
      select level || '/' || tree, 'below', 0, md5((level + 1) || '/' || tree)::uuid, true, 'now'
      from generate_series(1, 2) as level, generate_series(1, ${trees}) as tree`)
    yield* sql.unsafe(`
      insert into nightshift.workflow_deferred (execution, kind, name, created_at, completed_at, remaining)
      select level || '/' || tree, 'children', 'below', 'yesterday', 'now', 0
      from generate_series(1, 2) as level, generate_series(1, ${trees}) as tree`)
  })
)

const reset = (status: "dead" | "pending") =>
  Effect.flatMap(Database, ({ sql }) =>
    sql.unsafe(`update nightshift.job set status = '${status}', cancel_requested_at = null,
      finished_at = ${status === "dead" ? "now()" : "null"}, dead_reason = ${status === "dead" ? "'rejected'" : "null"}`)
  )

const level = (levels: ReadonlyArray<number>) =>
  Effect.flatMap(Database, ({ sql }) =>
    Effect.map(
      sql.unsafe<{ id: JobId }>("select id from nightshift.job where split_part(dedupe_key, '/', 1)::int = any($1)", [
        levels
      ]),
      (rows) => rows.map(({ id }) => id)
    )
  )

describe("two actions on crossing trees of executions", () => {
  for (const action of ["requeue", "cancel"] as const) {
    it.scopedLive(`both succeed: bulk ${action}`, () =>
      Effect.gen(function* () {
        yield* plant
        const operations = yield* Operations
        const [outer, middle] = [yield* level([1, 3]), yield* level([2])]
        for (let round = 0; round < rounds; round += 1) {
          yield* reset(action === "requeue" ? "dead" : "pending")
          const begun = yield* Effect.forEach([outer, middle], (ids) =>
            operations.begin({ action, who: "test", target: { ids } })
          )
          const exits = yield* Effect.forEach(begun, ({ id }) => Effect.exit(operations.step(id)), { concurrency: 2 })
          expect(exits.filter((exit) => Exit.isFailure(exit))).toEqual([])
          const ended = yield* Effect.forEach(begun, ({ id }) => operations.get(id))
          expect(ended.map(({ status }) => status)).toEqual(["done", "done"])
        }
        const { sql } = yield* Database
        const found = yield* sql`select status, cancel_requested_at is not null as cancelled, count(*)::int as count
          from nightshift.job group by 1, 2`
        expect(found).toEqual([{ status: "pending", cancelled: action === "cancel", count: 3 * trees }])
      }).pipe(Effect.provide(layer))
    )

    it.scopedLive(`both succeed: ${action} of one execution beside a bulk ${action}`, () =>
      Effect.gen(function* () {
        yield* plant
        const operations = yield* Operations
        const jobAdmin = yield* JobAdmin
        const [top, below] = [yield* level([1]), yield* level([2, 3])]
        yield* reset(action === "requeue" ? "dead" : "pending")
        const { id } = yield* operations.begin({ action, who: "test", target: { ids: below } })
        const single = Effect.forEach(top, (each) => jobAdmin[action](each), { concurrency: 4 })
        const exits = yield* Effect.all([Effect.exit(single), Effect.exit(operations.step(id))], { concurrency: 2 })
        expect(exits.map(({ _tag }) => _tag)).toEqual(["Success", "Success"])
      }).pipe(Effect.provide(layer))
    )
  }
})
