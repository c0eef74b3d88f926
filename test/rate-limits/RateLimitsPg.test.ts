import { expect, it } from "@effect/vitest"
import { Clock, Deferred, Effect, Fiber, Layer } from "effect"
import { Database } from "../../src/database/Database.js"
import * as Bucket from "../../src/rate-limits/Bucket.js"
import { RateLimits } from "../../src/rate-limits/RateLimits.js"
import * as RateLimitsPg from "../../src/rate-limits/RateLimitsPg.js"
import * as SteppableClock from "../support/SteppableClock.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = RateLimitsPg.layer.pipe(Layer.provideMerge(TestDatabase.layer), Layer.provideMerge(SteppableClock.layer))

it.scopedLive("a token taken inside a transaction stays taken, whatever its outcome, and blocks no other caller", () =>
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const { transaction } = yield* Database
    yield* limits.register([{ scope: "github", capacity: 2, rate: 0.001 }])
    const taken = yield* Deferred.make<void>()
    const goOn = yield* Deferred.make<void>()
    const fiber = yield* limits
      .acquire("github")
      .pipe(
        Effect.zipRight(Deferred.succeed(taken, undefined)),
        Effect.zipRight(Deferred.await(goOn)),
        Effect.zipRight(Effect.fail("changed my mind")),
        transaction,
        Effect.fork
      )
    yield* Deferred.await(taken)
    expect(yield* limits.acquire("github")).toMatchObject({ _tag: "Granted" })
    yield* Deferred.succeed(goOn, undefined)
    yield* Effect.flip(Fiber.join(fiber))
    expect(yield* limits.acquire("github")).toMatchObject({ _tag: "Throttled" })
  }).pipe(Effect.provide(house))
)

it.scopedLive("a refused caller leaves no dead row behind", () =>
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const { sql } = yield* Database
    yield* limits.register([{ scope: "github", capacity: 1, rate: 0.001 }])
    yield* limits.acquire("github")
    const place = sql<{ ctid: string }>`select ctid::text from nightshift.rate_limit`
    const before = yield* place
    yield* Effect.replicateEffect(limits.acquire("github"), 20)
    expect(yield* place).toEqual(before)
  }).pipe(Effect.provide(house))
)

it.scopedLive("two pods that concurrently declare the same limits in different order do not deadlock", () =>
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const names = Array.from({ length: 20 }, (_, index) => `scope-${index}`)
    const declared = (rate: number) => names.map((scope) => ({ scope, capacity: 1, rate }))
    yield* Effect.all(
      [1, 2, 3, 4, 5, 6].map((rate) => limits.register(rate % 2 === 0 ? declared(rate) : declared(rate).toReversed())),
      { concurrency: "unbounded" }
    )
    expect(yield* limits.all).toHaveLength(20)
  }).pipe(Effect.provide(house))
)

it.scopedLive("a block whose answer was lost is unused, and counts until it expires", () =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const limits = yield* RateLimits
    yield* limits.register([{ scope: "github", capacity: 10, rate: 0.001 }])
    // Another pod's statement that was executed and whose answer was lost.
    const { take } = RateLimitsPg.statementsFor("nightshift")
    const now = yield* Clock.currentTimeMillis
    yield* sql.unsafe(take, ["github", now, 1, 5, "lost-pod", 0, 1000])
    expect(yield* limits.get("github")).toMatchObject({ tokens: 5, lent: 4 })
    expect(yield* limits.acquire("github", 6)).toMatchObject({ _tag: "Throttled" })
    yield* SteppableClock.advance("1 second")
    expect(yield* limits.get("github")).toMatchObject({ lent: 0 })
    expect(yield* limits.acquire("github", 5)).toMatchObject({ _tag: "Granted" })
  }).pipe(Effect.provide(house))
)

it.scopedLive("the SQL statement decides exactly as the in-memory arithmetic", () =>
  Effect.gen(function* () {
    const { sql } = yield* Database
    const limits = yield* RateLimits
    const { take } = RateLimitsPg.statementsFor("nightshift")
    let seed = 11
    const next = (below: number) => {
      seed = (seed * 48_271) % 2_147_483_647
      return seed % below
    }
    const start = yield* Clock.currentTimeMillis
    const scope = "model"
    yield* limits.register([{ scope, capacity: 12, rate: 7 }])
    let bucket = Bucket.fresh(scope, { capacity: 12, rate: 7 }, start)
    let now = start
    for (let turn = 0; turn < 300; turn += 1) {
      // Time mostly advances; sometimes a pod with a slower clock calls.
      now += next(8) === 0 ? -next(300) : next(250)
      const holder = ["", "pod-a", "pod-b"][next(3)] ?? ""
      const least = 1 + next(4)
      const taking = {
        least,
        most: holder === "" ? least : least + next(6),
        holder: holder === "" ? undefined : holder,
        returned: next(3),
        lifeMillis: 1000
      }
      const [expected, after] = Bucket.take(bucket, taking, now)
      bucket = after
      const parameters = [scope, now, taking.least, taking.most, holder, taking.returned, taking.lifeMillis]
      const [row] = yield* sql.unsafe<{ granted: number; wait_ms: number }>(take, parameters)
      expect([turn, row?.granted]).toEqual([turn, expected.granted])
      expect(row?.wait_ms).toBeCloseTo(expected.waitMillis, 3)
      if (next(40) === 0) {
        bucket = Bucket.drain(bucket, 500, now)
        yield* sql`update nightshift.rate_limit set tokens = 0,
          refilled_at = greatest(refilled_at, to_timestamp(${now + 500}::float8 / 1000))`
      }
    }
  }).pipe(Effect.provide(house))
)

it.scopedLive("acquires survive a cut connection as retryable failures", () =>
  Effect.gen(function* () {
    const limits = yield* RateLimits
    const { sql } = yield* Database
    yield* limits.register([{ scope: "github", capacity: 1000, rate: 1 }])
    const other = yield* TestDatabase.connection
    const cut = Effect.promise(() =>
      other.query(
        "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
      )
    )
    const acquiring = yield* Effect.fork(
      Effect.all(
        Array.from({ length: 200 }, () => Effect.either(limits.acquire("github", 1, { ahead: 2 }))),
        { concurrency: 20 }
      )
    )
    yield* cut
    const answers = yield* Fiber.join(acquiring)
    for (const answer of answers) {
      if (answer._tag === "Left") expect(answer.left).toMatchObject({ _tag: "DatabaseUnavailable" })
      else expect(answer.right).toMatchObject({ _tag: "Granted" })
    }
    // No connection is left in a transaction.
    const open = yield* Effect.retry(
      sql`select 1 from pg_stat_activity where datname = current_database() and state like 'idle in%'`,
      { times: 3 }
    )
    expect(open).toEqual([])
  }).pipe(Effect.provide(house))
)
