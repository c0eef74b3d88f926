import { expect, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { isId, type JobId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { mapErrors } from "../../src/database/DatabaseError.js"
import * as Listener from "../../src/database/Listener.js"
import { JobDesk } from "../../src/queue/desk/JobDesk.js"
import { Kinds } from "../../src/queue/Kinds.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { Routes } from "../../src/queue/settings/Routes.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layer), Layer.provideMerge(TestDatabase.layer))

const registered = Effect.gen(function* () {
  const kinds = yield* Kinds
  yield* kinds.register([{ name: "letter", queue: "post", version: 3, maxAttempts: 7, onDead: undefined }])
  return yield* Database
})

layer(house, { excludeTestServices: true })("the SQL door", (it) => {
  it.scoped("stores a job as its kind says, with an id that sorts by time", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const rows = yield* sql<{ id: JobId }>`select nightshift.enqueue('letter', '{"to":"Ghent"}') as id`
      const id = rows[0]?.id ?? ("" as JobId)
      expect(isId(id)).toBe(true)
      expect(id[14]).toBe("7")
      const job = yield* Effect.flatMap(JobSearch, (search) => search.get(id))
      expect(job).toMatchObject({ kind: "letter", queue: "post", version: 3, maxAttempts: 7, payload: { to: "Ghent" } })
      const queue = yield* Queue
      const claimed = yield* queue.claim({ queue: "post", pod: id as never, limit: 10 })
      expect(claimed.map((job) => job.id)).toContain(id)
    })
  )

  it.scoped("routes a kind that names no queue as every other door does", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const kinds = yield* Kinds
      const routes = yield* Routes
      const queue = yield* Queue
      const search = yield* JobSearch
      // Prefixes that are nested, that overlap, that hold what SQL and patterns would take for their own, and letters
      // that bytes and characters count differently.
      const declared = { g: "one", "gh.": "two", "gh.%": "three", "gh._x": "four", größe: "five", "größer.": "six" }
      yield* routes.register(declared)
      const names = ["g", "gh", "gh.", "gh.%", "gh.%a", "gh.ax", "gh._x1", "größe", "größer.a", "größerA", "Gh.", "x'y"]
      const open = { queue: "default", routed: true, version: 1, maxAttempts: 5, onDead: undefined }
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

  it.scoped("answers with the job that stands when the dedupe key is held", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const add = sql<{ id: JobId }>`select nightshift.enqueue('letter', '{}', dedupe_key => 'once') as id`
      expect(yield* add).toEqual(yield* add)
    })
  )

  it.scoped("refuses what the other doors refuse, in words", () =>
    Effect.gen(function* () {
      const { sql } = yield* registered
      const refusal = (call: string) =>
        Effect.map(Effect.flip(mapErrors(sql.unsafe(`select nightshift.enqueue(${call})`))), ({ detail }) => detail)
      expect(yield* refusal("'parcel', '{}'")).toBe('No pod has ever registered the kind "parcel".')
      expect(yield* refusal("'letter', null")).toBe("payload must not be null")
      expect(yield* refusal("'letter', '{}', queue => 'a b'")).toMatch(/^queue must be/)
      expect(yield* refusal("'letter', '{}', priority => 40000")).toMatch(/^priority must be/)
      expect(yield* refusal("'letter', '{}', max_attempts => 0")).toMatch(/^max_attempts must be/)
      expect(yield* refusal("'letter', to_jsonb(repeat('x', 1100000))")).toMatch(/^payload is larger/)
    })
  )

  it.scoped("refuses a job while as many wait as may, and takes one when there is room or it stands already", () =>
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
      expect((yield* Effect.flip(add("cap-3"))).detail).toBe('Queue "capped" is full: 2 jobs wait in it already.')
      expect(yield* add("cap-1")).toEqual([first])
      yield* Effect.flatMap(JobDesk, (desk) => desk.cancel(first?.id ?? ("" as JobId)))
      expect(yield* add("cap-3")).toHaveLength(1)
    })
  )
})
