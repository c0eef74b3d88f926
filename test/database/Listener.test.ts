import { describe, expect, it } from "@effect/vitest"
import {
  ConfigProvider,
  Context,
  Deferred,
  Duration,
  Effect,
  Layer,
  Logger,
  LogLevel,
  Option,
  Queue,
  Redacted,
  Schedule,
  type Scope
} from "effect"
import type pg from "pg"
import * as AdvisoryLock from "../../src/database/AdvisoryLock.js"
import { DatabaseConfig } from "../../src/database/DatabaseConfig.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Listener from "../../src/database/Listener.js"
import * as LosingProxy from "../support/LosingProxy.js"
import { holdersOf, untilHeld } from "../support/PodLock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = Layer.provideMerge(Listener.layer, TestDatabase.layerEmpty)
const { Notified } = Listener.ListenerEvent

const notify = (client: pg.Client, channel: string, payload: string) =>
  Effect.promise(() => client.query("select pg_notify($1, $2)", [channel, payload]))

const untilTag = (received: Queue.Dequeue<Listener.ListenerEvent>, tag: Listener.ListenerEvent["_tag"]) =>
  Effect.repeat(Queue.take(received), { until: ({ _tag }) => _tag === tag })

/** Subscribes to a channel; returns once no notification can be missed. */
const subscribe = (
  channel: string
): Effect.Effect<Queue.Dequeue<Listener.ListenerEvent>, never, Listener.Listener | Scope.Scope> =>
  Listener.Listener.pipe(
    Effect.flatMap((listener) => listener.subscribe(channel)),
    Effect.tap((received) => untilTag(received, "Resumed"))
  )

const killListener = (client: pg.Client) =>
  Effect.promise(() =>
    client.query(
      "select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = current_database() and application_name = 'nightshift listener'"
    )
  )

const key = AdvisoryLock.key("nightshift", "process", "$1::text")

