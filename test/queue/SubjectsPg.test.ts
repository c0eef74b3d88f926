import { inspect } from "node:util"
import { expect, layer } from "@effect/vitest"
import { Context, Effect, Either, Fiber, FiberRef, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { computed } from "../../src/core/StoredJob.js"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { digestOf } from "../../src/database/SubjectText.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Erasure } from "../../src/queue/erasure/Erasure.js"
import { Events } from "../../src/queue/events/Events.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

// The SQL functions; the laws of erasure cover the rest.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

layer(house, { excludeTestServices: true })("subjects in SQL", (it) => {
  it.scoped("of a published event are those of its jobs, and events of others are in other windows", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const events = yield* Events
      const kinds = yield* Kinds
      for (const [kind, window] of [
        ["mail", undefined],
        ["digest", { debounce: 1, max: 100, by: [] }]
      ] as const) {
        yield* kinds.register([{ name: kind, queue: kind, version: 1, attempts: 3, onDead: undefined }])
        yield* events.subscribe([kind], [{ event: "paid", kind, window }])
      }
      const subject = "customer:42"
      yield* sql`select nightshift.publish('paid', '1', meta => nightshift.subject(${subject}))`
      yield* sql`select nightshift.publish('paid', '2', key => null, id => 'two', meta => nightshift.subject(null))`
      const stored = sql<{ kind: string; subject: string | null }>`
        select kind, meta->>'subjectDigest' as subject from nightshift.job order by kind, created_at, id`
      yield* Effect.repeat(Effect.zipRight(events.closeWindows, stored), { until: ({ length }) => length === 4 })
      const [own, none] = [digestOf(subject), null]
      const rows = yield* stored
      expect(rows.filter(({ kind }) => kind === "mail").map((row) => row.subject)).toEqual([own, none])
      expect(new Set(rows.filter(({ kind }) => kind === "digest").map((row) => row.subject))).toEqual(
        new Set([own, none])
      )
      expect(yield* events.erase(own, "erase")).toBe(1)
    })
  )

  it.scoped("refuse what no erasure could name, and what an event cannot have", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const refused = (call: string) => Effect.map(Effect.flip(sql.unsafe(`select nightshift.${call}`)), inspect)
      for (const text of ["''", "repeat('x', 513)", "repeat('🚚', 257)"])
        expect(yield* refused(`subject(${text})`)).toContain("subject must be 1 to 512 characters long")
      yield* sql.unsafe("select nightshift.subject(repeat('🚚', 256))")
      for (const meta of [`{"source": "shop"}`, "[]", "1", "null", `{"subjectDigest": 7}`])
        expect(yield* refused(`publish('paid', '1', meta => '${meta}')`), meta).toContain(
          "meta of an event can only have a subject"
        )
      const joined = sql<{ meta: unknown }>`select '{"source": "shop"}' || nightshift.subject(null) as meta`
      expect(yield* joined).toEqual([{ meta: { source: "shop" } }])
    })
  )

  it.scoped("are erased from follow-ups that are postponed meanwhile", () =>
    Effect.gen(function* () {
      const { sql, transaction } = yield* Database
      const [queue, admin] = [yield* Queue, yield* JobAdmin]
      const subject = "customer:43"
      yield* queue.enqueue([
        { kind: "late", version: 1, queue: "late", payload: {}, attempts: 1, onDead: computed, subject }
      ])
      const [run] = yield* queue.claim({ queue: "late", pod: (yield* makeGenerator).pod(0), limit: 1 })
      if (run === undefined) return yield* Effect.dieMessage("one was stored")
      yield* queue.finalize([{ ...run, end: End.Dead({ reason: "rejected", counted: true, error: "no" }) }])
      const watcher = yield* TestDatabase.connection
      const blocked = Effect.promise(() => watcher.query("select from pg_locks where not granted"))
      const erasing = yield* transaction(
        Effect.gen(function* () {
          const made = yield* queue.makeFollowUps(["late"], () => Either.left("no code"))
          expect(made.failed).toHaveLength(1)
          const erase = Effect.locally(
            admin.eraseUndo(digestOf(subject), "erase"),
            FiberRef.currentContext,
            Context.empty()
          )
          const fiber = yield* Effect.fork(erase)
          yield* Effect.repeat(blocked, { until: ({ rowCount }) => (rowCount ?? 0) > 0 })
          return fiber
        })
      )
      expect(yield* Fiber.join(erasing)).toBe(1)
      expect(yield* sql`select from nightshift.follow_up_due`).toEqual([])
    })
  )

  it.scoped("are found as words of quotes in JSON, also after a line break or a tab", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const erasure = yield* Erasure
      const subject = "new:42"
      const found = ["a new:42", "x\nnew:42", "\tnew:42", "\u0001new:42", "\\\nnew:42", 'a "new:42"', "(new:42)"]
      const others = ["anew:42", "1new:42", "new:421", "c:\\tnew:42", "new:4"]
      for (const note of [...found, ...others])
        yield* sql`insert into nightshift.audit (id, at, who, act, target, after)
          values (gen_random_uuid(), now(), 'law', 'queue.change', 'mail', ${JSON.stringify({ note })}::jsonb)`
      expect(yield* erasure.quotes(subject, "count")).toBe(found.length)
      expect(yield* erasure.quotes(subject, "erase")).toBe(found.length)
      const kept = sql<{ note: string }>`select after->>'note' as note from nightshift.audit where after is not null`
      expect(new Set((yield* kept).map(({ note }) => note))).toEqual(new Set(others))
    })
  )
})
