import { randomBytes } from "node:crypto"
import { expect, it } from "@effect/vitest"
import { DurableDeferred, Workflow } from "@effect/workflow"
import { Context, Effect, Either, Layer, Schema, TestClock } from "effect"
import { type Codec, seal } from "../../src/codec/index.js"
import type { PodId } from "../../src/core/Ids.js"
import { computed, type FollowUp } from "../../src/core/StoredJob.js"
import * as Handler from "../../src/handlers/Handler.js"
import { End } from "../../src/queue/AttemptEnd.js"
import * as Job from "../../src/queue/Job.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { JobSearch } from "../../src/queue/search/JobSearch.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as Seal from "../../src/seal/Seal.js"
import { TestShift } from "../../src/testing/effect.js"
import { NightshiftWorkflow } from "../../src/workflow/index.js"

const Report = Job.make("report", { payload: Schema.Struct({ patient: Schema.String }) })

const inner = seal({ keys: [{ id: "k1", key: randomBytes(32) }] })
const sealed: Array<string> = []
/** Keeps what it seals. */
const codec = {
  ...inner,
  seal: (json: string) => {
    sealed.push(json)
    return inner.seal(json)
  }
}

it.effect("the Effect form seals what it stores, on virtual time", () =>
  Effect.gen(function* () {
    const shift = yield* TestShift
    const { id } = yield* Report.enqueue({ patient: "Ada" }, { delay: "1 day" })
    yield* shift.advance("1 day")
    expect(sealed).toEqual(['{"patient":"Ada"}', '"report of Ada"'])
    expect(yield* Effect.flatMap(JobSearch, (search) => search.get(id))).toMatchObject({
      state: "done",
      payload: { patient: "Ada" },
      result: "report of Ada"
    })
  }).pipe(
    Effect.provide(
      TestShift.layer({
        handlers: [Handler.make(Report, ({ patient }) => Effect.succeed(`report of ${patient}`))],
        codec
      })
    )
  )
)

it.effect("the journal of an Effect workflow has the value of a signal sealed, as it was sent by the API", () => {
  const Consent = DurableDeferred.make("consent", { success: Schema.Struct({ patient: Schema.String }) })
  const Study = Workflow.make({
    name: "study",
    payload: { id: Schema.String },
    success: Schema.String,
    idempotencyKey: ({ id }) => id
  })
  const engine = NightshiftWorkflow.make([Study])
  const code = Study.toLayer(() => Effect.map(DurableDeferred.await(Consent), ({ patient }) => patient.toUpperCase()))
  return Effect.gen(function* () {
    const shift = yield* TestShift
    const id = yield* Study.execute({ id: "A" }, { discard: true })
    yield* shift.settle
    sealed.length = 0
    yield* Effect.flatMap(Workflows, ({ signal }) =>
      signal({ execution: id, name: "consent", value: { patient: "Ada" } })
    )
    yield* shift.drain
    // As a signal and as a step.
    expect(sealed).toEqual(['{"patient":"Ada"}', '{"patient":"Ada"}', '"ADA"'])
  }).pipe(
    Effect.provide(
      code.pipe(
        Layer.provideMerge(engine.layer),
        Layer.provideMerge(TestShift.layer({ handlers: engine.handlers, codec }))
      )
    )
  )
})

/** A codec whose data keys come from a service, and are replaced at once. */
const withService = (wrap: (dataKey: Uint8Array) => Promise<{ id: string; wrapped: Uint8Array }>) =>
  seal({ keys: { wrap, unwrap: async (_, wrapped) => wrapped }, renew: { minutes: 0.000_000_1 } })

it.scoped("a follow-up that waited for keys of a service is made in the next pass, whatever their age is then", () =>
  Effect.gen(function* () {
    const ports = yield* Layer.build(Layer.provide(QueueMemory.layer, Wakeups.layer))
    const under = (codec: Codec) => Context.get(Seal.over(codec)(ports), Queue)
    const wrap = async (wrapped: Uint8Array) => ({ id: "kms", wrapped })
    const sealing = under(withService(wrap))
    yield* sealing.enqueue([{ queue: "q", kind: "k", version: 1, payload: { n: 1 }, attempts: 1, onDead: computed }])
    const [run] = yield* sealing.claim({ queue: "q", pod: "p" as PodId, limit: 1 })
    if (run === undefined) return expect.unreachable("the job was not claimed")
    yield* sealing.finalize([{ ...run, end: End.Dead({ reason: "rejected", counted: true, error: "no" }) }])

    let isDown = true
    const queue = under(withService((dataKey) => (isDown ? Promise.reject(new Error("KMS down")) : wrap(dataKey))))
    const followUp: FollowUp = { kind: "f", version: 1, queue: "after", payload: undefined, attempts: 1 }
    const pass = Effect.gen(function* () {
      yield* TestClock.adjust("1 hour")
      const { made } = yield* queue.makeFollowUps(["k"], ({ payload }) => Either.right({ ...followUp, payload }))
      // The answer of the service.
      yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
      return made
    })
    expect(yield* pass).toBe(0)
    isDown = false
    expect([yield* pass, yield* pass, yield* pass]).toEqual([0, 1, 0])
    const search = Context.get(Seal.over(withService(wrap))(ports), JobSearch)
    const { jobs } = yield* search.list({ queue: "after" }, { limit: 10 })
    expect(jobs).toMatchObject([{ kind: "f", payload: { n: 1 } }])
  })
)
