import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Layer, Redacted } from "effect"
import { vi } from "vitest"
import { z } from "zod"
import { ofBudget } from "../../src/cli/doctor/Checks.js"
import { connect, job, type Shift, worker } from "../../src/client/index.js"
import * as ClusterPg from "../../src/cluster/ClusterPg.js"
import { Pods } from "../../src/cluster/Pods.js"
import { makeGenerator } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import * as DatabaseHealthPg from "../../src/history/DatabaseHealthPg.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import * as ConnectionBudget from "../../src/worker/ConnectionBudget.js"
import * as PoolingProxy from "../support/PoolingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

const cluster = Layer.mergeAll(ClusterPg.layer, DatabaseHealthPg.layer, ClusterConfig.layer).pipe(
  Layer.provide(Listener.layerPolling),
  Layer.provideMerge(TestDatabase.layer)
)

/** Adds a pod of this process, on a host. */
const add = (name: string, pid: number, connections: number | undefined) =>
  Effect.gen(function* () {
    const ids = yield* makeGenerator
    const facts = { label: undefined, version: "1", queues: ["mail"], kinds: [], releases: {}, startedAt: 0 }
    const host = { name, pid, node: "v22" }
    const pods = yield* Pods
    yield* pods.beat(
      { ...facts, id: ids.pod(1), host, connections },
      { slots: [], draining: false },
      Duration.minutes(1)
    )
  })

describe("the connections of a cluster", () => {
  it.scopedLive("are added up once per process, and compared with what the server accepts", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const [server] = yield* sql<{ accepts: number }>`select current_setting('max_connections')::int
        - current_setting('superuser_reserved_connections')::int
        - coalesce(current_setting('reserved_connections', true)::int, 0) as accepts`
      const accepts = server?.accepts ?? 0
      yield* add("web-1", 7, 5)
      yield* add("web-1", 7, 5)
      yield* add("web-1", 8, 6)
      yield* add("web-2", 7, undefined)
      const budget = yield* ConnectionBudget.read
      expect(budget).toMatchObject({ processes: 2, planned: 11, limit: accepts })
      expect(ConnectionBudget.isExceeded({ ...budget, others: accepts - 11 })).toBe(false)
      expect(ConnectionBudget.isExceeded({ ...budget, others: accepts - 10 })).toBe(true)
      yield* add("web-3", 1, accepts)
      expect(ofBudget(budget)).toMatchObject([{ status: "ok" }])
      expect(ofBudget(yield* ConnectionBudget.read)).toMatchObject([
        {
          status: "warn",
          found: expect.stringMatching(
            new RegExp(
              `^3 live processes may open ${accepts + 11} connections to PostgreSQL, other programs have \\d+, and the server accepts ${accepts}\\.$`
            )
          ),
          fix: expect.stringMatching(/^Lower DATABASE_POOL and DATABASE_HANDLER_POOL, raise max_connections, or /)
        }
      ])
    }).pipe(Effect.provide(cluster))
  )

  it.scopedLive("are reported when a process starts that can use up those of the server", () =>
    Effect.gen(function* () {
      const url = Redacted.value(yield* DatabaseUrl)
      const idle = job("idle", { payload: z.object({}) })
      const warnings = (pool: number) =>
        Effect.promise(async () => {
          const lines: Array<string> = []
          let warned = () => {}
          const first = new Promise<void>((done) => {
            warned = done
          })
          const warn = (text: string) => {
            lines.push(text)
            warned()
          }
          const log = { debug: () => {}, info: () => {}, warn, error: () => {} }
          await using shift = await connect(url, { pool, handlerPool: 2, log })
          await worker(shift, { handlers: [idle.handle(() => {})] })
          await first
          return lines
        })
      expect(yield* warnings(500)).toEqual([
        expect.stringMatching(/^1 live process may open 503 connections to PostgreSQL, .* Lower DATABASE_POOL and /)
      ])
    }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive(
    "are at most 8 in a process, 4 of them for Nightshift's own statements, unless its settings say otherwise",
    () =>
      Effect.gen(function* () {
        const url = Redacted.value(yield* DatabaseUrl)
        const { sql } = yield* Database
        const idle = job("idle", { payload: z.object({}), queue: "few" })
        const opened = (name: string) =>
          Effect.map(
            sql<{
              count: number
            }>`select count(*)::int as count from pg_stat_activity where application_name = ${name}`,
            ([row]) => row?.count
          )
        /** Calls more than any pool has connections. */
        const readAll = (shift: Shift) =>
          Effect.promise(async () => {
            const { id } = await shift.enqueue(idle, {})
            await Promise.all(Array.from({ length: 100 }, () => shift.job(id)))
          })
        const open = (name: string, pool?: number) => {
          vi.stubEnv("DATABASE_APPLICATION_NAME", name)
          return Effect.acquireRelease(
            Effect.promise(() => connect(url, { log: false, pool }).finally(() => vi.unstubAllEnvs())),
            (shift) => Effect.promise(() => shift.close())
          )
        }
        const few = yield* open("few")
        yield* readAll(few)
        expect(yield* opened("few")).toBe(4)
        yield* Effect.promise(() => worker(few, { handlers: [idle.handle(() => {})] }))
        yield* readAll(few)
        expect(yield* opened("few")).toBe(4)
        expect(yield* sql`select connections from nightshift.pod`).toEqual([{ connections: 8 }])
        const more = yield* open("more", 6)
        yield* readAll(more)
        expect(yield* opened("more")).toBe(6)
      }).pipe(Effect.provide(TestDatabase.layer))
  )

  it.scopedLive("are unknown behind a pooler, which has its own", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.migrated
      const most = (to: Redacted.Redacted) =>
        Effect.flatMap(Database, ({ maxConnections }) => maxConnections).pipe(
          Effect.provide(Layer.provide(Database.layer, [DatabaseUrl.layerOf(to), DatabaseConfig.layer]))
        )
      expect(yield* most(url)).toBe(process.env.TEST_POOLER === undefined ? 8 : undefined)
      expect(yield* most(yield* PoolingProxy.open(url))).toBeUndefined()
    })
  )
})
