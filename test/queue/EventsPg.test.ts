import { expect, layer } from "@effect/vitest"
import { ConfigProvider, Deferred, Effect, Fiber, Layer, type Redacted } from "effect"
import { Database } from "../../src/database/Database.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import { Events, type Window } from "../../src/queue/events/Events.js"
import { Kinds } from "../../src/queue/Kinds.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Wakeups } from "../../src/queue/Wakeups.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import * as LosingProxy from "../support/LosingProxy.js"
import * as TestDatabase from "../support/TestDatabase.js"

// Cases that need PostgreSQL with several sessions; the laws cover the rest.

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

const window: Window = { debounce: 1, max: 100, by: [] }

/** Runs the effect in a transaction, and returns what ends that transaction. */
const open = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const { transaction } = yield* Database
    const [done, ended] = [yield* Deferred.make<void, E>(), yield* Deferred.make<void>()]
    yield* Effect.addFinalizer(() => Deferred.succeed(ended, undefined))
    const whole = Effect.zipRight(Effect.intoDeferred(Effect.asVoid(effect), done), Deferred.await(ended))
    const running = yield* Effect.fork(transaction(whole))
    yield* Deferred.await(done)
    return Effect.zipRight(Deferred.succeed(ended, undefined), Fiber.join(running))
  })

/** Another process on the test's database, whose messages contain the statements. */
const over = (url: Redacted.Redacted, settings: Readonly<Record<string, string>> = {}) =>
  QueuePg.layer.pipe(
    Layer.provide(Listener.layerPolling),
    Layer.provideMerge(Database.layer),
    Layer.provide(DatabaseUrl.layerOf(url)),
    Layer.provide(DatabaseConfig.layer),
    Layer.provide(
      Layer.setConfigProvider(
        ConfigProvider.fromMap(new Map(Object.entries({ DATABASE_PREPARE: "false", ...settings })))
      )
    )
  )

const mayBePublished = {
  _tag: "DatabaseUnavailable",
  nothingWritten: false,
  answer: { status: 503, message: expect.stringContaining("may have been made") }
}

