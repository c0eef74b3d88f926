import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Either, Layer, Schema } from "effect"
import * as Outcome from "../../src/core/Outcome.js"
import { Finalizer } from "../../src/crew/worker/Finalizer.js"
import * as Listener from "../../src/database/Listener.js"
import * as Handler from "../../src/handlers/Handler.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { admit } from "../../src/queue/enqueue/NewJob.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { TestShift } from "../../src/testing/TestShift.js"
import * as TestDatabase from "../support/TestDatabase.js"

const waits = {
  infinite: Duration.infinity,
  "1000000000000 days": Duration.days(1e12)
}

const outcomes = {
  snooze: Outcome.snooze,
  retry: (wait: Duration.Duration) => Outcome.retry("not now", wait),
  throttled: (after: Duration.Duration) => Outcome.throttled({ after, scope: "job" }),
  "throttled ": (after: Duration.Duration) => Outcome.throttled({ after })
}

const Patient = Job.make("patient", {
  payload: Schema.Struct({
    wait: Schema.Literal("infinite", "1000000000000 days"),
    how: Schema.Literal("snooze", "retry", "throttled", "throttled ")
  })
})
const Eternal = Job.make("eternal", { payload: Schema.Struct({}), backoff: () => Duration.infinity })

const patient = Handler.make(Patient, ({ how, wait }) => Effect.sync(() => outcomes[how](waits[wait])))

describe("a handler that requests an impossible wait", () => {
  it.effect("ends its job with the reason, and its queue continues", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      for (const wait of ["infinite", "1000000000000 days"] as const) {
        for (const how of ["snooze", "retry", "throttled", "throttled "] as const) {
          const id = yield* Patient.enqueue({ wait, how })
          yield* shift.settle
          const job = yield* shift.job(id)
          expect(job).toMatchObject({ state: "dead", deadReason: "rejected" })
          expect(job.lastError).toContain(`after of Outcome.${how.trim()} must be at most 36500 days, got ${wait}`)
        }
      }
    }).pipe(Effect.provide(TestShift.layer({ handlers: [patient] })))
  )

  it.effect("ends its job when its backoff is infinite, and keeps the error", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const id = yield* Eternal.enqueue({})
      yield* shift.settle
      const job = yield* shift.job(id)
      expect(job).toMatchObject({ state: "dead", deadReason: "rejected" })
      expect(job.lastError).toMatch(/^no luck\nthe delay of the kind's backoff must be at most 36500 days/)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Eternal, () => Effect.fail("no luck"))] })))
  )

  it.effect("gets a delay and a dedupe window of that length refused by name", () =>
    Effect.gen(function* () {
      for (const wait of Object.values(waits)) {
        expect(yield* Effect.flip(Eternal.job({}, { delay: wait }))).toMatchObject({ field: "delay" })
        const dedupe = { key: "k", scope: "retained", window: wait } as const
        const job = yield* Eternal.job({}, { dedupe })
        expect(Either.flip(admit(job, 0))).toMatchObject({ right: { field: "dedupe.window" } })
      }
    })
  )
})

const house = Layer.merge(Finalizer.layer, QueuePg.layer).pipe(
  Layer.provideMerge(QueuePg.layer),
  Layer.provide(Listener.layerPolling),
  Layer.provideMerge(TestDatabase.layer),
  Layer.provide(Metrics.layer)
)

describe("a result that PostgreSQL refuses", () => {
  it.scopedLive("leaves its job dead with the reason, and the other results of the batch are written", () =>
    Effect.gen(function* () {
      const queue = yield* Queue
      const search = yield* JobSearch
      const finalizer = yield* Finalizer
      const job = { kind: "test", version: 1, queue: "ends", payload: {}, maxAttempts: 5 }
      yield* queue.enqueue([job, job, job])
      const [bad, good, plain] = yield* queue.claim({
        queue: "ends",
        pod: "0198c0de-0000-7000-8000-000000000001" as never,
        limit: 3
      })
      if (bad === undefined || good === undefined || plain === undefined) return yield* Effect.dieMessage("three jobs")
      const again = (runAt: number) => End.Again({ runAt, counted: true, error: "no luck", remember: "failed" })
      finalizer.offer({ id: bad.id, lease: bad.lease, end: again(1e300) })
      finalizer.offer({ id: good.id, lease: good.lease, end: again(good.runAt) })
      finalizer.offer({ id: plain.id, lease: plain.lease, end: End.Done({ result: undefined }) })
      yield* finalizer.drained
      const dead = yield* search.get(bad.id)
      expect(dead).toMatchObject({ state: "dead", deadReason: "rejected", pod: undefined })
      expect(dead.lastError).toMatch(/^the database rejected the result of this attempt \(SQLSTATE 22008\)/)
      expect(yield* search.get(good.id)).toMatchObject({ state: "retrying", lastError: "no luck" })
      expect(yield* search.get(plain.id)).toMatchObject({ state: "done" })
    }).pipe(Effect.provide(house))
  )
})
