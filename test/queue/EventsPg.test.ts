import { expect, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Listener from "../../src/database/Listener.js"
import { Events, type Window } from "../../src/queue/events/Events.js"
import { Kinds } from "../../src/queue/Kinds.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Cases that need PostgreSQL with several sessions; the laws cover the rest.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const window: Window = { debounce: 1, max: 100, by: [] }

layer(house, { excludeTestServices: true })("events on PostgreSQL, under concurrency", (it) => {
  for (const [change, before, after] of [
    ["gets a window", undefined, window],
    ["loses its window", window, undefined]
  ] as const)
    it.scoped(`make one job for a subscriber that ${change} in the middle of a publish`, () =>
      Effect.gen(function* () {
        const { schema, sql, transaction } = yield* Database
        const events = yield* Events
        const kinds = yield* Kinds
        const kind = change.replaceAll(" ", ".")
        yield* kinds.register([{ name: kind, queue: kind, version: 1, attempts: 3, onDead: undefined }])
        const subscribe = (window: Window | undefined) => events.subscribe([kind], [{ event: kind, kind, window }])
        yield* subscribe(before)
        const [holder, watcher] = [yield* TestDatabase.connection, yield* TestDatabase.connection]
        yield* Effect.promise(() => holder.query(`begin; lock table ${schema}.job in exclusive mode`))
        const publishing = yield* Effect.fork(transaction(events.publish([{ name: kind, data: 1 }])))
        const waiting = () =>
          watcher.query(`select from pg_locks where relation = '${schema}.job'::regclass and not granted`)
        yield* Effect.repeat(Effect.promise(waiting), { until: ({ rowCount }) => (rowCount ?? 0) > 0 })
        yield* subscribe(after)
        yield* Effect.promise(() => holder.query("commit"))
        yield* Fiber.join(publishing)
        const open = sql`select from nightshift.windowed_event where kind = ${kind} and job is null`
        yield* Effect.repeat(Effect.zipRight(events.closeWindows, open), { until: (rows) => rows.length === 0 })
        expect(yield* sql`select kind from nightshift.job where queue = ${kind}`).toEqual([{ kind }])
      })
    )
})
