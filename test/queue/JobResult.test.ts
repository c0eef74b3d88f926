import { describe, expect, it } from "@effect/vitest"
import { Cause, Effect, Fiber, Schema } from "effect"
import { fromCause } from "../../src/client/FromCause.js"
import { JobDeadError } from "../../src/client/ShiftErrors.js"
import * as Outcome from "../../src/core/Outcome.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { JobAdmin } from "../../src/queue/JobAdmin.js"
import { TestShift } from "../../src/testing/TestShift.js"

const Pick = Job.make("pick", { payload: Schema.Struct({ ok: Schema.Boolean }) })
const handler = Handler.make(Pick, ({ ok }) => Effect.succeed(ok ? { picked: 1 } : Outcome.dead("not today.")))

const shift = Effect.provide(TestShift.layer({ handlers: [handler] }))

describe("the result of a job", () => {
  it.effect("is awaited", () =>
    Effect.gen(function* () {
      const { settle } = yield* TestShift
      const { id } = yield* Pick.enqueue({ ok: true })
      const waiting = yield* Effect.fork(Job.result(id))
      yield* settle
      expect(yield* Fiber.join(waiting)).toEqual({ picked: 1 })
    }).pipe(shift)
  )

  it.effect("of a dead job is an error, with the fields and the text of the one that promises reject with", () =>
    Effect.gen(function* () {
      const { settle } = yield* TestShift
      const { id } = yield* Pick.enqueue({ ok: false })
      yield* settle
      const dead = yield* Effect.flip(Job.result(id))
      const fields = { id, reason: "rejected", attempt: 1, lastError: "not today." }
      const message = `Job ${id} is dead (rejected) after 1 attempt: not today. Fix the cause, then requeue it.`
      expect(dead).toMatchObject({ _tag: "JobDead", message, ...fields })
      expect(fromCause(Cause.fail(dead))).toMatchObject({ name: "JobDeadError", code: "JOB_DEAD", message, ...fields })
    }).pipe(shift)
  )

  it.effect("of a cancelled job is an error of its own", () =>
    Effect.gen(function* () {
      const { id } = yield* Pick.enqueue({ ok: true }, { delay: "1h" })
      yield* Effect.flatMap(JobAdmin, ({ cancel }) => cancel(id))
      const cancelled = yield* Effect.flip(Job.result(id))
      const message = `Job ${id} was cancelled. Requeue it to run it again.`
      expect(cancelled).toMatchObject({ _tag: "JobCancelled", id, attempt: 0, message })
      const rejected = fromCause(Cause.fail(cancelled))
      expect(rejected).toMatchObject({ name: "JobCancelledError", code: "JOB_CANCELLED", id, attempt: 0, message })
      expect(rejected).not.toBeInstanceOf(JobDeadError)
    }).pipe(shift)
  )

  it.effect("is not awaited for longer than the timeout", () =>
    Effect.gen(function* () {
      const { id } = yield* Pick.enqueue({ ok: true }, { delay: "1h" })
      const late = yield* Effect.flip(Job.result(id, { timeout: 0 }))
      const detail = "It is still queued or running. Call result() again, or use a longer timeout."
      const message = `Job ${id} was not done within 0s. ${detail}`
      expect(late).toMatchObject({ _tag: "ResultTimeout", id, timeout: 0, message })
      expect(fromCause(Cause.fail(late))).toMatchObject({ name: "ResultTimeoutError", code: "RESULT_TIMEOUT", message })
    }).pipe(shift)
  )
})
