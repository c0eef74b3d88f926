import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Kinds } from "../../src/queue/Kinds.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

/** A call of every function, and what it must have written. */
const calls: Readonly<Record<string, readonly [call: string, written: string]>> = {
  enqueue: [
    `nightshift.enqueue('letter', '{}', dedupe_key => 'one', dedupe_scope => 'retained', key => 'k')`,
    "select 1 from nightshift.job where dedupe_key = 'one' and queue = 'routed'"
  ],
  enqueue_jobs: [
    `nightshift.enqueue_jobs('{"now": 0, "jobs": [{"id": "0198c0de-0000-7000-8000-000000000001", "queue": "a",
      "kind": "letter", "version": 1, "payload": {}, "priority": 0, "run_at": "1970-01-01Z", "max_attempts": 5,
      "dedupe_key": "order/3", "dedupe_scope": "retained", "woken": 0}]}')`,
    "select 1 from nightshift.job where id = '0198c0de-0000-7000-8000-000000000001'"
  ],
  set_tags: [
    `nightshift.set_tags('{"id": "0198c0de-0000-7000-8000-000000000001", "tags": {"customer": "42", "none": null}}')`,
    "select 1 from nightshift.workflow_tag where value = '42'"
  ],
  store_job: [
    `nightshift.store_job(jsonb_populate_record(null::nightshift.job, '{"id": "0198c0de-0000-7000-8000-000000000002",
      "queue": "a", "kind": "letter", "version": 1, "payload": {}, "priority": 0, "run_at": "1970-01-01Z", "max_attempts": 5,
      "created_at": "1970-01-01Z", "dedupe_key": "two", "dedupe_scope": "active"}'), false, true)`,
    "select 1 from nightshift.job where dedupe_key = 'two'"
  ],
  waiting_jobs: [`nightshift.waiting_jobs('a', 5, 0)`, "select 1 where nightshift.waiting_jobs('a', 5, 0) > 0"],
  signal: [
    `nightshift.signal('order/1', 'paid', '1')`,
    "select 1 from nightshift.workflow_deferred where execution = 'order/1'"
  ],
  complete_deferred: [
    `nightshift.complete_deferred('{order/2}', '{paid}', '{null}', '[1]', 0)`,
    "select 1 from nightshift.workflow_deferred where execution = 'order/2'"
  ],
  turn_permit: [
    `nightshift.turn_permit('order/call', '0198c0de-0000-7000-8000-000000000002', 'call',
      '0198c0de-0000-7000-8000-000000000003', 1, 0, false)`,
    "select 1 from nightshift.workflow_permit where step = 'call' and lease is not null"
  ],
  publish: [
    `nightshift.publish('order.paid', '{}', id => 'one')`,
    "select 1 from nightshift.event where own_id = 'one'"
  ],
  subject: [`nightshift.subject('customer:42')`, "select 1 where nightshift.subject('customer:42') ? 'subjectDigest'"],
  publish_events: [
    `nightshift.publish_events('{"now": 0, "events": [{"id": "0198c0de-0000-7000-8000-000000000004", "name": "order.paid",
      "data": {"order": 1}}]}')`,
    "select 1 from nightshift.event where id = '0198c0de-0000-7000-8000-000000000004'"
  ],
  deliver_events: [
    `nightshift.deliver_events('{0198c0de-0000-7000-8000-000000000004}', null, now())`,
    "select 1 from nightshift.event where id = '0198c0de-0000-7000-8000-000000000004'"
  ],
  fill_subscription: [
    `nightshift.fill_subscription('order.paid', 'letter', 0, 10)`,
    "select 1 where nightshift.fill_subscription('order.paid', 'letter', 0, 10)->>'done' = 'true'"
  ],
  close_windows: [`nightshift.close_windows(0, 10)`, "select 1 where nightshift.close_windows(0, 10)->>'closed' = '0'"],
  wait_for_event: [
    `nightshift.wait_for_event('{"execution": "order/3", "job": "0198c0de-0000-7000-8000-000000000001", "name": "shipped",
      "event": "order.shipped", "paths": [], "match": []}')`,
    "select 1 from nightshift.event_wait where execution = 'order/3'"
  ],
  route_of: [`nightshift.route_of('letter')`, "select 1 where nightshift.route_of('letter') = 'routed'"],
  error_shape: [
    `nightshift.error_shape('order 17 failed')`,
    "select 1 where nightshift.error_shape('order 17 failed') = 'order # failed'"
  ],
  check_value: [`nightshift.check_value('data', '{}')`, "select 1 from nightshift.check_value('data', '{}')"],
  lost_number: [
    `nightshift.lost_number('{"n": 9007199254740993}')`,
    `select 1 where nightshift.lost_number('{"n": 9007199254740993}') = 9007199254740993`
  ]
}

/** Types that the functions mention, as temporary types that would break them. */
const types = ["uuid", "text", "jsonb", "timestamptz", "numeric", "int4", "float8", "record"]

layer(house, { excludeTestServices: true })("SQL functions", (it) => {
  it.scoped("search the temporary schema last, every one", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      // The names in a function whose body is not a text were resolved when it was created.
      const found = yield* sql<{ proname: string; proconfig: ReadonlyArray<string> | null }>`
        select proname, proconfig from pg_proc
        where pronamespace = 'nightshift'::regnamespace and prosqlbody is null order by proname`
      expect(found.map(({ proname }) => proname)).toEqual(Object.keys(calls).sort())
      for (const { proconfig, proname } of found)
        expect([proname, proconfig?.find((each) => each.startsWith("search_path="))]).toEqual([
          proname,
          "search_path=nightshift, pg_temp"
        ])
    })
  )

  it.scoped("write to their own tables whatever the caller's session has created", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const kinds = yield* Kinds
      yield* kinds.register([{ name: "letter", queue: "x", routed: true, version: 1, attempts: 5, onDead: undefined }])
      yield* sql`insert into nightshift.route values ('let', 'routed', now(), now())`
      const tables = yield* sql<{ name: string }>`
        select tablename as name from pg_tables where schemaname = 'nightshift'`
      for (const shape of ["table", "view"]) {
        yield* transaction(
          Effect.gen(function* () {
            for (const { name } of tables) {
              const body = shape === "view" ? "as select 1 as x" : `(like nightshift.${name} including all)`
              yield* sql.unsafe(`create temporary ${shape} ${name} ${body}`)
            }
            yield* sql`create function pg_temp.route_of(kind text) returns text language sql as $$ select 'wrong' $$`
            yield* sql`create function pg_temp.now() returns timestamptz language sql as $$ select null::timestamptz $$`
            for (const type of types) yield* sql.unsafe(`create type pg_temp.${type} as enum ('wrong')`)
            for (const [name, [call, written]] of Object.entries(calls)) {
              yield* sql.unsafe(`select ${call}`)
              expect([name, yield* sql.unsafe(written)]).toHaveProperty("1.length", 1)
            }
            return yield* Effect.fail("rolled back")
          })
        ).pipe(Effect.catchAll((why) => (why === "rolled back" ? Effect.void : Effect.fail(why))))
      }
    })
  )
})
