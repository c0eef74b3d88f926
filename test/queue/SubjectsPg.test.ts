import { inspect } from "node:util"
import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { digestOf } from "../../src/database/SubjectText.js"
import { Events } from "../../src/queue/events/Events.js"
import { Kinds } from "../../src/queue/Kinds.js"
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
})
