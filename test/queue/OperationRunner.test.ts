import { describe, expect, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import * as Handler from "../../src/handlers/Handler.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import * as Job from "../../src/queue/Job.js"
import { TestShift } from "../../src/testing/TestShift.js"

const Flaky = Job.make("flaky", { payload: Schema.Struct({}), attempts: 1 })

const statesOf = Effect.flatMap(TestShift, ({ jobs }) => Effect.map(jobs, (all) => all.map(({ state }) => state)))

describe("a pod", () => {
  it.effect("runs an operation as soon as it is created", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const operations = yield* Operations
      yield* Flaky.enqueueMany([{}, {}, {}])
      yield* shift.settle
      expect(yield* statesOf).toEqual(["dead", "dead", "dead"])
      const { id } = yield* operations.begin({ action: "delete", who: "test", target: { filter: { state: "dead" } } })
      yield* shift.settle
      expect(yield* statesOf).toEqual([])
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 3 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Flaky, () => Effect.fail("no"))] })))
  )

  it.effect("resumes an operation that was created while no pod was running", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const operations = yield* Operations
      const ids = yield* Flaky.enqueueMany([{}, {}], { delay: "1 day" })
      yield* shift.stopPod
      const target = { ids: ids.map(({ id }) => id) }
      const { id } = yield* operations.begin({ action: "cancel", who: "test", target })
      yield* shift.settle
      expect(yield* operations.get(id)).toMatchObject({ status: "running" })
      yield* shift.crashPod
      yield* shift.settle
      expect(yield* operations.get(id)).toMatchObject({ status: "done", done: 2 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [Handler.make(Flaky, () => Effect.void)] })))
  )
})
