import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Either, Schema } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { admit } from "../../src/queue/NewJob.js"
import { TestShift } from "../../src/testing/TestShift.js"

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
          const { id } = yield* Patient.enqueue({ wait, how })
          yield* shift.settle
          const job = yield* shift.job(id)
          expect(job).toMatchObject({ state: "dead", reason: "rejected" })
          expect(job.lastError).toContain(`after of Outcome.${how.trim()} must be at most 36500 days, got ${wait}`)
        }
      }
    }).pipe(Effect.provide(TestShift.layer({ handlers: [patient] })))
  )

  it.effect("ends its job when its backoff is infinite, and keeps the error", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { id } = yield* Eternal.enqueue({})
      yield* shift.settle
      const job = yield* shift.job(id)
      expect(job).toMatchObject({ state: "dead", reason: "rejected" })
      expect(job.lastError).toMatch(/^no luck\nthe delay of the kind's backoff must be at most 36500 days/)
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Eternal, () => Effect.fail("no luck"))] })))
  )

  it.effect("gets a delay and a dedupe window of that length refused by name", () =>
    Effect.gen(function* () {
      for (const wait of Object.values(waits)) {
        expect(yield* Effect.flip(Eternal.job({}, { delay: wait }))).toMatchObject({ field: "delay" })
        const dedupe = { key: "k", scope: "retained", window: wait } as const
        const job = yield* Eternal.job({}, { dedupe })
        expect(Either.flip(admit(job, { ids: yield* makeGenerator, now: 0 }))).toMatchObject({
          right: { field: "dedupe.window" }
        })
      }
    })
  )
})
