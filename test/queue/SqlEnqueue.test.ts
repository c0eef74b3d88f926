import { expect, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Layer } from "effect"
import { isId, type JobId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { mapErrors } from "../../src/database/DatabaseError.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Routes } from "../../src/queue/settings/Routes.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

const registered = Effect.gen(function* () {
  const kinds = yield* Kinds
  yield* kinds.register([{ name: "letter", queue: "post", version: 3, attempts: 7, onDead: undefined }])
  return yield* Database
})

layer(house, { excludeTestServices: true })("the SQL function", (it) => {
  it.scoped("stores a job with its kind's settings, with an id that sorts by time", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const rows = yield* sql<{ id: JobId }>`select nightshift.enqueue('letter', '{"to":"Ghent"}') as id`
      const id = rows[0]?.id ?? ("" as JobId)
      expect(isId(id)).toBe(true)
      expect(id[14]).toBe("7")
      const job = yield* Effect.flatMap(JobSearch, (search) => search.get(id))
      expect(job).toMatchObject({ kind: "letter", queue: "post", version: 3, attempts: 7, payload: { to: "Ghent" } })
      const queue = yield* Queue
      const claimed = yield* queue.claim({ queue: "post", pod: id as never, limit: 10 })
      expect(claimed.map((job) => job.id)).toContain(id)
    })
  )

  it.scoped("routes a kind without a queue like every other entry point", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const kinds = yield* Kinds
      const routes = yield* Routes
      const queue = yield* Queue
      const search = yield* JobSearch
      // Prefixes that nest, overlap, contain SQL pattern characters, or have letters of several bytes.
      const declared = { g: "one", "gh.": "two", "gh.%": "three", "gh._x": "four", größe: "five", "größer.": "six" }
      yield* routes.register(declared)
      const names = ["g", "gh", "gh.", "gh.%", "gh.%a", "gh.ax", "gh._x1", "größe", "größer.a", "größerA", "Gh.", "x'y"]
      const open = { queue: "default", routed: true, version: 1, attempts: 5, onDead: undefined }
      yield* kinds.register(names.map((name) => ({ ...open, name })))
      for (const kind of names) {
        const rows = yield* sql<{ id: JobId }>`select nightshift.enqueue(${kind}, '{}') as id`
        const [direct] = yield* queue.enqueue([{ ...open, kind, payload: {} }])
        const there = yield* search.get(rows[0]?.id ?? ("" as JobId))
        const here = yield* search.get(direct?.id ?? ("" as JobId))
        expect([kind, there.queue]).toEqual([kind, here.queue])
      }
      const asked = yield* sql<{ id: JobId }>`select nightshift.enqueue('gh.ax', '{}', queue => 'own') as id`
      expect((yield* search.get(asked[0]?.id ?? ("" as JobId))).queue).toBe("own")
    })
  )

  it.scoped("is part of the caller's transaction", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* registered
      const before = yield* sql<{ count: number }>`select count(*)::int as count from nightshift.job`
      yield* Effect.ignore(
        transaction(Effect.zipRight(sql`select nightshift.enqueue('letter', '{}')`, Effect.fail("changed my mind")))
      )
      expect(yield* sql<{ count: number }>`select count(*)::int as count from nightshift.job`).toEqual(before)
    })
  )

  it.scoped("returns the existing job when the dedupe key is held", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const add = sql<{ id: JobId }>`select nightshift.enqueue('letter', '{}', dedupe_key => 'once') as id`
      expect(yield* add).toEqual(yield* add)
    })
  )

  it.scoped("takes the scope and window of a dedupe key, and replaces a pending job on request", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const search = yield* JobSearch
      const add = (call: string) =>
        Effect.flatMap(sql.unsafe<{ id: JobId }>(`select nightshift.enqueue(${call}) as id`), ([row]) =>
          search.get(row?.id ?? ("" as JobId))
        )
      const retained = yield* add("'letter', '{}', dedupe_key => 'r', dedupe_scope => 'retained'")
      expect(retained.dedupe).toEqual({ key: "r", scope: "retained" })
      const windowed = yield* add("'letter', '{}', dedupe_key => 'w', dedupe_window => '1 hour'")
      expect(windowed.dedupe).toEqual({ key: "w", scope: "retained" })
      const [{ held } = { held: "" }] = yield* sql<{ held: string }>`
        select (dedupe_until - created_at)::text as held from nightshift.job where id = ${windowed.id}`
      expect(held).toBe("01:00:00")

      const first = yield* add(`'letter', '{"n": 1}', dedupe_key => 'last', delay => '1 hour', priority => 4`)
      const kept = yield* add(`'letter', '{"n": 2}', dedupe_key => 'last'`)
      expect(kept).toMatchObject({ id: first.id, payload: { n: 1 }, priority: 4 })
      const replaced = yield* add(
        `'letter', '{"n": 3}', dedupe_key => 'last', dedupe_replace => true, delay => '2 hours'`
      )
      expect(replaced).toMatchObject({ id: first.id, payload: { n: 3 }, priority: 0 })
      expect(replaced.runAt).toBeGreaterThan(first.runAt)
      yield* sql`update nightshift.job set status = 'done', finished_at = now() where id = ${windowed.id}`
      yield* sql`update nightshift.job set dedupe_until = now() where id = ${windowed.id}`
      expect((yield* add("'letter', '{}', dedupe_key => 'w'")).id).not.toBe(windowed.id)
    })
  )

  it.scoped("refuses what the other entry points refuse, with a message", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const refusal = (call: string) =>
        Effect.map(Effect.flip(mapErrors(sql.unsafe(`select nightshift.enqueue(${call})`))), ({ detail }) => detail)
      expect(yield* refusal("'parcel', '{}'")).toBe('No process has ever registered the kind "parcel".')
      expect(yield* refusal("'letter', null")).toBe("payload must not be null")
      expect(yield* refusal("'letter', '{}', queue => 'a b'")).toMatch(/^queue must be/)
      expect(yield* refusal("'letter', '{}', priority => 40000")).toMatch(/^priority must be/)
      expect(yield* refusal("'letter', '{}', attempts => 0")).toMatch(/^attempts must be/)
      expect(yield* refusal("'letter', to_jsonb(repeat('x', 1100000))")).toMatch(/^payload is larger/)
      expect(yield* refusal("'letter', '{}', run_at => 'infinity'")).toMatch(/^run_at must be an instant/)
      expect(yield* refusal("'letter', '{}', run_at => '-infinity'")).toMatch(/^run_at must be an instant/)
      expect(yield* refusal("'letter', '{}', run_at => '1969-12-31'")).toMatch(/^run_at must be an instant/)
      expect(yield* refusal("'letter', '{}', run_at => '2030-01-01', delay => '1 day'")).toMatch(
        /^pass run_at or delay/
      )
      expect(yield* refusal("'letter', '{}', delay => '-1 second'")).toMatch(/^delay must be between/)
      expect(yield* refusal("'letter', '{}', delay => '40000 days'")).toMatch(/^delay must be between/)
      expect(yield* refusal("'letter', '{}', key => ''")).toMatch(/^key must be 1 to 512/)
      expect(yield* refusal("'letter', '{}', dedupe_scope => 'active'")).toMatch(/need a dedupe_key$/)
      expect(yield* refusal("'letter', '{}', dedupe_replace => true")).toMatch(/need a dedupe_key$/)
      expect(yield* refusal("'letter', '{}', dedupe_key => 'a', dedupe_scope => 'ever'")).toMatch(/retained, got ever$/)
      expect(
        yield* refusal("'letter', '{}', dedupe_key => 'a', dedupe_scope => 'active', dedupe_window => '1 hour'")
      ).toMatch(/needs the dedupe_scope retained, got active$/)
      expect(yield* refusal("'letter', '{}', dedupe_key => 'a', dedupe_window => '40000 days'")).toMatch(
        /^dedupe_window must be between/
      )
      expect(yield* refusal("'letter', '{}', meta => '[]'")).toMatch(/^meta must be a JSON object/)
      expect(yield* refusal("'letter', '{}', meta => jsonb_build_object('a', repeat('x', 70000))")).toMatch(/^meta is/)
      expect(yield* refusal(`'letter', '{}', meta => '{"subjectErasedAt":"2030-01-01T00:00:00Z"}'`)).toMatch(
        /^meta must not have the field subjectErasedAt/
      )
      expect(yield* refusal("repeat('x', 129), '{}', force => true")).toMatch(/^kind must be 1 to 128/)
    })
  )

  it.scoped("refuses values of signals and events that no workflow could receive as sent", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const send = (call: string, value: string) =>
        Effect.either(mapErrors(sql.unsafe(`select nightshift.${call}, $1::jsonb)`, [value])))
      const calls = { value: "signal('order/1', 'paid'", data: "publish('order.paid'" }
      for (const [field, call] of Object.entries(calls)) {
        for (const number of ["9007199254740993", "1e400"]) {
          expect(yield* send(call, `{"a":[${number}]}`), call).toMatchObject({
            left: { detail: expect.stringMatching(`^${field} holds .*, which a 64-bit float cannot hold$`) }
          })
        }
        expect(yield* send(call, `${"[".repeat(1_001)}${"]".repeat(1_001)}`)).toMatchObject({
          left: { detail: `${field} must not be nested more than 1000 levels deep` }
        })
        expect(yield* send(call, JSON.stringify("x".repeat(70_000)))).toMatchObject({
          left: { detail: `${field} is larger than 65536 bytes as JSON` }
        })
        expect((yield* send(call, `["9007199254740993", 9007199254740992]`))._tag).toBe("Right")
      }
    })
  )

  it.scoped("refuses payloads that no handler could receive as sent", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const add = (payload: string) =>
        Effect.either(mapErrors(sql<{ id: JobId }>`select nightshift.enqueue('letter', ${payload}::jsonb) as id`))
      const nested = (levels: number) => `{"a":${"[".repeat(levels - 1)}${"]".repeat(levels - 1)}}`
      for (const levels of [1_001, 4_200]) {
        expect(yield* add(nested(levels))).toMatchObject({
          left: { detail: "payload must not be nested more than 1000 levels deep" }
        })
      }
      for (const number of ["9007199254740993", "-9007199254740993", "12345678901234567890", "1e400", "1e-400"]) {
        const refused = yield* add(`{"a":[1,{"b":${number}}]}`)
        expect(refused, number).toMatchObject({
          left: { detail: expect.stringMatching(/^payload holds .*, which a 64-bit float cannot hold$/) }
        })
      }
      const good = [
        nested(1_000),
        `[${"[],".repeat(2_000)}{}]`,
        '["9007199254740993", 9007199254740992, 9007199254740994, 36028797018963968, 36028797018963970, 1e23, 5e-324]',
        "[0.10000000000000001, 1.7976931348623157e308, 100000000000000000000000000000000000, 0.0, 3.141592653589793]"
      ]
      for (const payload of good) {
        const stored = yield* Effect.flatten(add(payload))
        const job = yield* Effect.flatMap(JobSearch, (search) => search.get(stored[0]?.id ?? ("" as JobId)))
        expect(job.payload, payload.slice(0, 100)).toEqual(JSON.parse(payload))
      }
    })
  )

  it.scoped("stores key, meta and delay, and with force an unregistered kind", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const search = yield* JobSearch
      const before = yield* Clock.currentTimeMillis
      const [row] = yield* sql<{ id: JobId }>`select nightshift.enqueue('letter', '{}', key => 'chat:1',
        meta => '{"order":"A-17"}', delay => '5 minutes') as id`
      const job = yield* search.get(row?.id ?? ("" as JobId))
      expect(job).toMatchObject({ key: "chat:1", meta: { order: "A-17" }, state: "scheduled" })
      expect(job.runAt - job.createdAt).toBe(300_000)
      expect(job.runAt).toBeGreaterThan(before)
      const [forced] = yield* sql<{ id: JobId }>`select nightshift.enqueue('tomorrow.kind', '{}', force => true) as id`
      expect(yield* search.get(forced?.id ?? ("" as JobId))).toMatchObject({
        kind: "tomorrow.kind",
        queue: "default",
        version: 1,
        attempts: 5
      })
    })
  )

  it.scoped("takes a dedupe key from a finished job only when its window is over", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const queue = yield* Queue
      const search = yield* JobSearch
      const window = Duration.hours(1)
      const dedupe = { key: "windowed", scope: "retained", window } as const
      const job = { kind: "letter", version: 3, queue: "windowed", payload: {}, attempts: 5, dedupe }
      const [first] = yield* queue.enqueue([job])
      const add = sql<{ id: JobId }>`select nightshift.enqueue('letter', '{}', dedupe_key => 'windowed') as id`
      expect(yield* add).toEqual([{ id: first?.id }])
      const [claimed] = yield* queue.claim({ queue: "windowed", pod: first?.id as never, limit: 1 })
      if (claimed === undefined) return yield* Effect.dieMessage("one was stored")
      yield* queue.finalize([{ ...claimed, end: End.Done({ result: undefined }) }])
      expect(yield* add).toEqual([{ id: first?.id }])
      yield* sql`update nightshift.job set dedupe_until = now() - interval '1 second' where id = ${claimed.id}`
      const [next] = yield* add
      expect(next?.id).not.toBe(first?.id)
      expect(yield* add).toEqual([next])
      expect(yield* search.get(claimed.id)).toMatchObject({ state: "done", dedupe: undefined })
    })
  )

  it.scoped("refuses a job while the queue is full, and accepts one when there is room or it exists already", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const queues = yield* Queues
      yield* queues.declare(["capped"])
      yield* queues.change("capped", { depthCap: 2 })
      const add = (key: string) =>
        mapErrors(
          sql<{ id: JobId }>`select nightshift.enqueue('letter', '{}', queue => 'capped', dedupe_key => ${key}) as id`
        )
      const [first] = yield* add("cap-1")
      yield* add("cap-2")
      expect((yield* Effect.flip(add("cap-3"))).detail).toBe(
        'Queue "capped" is full: it has reached its depth cap of 2 waiting jobs.'
      )
      expect(yield* add("cap-1")).toEqual([first])
      yield* Effect.flatMap(JobAdmin, (jobAdmin) => jobAdmin.cancel(first?.id ?? ("" as JobId)))
      expect(yield* add("cap-3")).toHaveLength(1)
    })
  )

  it.scoped("sends a signal to an execution, which wakes up when the transaction commits", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const workflows = yield* Workflows
      const execution = "letter/signalled"
      const signal = (value: string) =>
        Effect.map(
          mapErrors(
            sql<{ outcome: string }>`select nightshift.signal(${execution}, 'stamp', ${value}::jsonb) as outcome`
          ),
          ([row]) => row?.outcome
        )
      yield* workflows.start({ kind: "letter", version: 1, queue: "post", payload: {}, attempts: 3, execution })
      yield* Effect.either(transaction(Effect.zipRight(signal('"lost"'), Effect.fail("rolled back"))))
      expect(yield* signal('"sent"')).toBe("completed")
      expect(yield* signal('"again"')).toBe("appended")
      expect((yield* workflows.show(execution)).deferreds).toMatchObject([
        { name: "stamp", exit: "sent" },
        { name: "stamp#2", exit: "again" }
      ])
      const refused = yield* Effect.flip(mapErrors(sql`select nightshift.signal('', 'stamp')`))
      expect(refused.message).toContain("execution must be 1 to 512 characters long")
    })
  )
})
