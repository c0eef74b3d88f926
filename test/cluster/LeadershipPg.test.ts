import { describe, expect, it } from "@effect/vitest"
import { Deferred, Duration, Effect, Fiber, Layer, Option } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import * as LeadershipPg from "../../src/cluster/LeadershipPg.js"
import { makeGenerator, type Term } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const layer = LeadershipPg.layer.pipe(Layer.provideMerge(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer))

const lease = Duration.seconds(15)

const reign = Effect.gen(function* () {
  const leadership = yield* Leadership
  const ids = yield* makeGenerator
  const pods = { leader: ids.pod(1), rival: ids.pod(1) }
  const term = Option.getOrThrow(yield* leadership.campaign(pods.leader, lease))
  return { ...pods, leadership, term }
})

/** Completes when a session waits for a lock. */
const somebodyWaits = Effect.gen(function* () {
  const { sql } = yield* Database
  const rows =
    yield* sql`select 1 from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`
  return rows.length > 0
}).pipe(Effect.repeat({ until: (waits) => waits }))

/** Completes when no transaction is open any more, after one was. */
const openedAndEnded = Effect.gen(function* () {
  const { sql } = yield* Database
  const open = Effect.map(
    sql`select 1 from pg_stat_activity where datname = current_database() and state = 'idle in transaction'`,
    (rows) => rows.length
  )
  yield* Effect.repeat(open, { until: (count) => count > 0 })
  yield* Effect.repeat(open, { until: (count) => count === 0 })
})

/** A leader's transaction that has asserted its term and stays open until the test ends it. */
const openTransaction = (term: Term) =>
  Effect.gen(function* () {
    const { transaction } = yield* Database
    const leadership = yield* Leadership
    const asserted = yield* Deferred.make<void>()
    const finish = yield* Deferred.make<void>()
    const held = Effect.zipRight(Deferred.succeed(asserted, undefined), Deferred.await(finish))
    const writing = yield* Effect.fork(transaction(Effect.zipRight(leadership.assertTerm(term), held)))
    yield* Deferred.await(asserted)
    return { finish: Effect.zipRight(Deferred.succeed(finish, undefined), Fiber.join(writing)) }
  })

describe("a leader's transaction", () => {
  it.scopedLive("keeps the lease from changing hands until it commits, even if the lease expires meanwhile", () =>
    Effect.gen(function* () {
      const { leadership, rival, term } = yield* reign
      const { finish } = yield* openTransaction(term)
      yield* SteppableClock.advance("15 seconds")
      const taking = yield* Effect.fork(leadership.campaign(rival, lease))
      yield* somebodyWaits
      expect(yield* Fiber.poll(taking)).toEqual(Option.none())
      yield* finish
      expect(Option.getOrThrow(yield* Fiber.join(taking))).toBeGreaterThan(term)
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("does not block its own leader's renewal", () =>
    Effect.gen(function* () {
      const { leader, leadership, term } = yield* reign
      const { finish } = yield* openTransaction(term)
      // If this waited for the transaction, the test would hang.
      expect(yield* leadership.campaign(leader, lease)).toEqual(Option.some(term))
      yield* finish
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("writes nothing when the term is over", () =>
    Effect.gen(function* () {
      const { leadership, rival, term } = yield* reign
      const { sql, transaction } = yield* Database
      yield* sql`create table deed (n int)`
      yield* SteppableClock.advance("15 seconds")
      yield* leadership.campaign(rival, lease)
      const deed = Effect.zipRight(sql`insert into deed values (1)`, leadership.assertTerm(term))
      expect(yield* Effect.flip(transaction(deed))).toMatchObject({ _tag: "TermEnded", term })
      expect(yield* sql`select * from deed`).toEqual([])
    }).pipe(Effect.provide(layer))
  )

  it.scopedLive("is ended by the server when its process sleeps past the lease", () =>
    Effect.gen(function* () {
      const { leadership, rival } = yield* reign
      const { transaction } = yield* Database
      yield* SteppableClock.advance("15 seconds")
      const term = Option.getOrThrow(yield* leadership.campaign(rival, Duration.millis(200)))
      const asleep = yield* Effect.fork(transaction(Effect.zipRight(leadership.assertTerm(term), Effect.never)))
      yield* openedAndEnded
      yield* SteppableClock.advance("15 seconds")
      const ids = yield* makeGenerator
      expect(Option.isSome(yield* leadership.campaign(ids.pod(2), lease))).toBe(true)
      yield* Fiber.interrupt(asleep)
    }).pipe(Effect.provide(layer))
  )
})
