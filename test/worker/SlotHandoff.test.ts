import { describe, expect, it } from "@effect/vitest"
import { DateTime, Deferred, Effect, Exit, Layer, Logger, LogLevel, Schedule, Schema, Scope } from "effect"
import type { JobId, Lease, PodId } from "../../src/core/Ids.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as Handler from "../../src/handlers/Handler.js"
import { DirectHandoff } from "../../src/queue/handoff/DirectHandoff.js"
import * as Job from "../../src/queue/Job.js"
import type { ClaimedJob } from "../../src/queue/Queue.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import { Pod } from "../../src/worker/Pod.js"
import { LocalQueue } from "../../src/worker/slots/LocalQueue.js"
import * as SlotHandoff from "../../src/worker/slots/SlotHandoff.js"
import * as TestDatabase from "../support/TestDatabase.js"

const claimed = (n: number): ClaimedJob => ({
  id: `job-${n}` as JobId,
  lease: "lease" as Lease,
  queue: "default",
  kind: "test",
  version: 1,
  payload: n,
  key: undefined,
  attempt: 1,
  attempts: 1,
  crashCount: 0,
  meta: undefined,
  createdAt: 0,
  runAt: 0,
  startedAt: 0
})

/** A queue's local queue that this many slots have found empty, open for direct handoff. */
const handoff = (idle: number) =>
  Effect.gen(function* () {
    const localQueue = new LocalQueue()
    for (let slot = 0; slot < idle; slot += 1) yield* Effect.forkScoped(localQueue.waiter(() => {}).somethingToDo)
    yield* Effect.yieldNow()
    const state = { caughtUp: true, mayTake: true, room: Number.POSITIVE_INFINITY, checks: 0 }
    const claimer = {
      wake: () => {},
      checkRoom: () => {
        state.checks += 1
      },
      isCaughtUp: () => state.caughtUp,
      stop: Effect.void
    }
    const scope = yield* Scope.make()
    yield* SlotHandoff.open({
      queue: "default",
      localQueue,
      claimer,
      mayTake: (kind) => state.mayTake && kind === "test",
      room: () => state.room
    }).pipe(Effect.provideService(Scope.Scope, scope))
    const { reserve } = yield* DirectHandoff
    return {
      localQueue,
      state,
      reserve: (count: number, kind = "test") => reserve("default", { kind, version: 1, count }),
      close: Scope.close(scope, Exit.void)
    }
  })

const house = Layer.merge(DirectHandoff.layer, Layer.succeed(Pod, { id: "pod" as PodId } as typeof Pod.Service))

describe("slots that wait for a job", () => {
  it.scoped("are promised up to their number, and are not free for a claim meanwhile", () =>
    Effect.gen(function* () {
      const { reserve, localQueue } = yield* handoff(3)
      const receiver = reserve(2)
      expect(receiver?.pod).toBe("pod")
      expect([localQueue.idleSlots, reserve(2)]).toEqual([1, undefined])
      expect(receiver?.take([claimed(1), claimed(2)])).toBe(true)
      expect([localQueue.size, localQueue.idleSlots]).toEqual([2, 1])
    }).pipe(Effect.provide(house))
  )

  it.scoped("are free again when a promised job does not arrive", () =>
    Effect.gen(function* () {
      const { reserve, localQueue, state } = yield* handoff(1)
      reserve(1)?.release(1)
      expect([localQueue.idleSlots, state.checks]).toEqual([1, 1])
    }).pipe(Effect.provide(house))
  )

  it.scoped("take no job past others that are due, nor while the queue may not start any", () =>
    Effect.gen(function* () {
      const { reserve, localQueue, state } = yield* handoff(2)
      state.caughtUp = false
      expect(reserve(1)).toBeUndefined()
      state.caughtUp = true
      state.mayTake = false
      expect(reserve(1)).toBeUndefined()
      state.mayTake = true
      expect(reserve(1, "other")).toBeUndefined()
      localQueue.put([claimed(1)])
      expect(reserve(1)).toBeUndefined()
    }).pipe(Effect.provide(house))
  )

  it.scoped("take no more jobs than may run beside those that the process holds", () =>
    Effect.gen(function* () {
      const { reserve, state } = yield* handoff(4)
      state.room = 2
      expect(reserve(3)).toBeUndefined()
      const receiver = reserve(1)
      expect(receiver?.pod).toBe("pod")
      // The promised job counts before it arrives.
      expect(reserve(2)).toBeUndefined()
      receiver?.release(1)
      expect(reserve(2)?.pod).toBe("pod")
      state.room = 0
      expect(reserve(1)).toBeUndefined()
    }).pipe(Effect.provide(house))
  )

  it.scoped("refuse jobs after they have closed", () =>
    Effect.gen(function* () {
      const { close, reserve, localQueue } = yield* handoff(2)
      const receiver = reserve(1)
      yield* close
      expect([receiver?.take([claimed(1)]), localQueue.size, reserve(1)]).toEqual([false, 0, undefined])
    }).pipe(Effect.provide(house))
  )
})

describe("a process that runs a job beside which only one other may run", () => {
  it.scopedLive("takes no two jobs that it enqueues", () =>
    Effect.gen(function* () {
      const url = yield* DatabaseUrl
      const suspect = Job.make("suspect", { payload: Schema.Struct({}) })
      const other = Job.make("other", { payload: Schema.Boolean })
      const begun = yield* Deferred.make<void>()
      const gate = yield* Deferred.make<void>()
      const held = Effect.zipRight(Deferred.succeed(begun, undefined), Deferred.await(gate))
      const handlers = [
        Handler.make(suspect, () => held),
        Handler.make(other, (waits) => (waits ? Deferred.await(gate) : Effect.void))
      ]
      yield* Effect.gen(function* () {
        const { sql } = yield* Database
        const statuses = Effect.map(
          sql<{ status: string }>`select status from nightshift.job where kind = 'other'`,
          (rows) => rows.map(({ status }) => status).sort()
        )
        const until = (wanted: ReadonlyArray<string>) =>
          Effect.repeat(statuses, {
            until: (found) => found.join() === wanted.join(),
            schedule: Schedule.spaced("20 millis")
          })
        const { id } = yield* suspect.enqueue({}, { runAt: DateTime.unsafeMake(Date.UTC(2100, 0)) })
        yield* sql`update nightshift.job set crash_count = 2, run_at = created_at where id = ${id}`
        yield* Deferred.await(begun)
        yield* other.enqueue(false)
        yield* until(["done"])
        yield* Effect.all([other.enqueue(true), other.enqueue(true), other.enqueue(true)], { concurrency: "unbounded" })
        yield* until(["done", "pending", "pending", "running"])
        yield* Deferred.succeed(gate, undefined)
        yield* until(["done", "done", "done", "done"])
      }).pipe(
        Effect.provide(Nightshift.layer({ handlers, queues: { default: 8 }, databaseUrl: url })),
        Logger.withMinimumLogLevel(LogLevel.None)
      )
    }).pipe(Effect.provide(TestDatabase.layer))
  )
})