describe("Listener", () => {
  it.scopedLive(
    "delivers notifications to every subscriber of the channel, including empty payloads, and to no other",
    () =>
      Effect.gen(function* () {
        const [first, second, other] = [
          yield* subscribe("jobs"),
          yield* subscribe("jobs"),
          yield* subscribe("else where")
        ]
        const client = yield* TestDatabase.connection
        yield* notify(client, "jobs", "mail")
        yield* notify(client, "jobs", "")
        yield* notify(client, "else where", "end")
        expect([yield* untilTag(first, "Notified"), yield* untilTag(first, "Notified")]).toEqual([
          Notified({ payload: "mail" }),
          Notified({ payload: "" })
        ])
        expect(yield* untilTag(second, "Notified")).toEqual(Notified({ payload: "mail" }))
        expect(yield* untilTag(other, "Notified")).toEqual(Notified({ payload: "end" }))
      }).pipe(Effect.provide(layer))
  )

  it.scopedLive("is connected once it listens, not as soon as its connection is open", () =>
    Effect.gen(function* () {
      const config = yield* DatabaseConfig
      const held: { word: string; release: () => void } = { word: "user", release: () => {} }
      const proxy = yield* LosingProxy.listen(yield* DatabaseUrl, (client, server) => {
        server.pipe(client).on("close", () => server.destroy())
        client.on("data", (bytes) => {
          if (held.word === "" || !bytes.includes(held.word)) return void server.write(bytes)
          held.release = () => server.write(bytes)
          held.word = ""
        })
      })
      const untilHeld = Effect.repeat(
        Effect.sync(() => held.word === ""),
        { until: (isHeld) => isHeld, schedule: Schedule.spaced("2 millis") }
      )
      const through = Layer.succeed(DatabaseConfig, { ...config, listenUrl: Option.some(proxy) })
      const listener = Context.get(
        yield* Layer.build(Layer.provide(Layer.fresh(Listener.layer), through)),
        Listener.Listener
      )
      yield* untilHeld
      const jobs = yield* listener.subscribe("jobs")
      held.word = 'listen "jobs"'
      held.release()
      yield* untilHeld
      expect(yield* listener.connected).toBe(false)
      held.release()
      yield* untilTag(jobs, "Resumed")
      expect(yield* listener.connected).toBe(true)
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive.each(["transaction_read_only", "pg_backend_pid", 'listen "jobs"'])(
    "opens another connection if one goes silent before it listens: %s",
    (word) =>
      Effect.gen(function* () {
        const config = yield* DatabaseConfig
        let silenced = 0
        const proxy = yield* LosingProxy.listen(yield* DatabaseUrl, (client, server) => {
          let isSilent = false
          server.pipe(client).on("close", () => server.destroy())
          client.on("data", (bytes) => {
            if (silenced === 0 && bytes.includes(word)) {
              isSilent = true
              silenced += 1
            }
            if (!isSilent) server.write(bytes)
          })
        })
        const picky = Redacted.make(`${Redacted.value(proxy)}?target_session_attrs=read-write`)
        const through = { ...config, connectTimeout: Duration.millis(500), listenUrl: Option.some(picky) }
        const listening = Layer.provide(Layer.fresh(Listener.layer), Layer.succeed(DatabaseConfig, through))
        const listener = Context.get(yield* Layer.build(listening), Listener.Listener)
        yield* Effect.timeout(untilTag(yield* listener.subscribe("jobs"), "Resumed"), "10 seconds")
        expect([silenced, yield* listener.connected]).toEqual([1, true])
      }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("warns if it listens on another database, and is not connected", () =>
    Effect.gen(function* () {
      const config = yield* DatabaseConfig
      const warned = yield* Deferred.make<string>()
      const logger = Logger.make(({ logLevel, message }) => {
        if (logLevel === LogLevel.Warning) Deferred.unsafeDone(warned, Effect.succeed(String(message)))
      })
      const elsewhere = { ...config, listenUrl: Option.some(yield* TestDatabase.empty) }
      const services = yield* Layer.fresh(Listener.layer).pipe(
        Layer.provide(Layer.succeed(DatabaseConfig, elsewhere)),
        Layer.provide(Logger.replace(Logger.defaultLogger, logger)),
        Layer.build
      )
      expect(yield* Deferred.await(warned)).toContain("DATABASE_LISTEN_URL leads to another database")
      expect(yield* Context.get(services, Listener.Listener).connected).toBe(false)
    }).pipe(Effect.provide(TestDatabase.layerEmpty))
  )

  it.scopedLive("continues for one subscriber when another of the channel has left", () =>
    Effect.gen(function* () {
      const staying = yield* subscribe("jobs")
      yield* Effect.scoped(subscribe("jobs"))
      const client = yield* TestDatabase.connection
      yield* notify(client, "jobs", "still here")
      expect(yield* untilTag(staying, "Notified")).toEqual(Notified({ payload: "still here" }))
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive(
    "reconnects after its backend is killed, and notifies every subscriber that messages may be missing",
    () =>
      Effect.gen(function* () {
        const [jobs, others] = [yield* subscribe("jobs"), yield* subscribe("others")]
        const client = yield* TestDatabase.connection
        yield* killListener(client)
        yield* untilTag(jobs, "Resumed")
        yield* untilTag(others, "Resumed")
        yield* notify(client, "jobs", "again")
        expect(yield* untilTag(jobs, "Notified")).toEqual(Notified({ payload: "again" }))
      }).pipe(Effect.provide(layer))
  )

  it.scopedLive(
    "replaces its connection after DATABASE_MAX_LIFETIME, because the address may lead to another server",
    () =>
      Effect.gen(function* () {
        const jobs = yield* subscribe("jobs")
        const client = yield* TestDatabase.connection
        const backend = Effect.promise(async () => {
          const { rows } = await client.query(
            "select pid from pg_stat_activity where datname = current_database() and application_name = 'nightshift listener'"
          )
          return rows[0]?.pid
        })
        const before = yield* backend
        yield* untilTag(jobs, "Resumed")
        expect(yield* backend).not.toBe(before)
      }).pipe(
        Effect.provide(layer),
        Effect.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["DATABASE_MAX_LIFETIME", "1s"]]))))
      )
  )

  it.scopedLive("ends the claim of a lock before it replaces the connection that holds it", () =>
    Effect.gen(function* () {
      const { holdLock } = yield* Listener.Listener
      const heldFor = yield* holdLock(key, "some pod")
      yield* untilHeld(heldFor)
      let polls = 0
      // Held by the server, and no longer claimed, at five polls in a row.
      const isWithdrawn = Effect.gen(function* () {
        const before = yield* heldFor
        const holders = yield* holdersOf("some pod")
        polls = Option.isNone(before) && Option.isNone(yield* heldFor) && holders.length === 1 ? polls + 1 : 0
        return polls === 5
      })
      yield* Effect.repeat(isWithdrawn, { until: (is) => is, schedule: Schedule.spaced("10 millis") })
      // The next connection takes it again.
      yield* untilHeld(heldFor)
    }).pipe(
      Effect.provide(layer),
      Effect.provide(Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["DATABASE_MAX_LIFETIME", "1s"]]))))
    )
  )

  it.scopedLive("keeps no lock that was freed while it was taken", () =>
    Effect.gen(function* () {
      const { holdLock } = yield* Listener.Listener
      yield* untilHeld(yield* holdLock(key, "first"))
      const turn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      // Freed before, while and after the server answers.
      for (let turns = 0; turns < 40; turns += 1)
        yield* Effect.scoped(Effect.zipRight(holdLock(key, "freed"), Effect.replicateEffect(turn, turns % 10)))
      yield* untilHeld(yield* holdLock(key, "last"))
      const free = { until: (pids: ReadonlyArray<number>) => pids.length === 0, schedule: Schedule.spaced("10 millis") }
      yield* Effect.repeat(holdersOf("freed"), free)
    }).pipe(Effect.provide(layer))
  )
})