/** Delivers earlier events, and returns the number of jobs. Waits for transactions of the whole server, which other tests share. */
const filled = (events: typeof Events.Service) =>
  Effect.map(
    Effect.iterate(
      { jobs: 0, isOpen: true },
      {
        while: ({ isOpen }) => isOpen,
        body: ({ jobs }) => Effect.map(events.fill, (more) => ({ ...more, jobs: jobs + more.jobs }))
      }
    ),
    ({ jobs }) => jobs
  )

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

  for (const [change, end] of [
    ["is removed", (events: typeof Events.Service, kind: string) => events.unsubscribe(kind, kind)],
    [
      "loses its window",
      (events: typeof Events.Service, kind: string) => events.subscribe([kind], [{ event: kind, kind }])
    ]
  ] as const)
    it.scoped(`look for late events until the publishers have ended that know a last window, which ${change}`, () =>
      Effect.gen(function* () {
        const { sql, transaction } = yield* Database
        const events = yield* Events
        const kinds = yield* Kinds
        const kind = `last.${change.replaceAll(" ", ".")}`
        for (const { event, subscriber } of yield* events.subscriptions) yield* events.unsubscribe(event, subscriber)
        yield* kinds.register([{ name: kind, queue: kind, version: 1, attempts: 3, onDead: undefined }])
        yield* events.subscribe([kind], [{ event: kind, kind, window }])
        const [published, ended] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        yield* Effect.addFinalizer(() => Deferred.succeed(ended, undefined))
        const publish = Effect.zipRight(
          events.publish([{ name: kind, data: 1 }]),
          Deferred.succeed(published, undefined)
        )
        const publishing = yield* Effect.fork(transaction(Effect.zipRight(publish, Deferred.await(ended))))
        yield* Deferred.await(published)
        yield* end(events, kind)
        for (let looks = 0; looks < 5; looks += 1)
          expect(yield* events.closeWindows).toMatchObject({ jobs: 0, nextAt: expect.any(Number) })
        yield* Deferred.succeed(ended, undefined)
        yield* Fiber.join(publishing)
        let jobs = 0
        const look = Effect.tap(events.closeWindows, (closed) => Effect.sync(() => (jobs += closed.jobs)))
        yield* Effect.repeat(look, { until: ({ nextAt }) => nextAt === undefined })
        expect(jobs).toBe(1)
        expect(yield* sql`select kind from nightshift.job where queue = ${kind}`).toEqual([{ kind }])
        expect(yield* sql`select from nightshift.windowed_event where kind = ${kind} and job is null`).toEqual([])
      })
    )

  it.scoped("reach a wait if their transaction ends while the wait looks for events", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const events = yield* Events
      const name = "ends.meanwhile"
      const { id: job } = yield* (yield* Workflows).start({
        ...{ kind: name, version: 1, queue: name, payload: {}, attempts: 3 },
        execution: `${name}/1`
      })
      const match = { paths: [["order"]], values: ["A"] }
      const look = events.wait({ execution: `${name}/1`, job, name: `event:${name}`, event: name, match })
      yield* events.publish([{ name, data: { order: "slow" } }])
      const endPublish = yield* open(events.publish([{ name, data: { order: "A" } }]))
      for (const _ of ["stores the wait", "looks"]) expect(yield* look).toEqual({ settled: false })
      // Stops a look at the first event, after its statement has begun.
      yield* sql`do $$ begin
        execute replace(pg_get_functiondef('nightshift.match_of'::regproc), 'match_of', 'match_at_once'); end $$`
      yield* sql.unsafe(`create or replace function nightshift.match_of(data jsonb, paths jsonb) returns jsonb language plpgsql as $$ begin
        if data->>'order' = 'slow' then perform pg_advisory_xact_lock(43); end if;
        return nightshift.match_at_once(data, paths); end $$`)
      const holder = yield* TestDatabase.connection
      yield* Effect.promise(() => holder.query("select pg_advisory_lock(43)"))
      const looking = yield* Effect.fork(look)
      const stopped = sql`select from pg_locks where locktype = 'advisory' and objid = 43 and not granted`
      yield* Effect.repeat(stopped, { until: (rows) => rows.length > 0 })
      yield* endPublish
      yield* Effect.promise(() => holder.query("select pg_advisory_unlock(43)"))
      expect(yield* Fiber.join(looking)).toEqual({ settled: false })
      expect(yield* look).toEqual({ data: { order: "A" } })
    })
  )

  // In these, the transaction of the publisher is newer than the reader's, which ends first: no newer one has ended.

  it.scoped("reach a wait that was stored while they were published", () =>
    Effect.gen(function* () {
      const events = yield* Events
      const name = "wait.meanwhile"
      const { id: job } = yield* (yield* Workflows).start({
        ...{ kind: name, version: 1, queue: name, payload: {}, attempts: 3 },
        execution: `${name}/1`
      })
      const match = { paths: [], values: [] }
      const look = events.wait({ execution: `${name}/1`, job, name: `event:${name}`, event: name, match })
      const endWait = yield* open(look)
      const endPublish = yield* open(events.publish([{ name, data: 1 }]))
      yield* endWait
      expect(yield* look).toEqual({ settled: false })
      yield* endPublish
      expect(yield* look).toEqual({ data: 1 })
    })
  )

  it.scoped("reach a subscriber that starts in the past and was declared while they were published", () =>
    Effect.gen(function* () {
      const events = yield* Events
      const name = "past.meanwhile"
      yield* (yield* Kinds).register([{ name, queue: name, version: 1, attempts: 3, onDead: undefined }])
      const endSubscribe = yield* open(events.subscribe([name], [{ event: name, kind: name, past: 60_000 }]))
      const endPublish = yield* open(events.publish([{ name, data: 1 }]))
      yield* endSubscribe
      expect(yield* events.fill).toEqual({ jobs: 0, isOpen: true })
      yield* endPublish
      expect(yield* filled(events)).toBe(1)
    })
  )

  it.scoped(
    "are still to be delivered to a subscriber that starts in the past while another session has locked it",
    () =>
      Effect.gen(function* () {
        const events = yield* Events
        const name = "past.locked"
        yield* (yield* Kinds).register([{ name, queue: name, version: 1, attempts: 3, onDead: undefined }])
        yield* events.publish([{ name, data: 1 }])
        yield* events.subscribe([name], [{ event: name, kind: name, past: 60_000 }])
        const holder = yield* TestDatabase.connection
        const locked = yield* Effect.promise(() =>
          holder.query(`begin; select from nightshift.subscription where kind = '${name}' for update`)
        )
        expect(locked).toMatchObject([{}, { rowCount: 1 }])
        expect(yield* events.fill).toEqual({ jobs: 0, isOpen: true })
        yield* Effect.promise(() => holder.query("rollback"))
        expect(yield* filled(events)).toBe(1)
      })
  )

  it.scoped("are counted and announced with their jobs if the reply to the publish was lost", () =>
    Effect.gen(function* () {
      const word = "lost-on-the-way"
      const url = yield* LosingProxy.open(yield* DatabaseUrl, word, 1)
      const throughProxy = QueuePg.layer.pipe(
        Layer.provide(Listener.layerPolling),
        Layer.provideMerge(Database.layer),
        Layer.provide(DatabaseUrl.layerOf(url)),
        Layer.provide(DatabaseConfig.layer),
        Layer.provideMerge(Layer.effect(Tally, Tally.make).pipe(Layer.provide(Metrics.layer)))
      )
      const [name, waits] = ["lost.reply", "lost.reply.waits"]
      const kinds = [`${name}.a`, `${name}.b`]
      const all = kinds.map((kind) => ({ name: kind, queue: kind, version: 1, attempts: 3, onDead: undefined }))
      yield* (yield* Kinds).register(all)
      const own = yield* Events
      yield* own.subscribe(
        kinds,
        kinds.map((kind) => ({ event: name, kind }))
      )
      const workflow = { kind: waits, version: 1, queue: waits, payload: {}, attempts: 3, execution: `${waits}/1` }
      const { id: job } = yield* (yield* Workflows).start(workflow)
      const match = { paths: [], values: [] }
      yield* own.wait({ execution: workflow.execution, job, name: "event", event: name, match })
      yield* Effect.gen(function* () {
        const woken = new Set<string>()
        for (const queue of [...kinds, waits])
          yield* Effect.flatMap(Wakeups, ({ onWake }) => onWake(queue, () => void woken.add(queue)))
        const events = yield* Events
        const [published] = yield* events.publish([{ name, data: word, id: "1" }])
        expect(published).toMatchObject({ outcome: "published", jobs: 2 })
        const counts = (yield* Tally).take().filter(({ grain }) => grain === 1)
        expect(counts.map(({ enqueued, kind }) => [kind, enqueued]).sort()).toEqual(kinds.map((kind) => [kind, 1]))
        expect([...woken].sort()).toEqual([...kinds, waits])
        expect(yield* events.publish([{ name, data: word, id: "1" }])).toMatchObject([{ outcome: "repeated", jobs: 0 }])
      }).pipe(Effect.provide(throughProxy))
    })
  )

  it.scoped("are published although one of the same statement waits for another publisher of its id", () =>
    Effect.gen(function* () {
      const { sql } = yield* Database
      const events = yield* Events
      const name = "id.taken"
      const endPublish = yield* open(events.publish([{ name, data: 1, id: "1" }]))
      const [waits, free] = yield* Effect.all(
        [Effect.fork(events.publish([{ name, data: 2, id: "1" }])), Effect.fork(events.publish([{ name, data: 3 }]))],
        { concurrency: "unbounded" }
      )
      expect(yield* Fiber.join(free)).toMatchObject([{ outcome: "published" }])
      const waiting = sql`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
      yield* Effect.repeat(waiting, { until: (sessions) => sessions.length === 1 })
      yield* endPublish
      expect(yield* Fiber.join(waits)).toMatchObject([{ outcome: "repeated" }])
      expect(yield* sql`select data from nightshift.event where name = ${name} order by id`).toEqual([
        { data: 1 },
        { data: 3 }
      ])
    })
  )

  it.scoped("may be published if the reply was lost and a lock then stops the retry and the one alone", () =>
    Effect.gen(function* () {
      const { schema, sql } = yield* Database
      const name = "lost.and.locked"
      const holder = yield* TestDatabase.connection
      let replies = 0
      const url = yield* LosingProxy.listen(yield* DatabaseUrl, (client, server) => {
        let asked = false
        client.on("data", (bytes) => {
          asked ||= bytes.includes("publish_events")
          server.write(bytes)
        })
        server.on("data", (bytes) => {
          if (!asked || replies > 0) return client.write(bytes)
          replies += 1
          return holder.query(`begin; lock table ${schema}.event in exclusive mode`).then(() => client.destroy())
        })
        client.on("close", () => server.end())
      })
      const publish = Effect.flatMap(Events, (events) => events.publish([{ name, data: 1 }]))
      const failure = yield* Effect.flip(publish).pipe(Effect.provide(over(url, { DATABASE_STATEMENT_TIMEOUT: "1s" })))
      expect(replies).toBe(1)
      // Alone, it waited for the lock until the statement timeout.
      expect(failure).toMatchObject({ ...mayBePublished, sqlState: "57014" })
      yield* Effect.promise(() => holder.query("rollback"))
      expect(yield* sql`select from nightshift.event where name = ${name}`).toHaveLength(1)
    })
  )

  for (const count of [1, 2])
    it.scoped(`may be published if the reply to the publish of ${count} was lost and the retry finds no server`, () =>
      Effect.gen(function* () {
        const { url } = yield* LosingProxy.mortal(yield* DatabaseUrl, "publish_events", "die")
        const name = `lost.in.outage.${count}`
        const all = Array.from({ length: count }, () => ({ name, data: 1 }))
        const publish = Effect.flatMap(Events, (events) => events.publish(all))
        expect(yield* Effect.flip(publish).pipe(Effect.provide(over(url)))).toMatchObject(mayBePublished)
        const { sql } = yield* Database
        const stored = sql`select from nightshift.event where name = ${name}`
        const rows = yield* Effect.repeat(stored, { until: (rows) => rows.length > 0 })
        expect(rows).toHaveLength(count)
      })
    )
})
