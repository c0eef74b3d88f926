import { expect, layer } from "@effect/vitest"
import { Effect } from "effect"
import { Database } from "../../src/database/Database.js"
import * as AttemptsPg from "../../src/queue/claim/AttemptsPg.js"
import * as ClaimSql from "../../src/queue/claim/ClaimSql.js"
import * as ScanSql from "../../src/queue/claim/ScanSql.js"
import * as EventsPg from "../../src/queue/events/EventsPg.js"
import * as JobSql from "../../src/queue/JobSql.js"
import * as TestDatabase from "../support/TestDatabase.js"

const statements = JobSql.make("nightshift")
const claims = ClaimSql.make("nightshift")
const scans = ScanSql.make("nightshift")
const { attempts } = AttemptsPg.statementsOf("nightshift")
const id = "018f0000-0000-7000-8000-000000000000"
const one = `{${id}}`

const otherId = "018f0000-0000-7000-8000-000000000001"
const zero = "00000000-0000-0000-0000-000000000000"
/** Start positions of two queues. */
const two = ["{0,0}", "{0,0}", `{${zero},${zero}}`]
const none = "{NULL}"

/** The insert of one job with a key. */
const insert = [one, "{q}", "{k}", "{1}", "[{}]", "{0}", "{1}", "{5}", 1, "{a}", none, none, none, "[null]", "[null]"]
const insertKeyed = [...insert, null, none, none, null, none]

const publish = EventsPg.publishStatement("nightshift")
/** A publish of one event. */
const published = JSON.stringify({ now: 0, events: [{ id: otherId, name: "order.paid", key: "a", data: {} }] })

/** Calls for one job, as an almost idle process makes them. */
const calls: ReadonlyArray<readonly [name: string, text: string, values: ReadonlyArray<unknown>]> = [
  ["finish", statements.finish, [one, one, 0, one, one, null]],
  [
    "finalize",
    statements.finalize,
    [one, one, "{done}", none, "{true}", none, none, none, none, 0, one, none, one, none, null, false]
  ],
  ["insert with a key", statements.insertFull, insertKeyed],
  ["claim", claims.line, ["q", 0, 64, id, id, "{0}", "{0}", one]],
  [
    "claim of several queues",
    claims.together,
    [0, "{q,r}", "{64,64}", `{${id},${id}}`, `{${id},${id}}`, "{1,2}", ...two]
  ],
  ["priorities", scans.priorities, ["{q}"]],
  ["priorities between", scans.prioritiesBetween, ["{q}", "{1}", "{-32769}", "{32768}"]],
  ["claim by key", claims.keys, ["q", 0, 64, id, id, "{a}", "", "{}"]],
  ["heartbeat", statements.heartbeat, [one, one, 0]],
  ["attempts of a remote worker", attempts, [one, one, id]],
  ["next due", statements.nextDue, ["{default}", "{0}"]],
  ["publish", publish, [published]]
]

const columns = `id, queue, kind, payload, run_at, created_at, updated_at, max_attempts`
const due = `'${id}', 'q', 'k', '{}', to_timestamp(0), to_timestamp(0), to_timestamp(0), 5`
const pending = `insert into nightshift.job (${columns}) values (${due})`
const keyed = `insert into nightshift.job (${columns}, key)
  values (${due.replace(id, otherId)}, 'a') on conflict do nothing`
const running = `insert into nightshift.job (${columns}, status, lease, pod_id, attempt, started_at, heartbeat_at)
  values (${due}, 'running', '${id}', '${id}', 1, to_timestamp(0), to_timestamp(0))`
const suspended = `insert into nightshift.job (${columns}, dedupe_key, dedupe_scope, woken)
  values (${due}, 'e', 'retained', 1)`

/** A subscriber of the event, which is not published yet, and a job with its key. */
const subscribed = `with event as (delete from nightshift.event where id = '${otherId}'),
  job as (delete from nightshift.job where id = nightshift.event_job('${otherId}', 'mail')),
  kind as (insert into nightshift.kind (name, queue, version, max_attempts, registered_at, updated_at)
    values ('mail', 'q', 1, 5, now(), now()) on conflict do nothing),
  subscription as (insert into nightshift.subscription (event, kind, created_at, updated_at)
    values ('order.paid', 'mail', now(), now()) on conflict do nothing)
  insert into nightshift.job (${columns}, key) values (${due}, 'a')`

/** Calls that change one job, stored by the last statement. */
const onRows: ReadonlyArray<readonly [name: string, text: string, values: ReadonlyArray<unknown>, job: string]> = [
  ["finish", statements.finish, [one, one, 1, one, one, null], running],
  [
    "finalize",
    statements.finalize,
    [one, one, "{done}", none, "{true}", none, none, none, none, 1, one, none, one, none, null, false],
    running
  ],
  ["claim", claims.line, ["q", 1, 64, id, id, "{0}", "{0}", `{${zero}}`], pending],
  [
    "claim of several queues",
    claims.together,
    [1, "{q,r}", "{64,64}", `{${id},${otherId}}`, `{${id},${id}}`, "{1,2}", ...two],
    pending
  ],
  ["heartbeat", statements.heartbeat, [one, one, 1], running],
  ["signal", statements.completeDeferred, ["{e}", "{signal}", "{s}", "[null]", 1, null], suspended],
  ["insert with a key", statements.insertFull, insertKeyed, keyed],
  ["publish", publish, [published], subscribed]
]

layer(TestDatabase.layer, { excludeTestServices: true })("prepared statements", (it) => {
  for (const [name, text, values] of calls) {
    it.scoped(`${name}: is not planned again at every call for one job`, () =>
      Effect.gen(function* () {
        const { direct, sql, transaction } = yield* Database
        // A transaction keeps all calls on one connection.
        const plans = yield* transaction(
          Effect.gen(function* () {
            for (let call = 0; call < 12; call += 1) yield* direct.rows(text, values)
            return yield* sql<{
              generic: number
              custom: number
            }>`select generic_plans::int as generic, custom_plans::int as custom
              from pg_prepared_statements where statement = ${text}`
          })
        )
        // PostgreSQL plans the first five calls separately to compare.
        expect(plans).toEqual([{ generic: 7, custom: 5 }])
      })
    )
  }

  // A connection keeps its plans while the table grows. Plans for a table of one row must suit a table of millions.
  for (const [name, text, values, job] of onRows) {
    it.scoped(`${name}: does not read the whole job table, even if it is small`, () =>
      Effect.gen(function* () {
        const { direct, sql, transaction } = yield* Database
        const arrange = Effect.gen(function* () {
          yield* sql`set local enable_seqscan = off`
          yield* sql.unsafe("delete from nightshift.job where id = $1", [id])
          yield* sql.unsafe("delete from nightshift.lease where id = $1", [id])
          yield* sql.unsafe(job)
          yield* sql`set local enable_seqscan = on`
        })
        // Includes earlier scans of the session that it has not reported yet.
        const scans = Effect.map(
          sql<{
            count: number
          }>`select seq_scan::int as count from pg_stat_xact_user_tables where relid = 'nightshift.job'::regclass`,
          ([row]) => row?.count ?? 0
        )
        const found = yield* transaction(
          Effect.gen(function* () {
            const before = yield* scans
            const changed: Array<number> = []
            for (let call = 0; call < 8; call += 1) {
              yield* arrange
              changed.push(yield* direct.count(text, values))
            }
            return { changed, scans: (yield* scans) - before }
          })
        )
        expect(found).toEqual({ changed: Array.from({ length: 8 }, () => 1), scans: 0 })
      })
    )
  }
})
