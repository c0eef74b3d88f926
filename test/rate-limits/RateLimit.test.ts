import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Either, Schema } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import * as RateLimit from "../../src/rate-limits/RateLimit.js"
import { RateLimits } from "../../src/rate-limits/RateLimits.js"
import { TestShift } from "../../src/testing/effect.js"
import { waiting } from "../support/States.js"

const GithubLimit = RateLimit.make("github", { capacity: 2, rate: 0.5 })
const Sync = Job.make("sync", { payload: Schema.Struct({}), attempts: 1 })

const byEffect = Handler.make(Sync, () => GithubLimit.acquire)
const byPromise = Handler.promise(Sync, async (_, { acquire }) => acquire(GithubLimit))
const inTransaction = Handler.makeInTransaction(Sync, () => GithubLimit.acquire)

const shift = (handler: Handler.Handler<RateLimits | import("../../src/queue/Queue.js").Queue>) =>
  TestShift.layer({ handlers: [handler], limits: [GithubLimit] })

describe.each([
  ["an effect", byEffect],
  ["a promise", byPromise],
  ["a transaction", inTransaction]
])("a handler by %s, under a limit", (_, handler) => {
  it.effect("returns its attempt when the bucket is empty, and runs as tokens refill", () =>
    Effect.gen(function* () {
      const { advance, drain, jobs, settle } = yield* TestShift
      yield* Sync.enqueueMany([{}, {}, {}, {}, {}])
      yield* settle
      const states = Effect.map(jobs, (all) => all.map(({ state }) => state).sort())
      expect(yield* states).toEqual(["done", "done", "scheduled", "scheduled", "scheduled"])
      yield* advance("2 seconds")
      expect((yield* states).filter((state) => state === "done")).toHaveLength(3)
      yield* drain
      const all = yield* jobs
      expect(all.map(({ attempt, state }) => [state, attempt])).toEqual(Array(5).fill(["done", 1]))
      // Each job ran after its returned wait: none was refused twice.
      expect(all.flatMap(({ history }) => history.map(({ outcome }) => outcome))).toEqual(
        Array(3).fill("throttled by github")
      )
    }).pipe(Effect.provide(shift(handler)))
  )
})

describe("a limit", () => {
  it.effect("is waited for up to the handler's timeout", () =>
    Effect.gen(function* () {
      const { advance, job, settle, why } = yield* TestShift
      const limits = yield* RateLimits
      yield* limits.acquire("github", 2)
      const { id } = yield* Sync.enqueue({})
      yield* settle
      expect(yield* job(id)).toMatchObject({ state: "running" })
      yield* advance("2 seconds")
      expect(yield* job(id)).toMatchObject({ state: "done", history: [] })
      const { id: later } = yield* Sync.enqueue({})
      yield* limits.drain("github", Duration.minutes(1))
      yield* settle
      expect(yield* job(later)).toMatchObject({ state: waiting, history: [{ outcome: "throttled by github" }] })
      const { runAt } = yield* job(later)
      expect(yield* why(later)).toEqual({
        reason: "rate_limited",
        detail: expect.stringContaining('Limit "github" had no token for it. It now has 0 of 2 tokens.'),
        until: runAt
      })
      expect(yield* why(id)).toMatchObject({ reason: "done" })
    }).pipe(Effect.provide(shift(Handler.make(Sync, () => GithubLimit.take(1, { timeout: "3 seconds" })))))
  )

  it.effect("that an upstream refused blocks every handler for the upstream's delay", () =>
    Effect.gen(function* () {
      const { advance, job, settle } = yield* TestShift
      const { id } = yield* Sync.enqueue({})
      yield* settle
      const refused = yield* job(id)
      expect(refused).toMatchObject({ state: waiting, attempt: 0, runAt: 62_000 })
      const limits = yield* RateLimits
      expect(yield* limits.get("github")).toMatchObject({ tokens: 0, dryUntil: 60_000 })
      yield* advance("62 seconds")
      expect((yield* job(id)).runAt).toBe(124_000)
    }).pipe(
      Effect.provide(
        shift(
          Handler.promise(Sync, async (_, { acquire, refused }) => {
            await acquire(GithubLimit)
            await refused(GithubLimit, "1 minute")
          })
        )
      )
    )
  )

  it.effect("that was not declared is a failure that says what to do", () =>
    Effect.gen(function* () {
      const { job, settle } = yield* TestShift
      const { id } = yield* Sync.enqueue({})
      yield* settle
      const { lastError, state } = yield* job(id)
      expect(state).toBe("dead")
      expect(lastError).toMatch(/^UnknownScope: Limit "github" is not declared\. Create it with RateLimit\.make/)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [byEffect] })))
  )

  it.effect("counts per second, or per any other period", () =>
    Effect.sync(() => {
      expect(RateLimit.make("a", { capacity: 1, rate: 5 }).rate).toBe(5)
      expect(RateLimit.make("a", { capacity: 1, rate: { tokens: 7200, per: "1 hour" } }).rate).toBe(2)
      expect(RateLimit.make("a", { capacity: 1, rate: { tokens: 7200, per: "1h" } }).rate).toBe(2)
    })
  )

  it.effect("throttles by its configured scope, and can be caught by tag", () =>
    Effect.gen(function* () {
      const limit = RateLimit.make("github", { capacity: 2, rate: 0.5, throttles: "queue" })
      yield* limit.take(2)
      const answer = yield* Effect.either(
        Effect.catchTag(limit.acquire, "Throttled", (outcome) => Effect.fail(outcome))
      )
      expect(Either.getLeft(answer)).toMatchObject({
        value: Outcome.throttled({ after: Duration.seconds(2), scope: "queue" })
      })
    }).pipe(Effect.provide(shift(byEffect)))
  )
})

describe("an outcome that a handler fails with", () => {
  const ends = (
    outcome: Outcome.Outcome,
    how: (outcome: Outcome.Outcome) => Effect.Effect<never, unknown> = Effect.fail
  ) =>
    Effect.gen(function* () {
      const { job, settle } = yield* TestShift
      const { id } = yield* Sync.enqueue({})
      yield* settle
      return yield* job(id)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Sync, () => how(outcome))] })))

  it.effect("ends the job, except that failing with Done is a failure", () =>
    Effect.gen(function* () {
      expect(yield* ends(Outcome.dead("no"))).toMatchObject({ state: "dead", reason: "rejected", lastError: "no" })
      expect(yield* ends(Outcome.dead("thrown"), Effect.die)).toMatchObject({ state: "dead", lastError: "thrown" })
      expect(yield* ends(Outcome.snooze(Duration.minutes(1)))).toMatchObject({ state: waiting, attempt: 0 })
      expect(yield* ends(Outcome.done(7))).toMatchObject({ state: "dead", reason: "exhausted" })
    })
  )
})
