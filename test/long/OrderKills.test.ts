import { spawn } from "node:child_process"
import { once } from "node:events"
import { copyFileSync } from "node:fs"
import { join } from "node:path"
import { fileURLToPath } from "node:url"
import { Effect, type Scope } from "effect"
import { beforeAll, expect, it } from "vitest"
import { useDatabase } from "../client/ClientDatabase.js"
import * as ExampleProject from "../examples/ExampleProject.js"
import { scale } from "../support/Scale.js"

// Kills the worker of examples/order-workflow at every statement that it sends for an order. Another worker then
// finishes all orders: each is done and booked once. The bank got all its charges under one key, so that it was paid once.

const database = useDatabase()
beforeAll(async () => {
  await database.pool().query(`
    create table booking (id text primary key, payment text not null);
    create table payment (id int generated always as identity primary key, order_id text not null, key text not null unique,
      cents int not null, refunded boolean not null default false);
    create table charge_call (order_id text not null, key text not null)`)
})

const fixture = (name: string) => fileURLToPath(new URL(`fixtures/${name}`, import.meta.url))

const project: Effect.Effect<string, never, Scope.Scope> = Effect.tap(
  Effect.tap(ExampleProject.copied("order-workflow"), ExampleProject.compiled),
  (cwd) =>
    Effect.sync(() => {
      copyFileSync(fixture("order-killer.mjs"), join(cwd, "killer.mjs"))
      copyFileSync(fixture("statement-killer.mjs"), join(cwd, "statement-killer.mjs"))
    })
)

const run = (cwd: string, env: Readonly<Record<string, string>>) =>
  spawn(process.execPath, ["killer.mjs"], {
    cwd,
    stdio: ["ignore", "ignore", "inherit"],
    env: {
      ...process.env,
      DATABASE_URL: database.url(),
      QUEUE_STALE_AFTER: "4s",
      QUEUE_STUCK_TIMEOUT: "3s",
      QUEUE_HEARTBEAT: "500ms",
      QUEUE_JANITOR_INTERVAL: "1s",
      ...env
    }
  })

it(
  "every order ends correctly and no payment is made twice, wherever its process is killed",
  { timeout: 900_000 },
  () =>
    Effect.gen(function* () {
      const cwd = yield* project
      const [first, most] = [scale("ORDER_KILLS_FROM", 1), scale("ORDER_KILLS", 16)]
      const queues: Array<string> = []
      for (const when of ["before", "after"]) {
        for (let at = first; at <= most; at += 1) {
          const queue = `${when}-${at}`
          queues.push(queue)
          const process = run(cwd, {
            ORDER_KILL_AT: String(at),
            ORDER_KILL_WHEN: when,
            ORDER_QUEUE: queue,
            ORDER_QUEUES: JSON.stringify([queue, "default"])
          })
          const [code, signal] = yield* Effect.promise(() => once(process, "exit"))
          expect(code === 0 || signal === "SIGKILL", `exit code ${code}`).toBe(true)
          // The order ended before this statement.
          if (code === 0) break
        }
      }
      const last = run(cwd, { ORDER_KILL_AT: "0", ORDER_QUEUES: JSON.stringify([...queues, "default"]) })
      yield* Effect.addFinalizer(() => Effect.sync(() => last.kill("SIGKILL")))
      const open = Effect.promise(async () => {
        const { rows } = await database
          .pool()
          .query("select count(*)::int as n from nightshift.job where finished_at is null")
        return rows[0].n as number
      })
      yield* open.pipe(Effect.delay("500 millis"), Effect.repeat({ until: (count) => count === 0 }))
      const read = (text: string) => Effect.promise(async () => (await database.pool().query(text)).rows)
      const orders = yield* read(
        "select dedupe_key as id, status, last_error, result from nightshift.job where kind = 'order' order by 1"
      )
      expect(orders.length).toBe(queues.length)
      expect(orders.filter(({ status }) => status !== "done")).toEqual([])
      expect(orders.every(({ result }) => result.parcels === 2 && result.approvedBy === "ada")).toBe(true)
      const booked = yield* read("select id, payment from booking")
      expect(new Set(booked.map(({ payment }) => payment)).size).toBe(queues.length)
      const calls = yield* read(`
      select order_id, count(*)::int as calls, array_agg(distinct key) as keys from charge_call group by 1 order by 1`)
      expect(calls.map(({ keys, order_id }) => ({ keys, order_id }))).toEqual(
        calls.map(({ order_id }) => ({ keys: [`order/${order_id}/charge`], order_id }))
      )
      // Some orders were charged again after a kill, or the check above says nothing.
      expect([calls.length, calls.some((order) => order.calls > 1)]).toEqual([queues.length, true])
      const payments = yield* read(`
      select p.order_id, p.refunded, p.id::text as payment, b.payment as booked, array(
        select s.exit->'value'->>'payment' from nightshift.workflow_step s join nightshift.job j on j.id = s.job_id
        where j.dedupe_key = 'order/' || p.order_id and s.name = 'charge') as recorded
      from payment p left join booking b on b.id = p.order_id order by 1`)
      expect(payments).toEqual(
        calls.map(({ order_id }, index) => {
          const payment: unknown = payments[index]?.payment
          return { order_id, refunded: false, payment, booked: payment, recorded: [payment] }
        })
      )
      expect(queues.length).toBeGreaterThan(10)
    }).pipe(Effect.scoped, Effect.runPromise)
)
