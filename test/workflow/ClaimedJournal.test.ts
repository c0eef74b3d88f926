import { expect, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import { makeGenerator } from "../../src/core/Ids.js"
import { never } from "../../src/core/Suspension.js"
import * as Listener from "../../src/database/Listener.js"
import { End } from "../../src/queue/AttemptEnd.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueuePg from "../../src/queue/QueuePg.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as TestDatabase from "../support/TestDatabase.js"

const house = QueuePg.layer.pipe(Layer.provide(Listener.layerPolling), Layer.provideMerge(TestDatabase.layer))

/** An execution that has recorded steps, waited for a signal and is claimed again. */
const resumed = (name: string, steps: number, value: string) =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const workflows = yield* Workflows
    const pod = (yield* makeGenerator).pod(yield* Clock.currentTimeMillis)
    const claim = Effect.flatMap(queue.claim({ queue: name, pod, limit: 1 }), ([job]) =>
      job === undefined ? Effect.dieMessage("one is due") : Effect.succeed(job)
    )
    yield* workflows.start({ kind: "order", version: 1, queue: name, payload: {}, attempts: 5, execution: name })
    const first = yield* claim
    expect(first.execution?.journal).toBeUndefined()
    for (let sequence = 1; sequence <= steps; sequence += 1) {
      yield* workflows.record(first, {
        name: `step ${sequence}`,
        kind: "run",
        attempt: 1,
        sequence,
        outcome: "done",
        exit: { value },
        startedAt: 0
      })
    }
    const waits = [{ kind: "signal", name: "go" } as const]
    yield* queue.finalize([
      { ...first, linked: true, end: End.Suspended({ woken: 0, waits, error: undefined, runAt: never }) }
    ])
    yield* workflows.signal({ execution: name, name: "go", value: { by: "ada" } })
    return yield* claim
  })

layer(house, { excludeTestServices: true })("the claim of an execution that has run before", (it) => {
  it.effect("brings its journal, as a read after it would", () =>
    Effect.gen(function* () {
      const workflows = yield* Workflows
      const job = yield* resumed("small", 3, "paid")
      expect(job.execution?.journal).toEqual(yield* workflows.load(job))
      expect(job.execution?.journal?.waits).toMatchObject([{ kind: "signal", name: "go", exit: { by: "ada" } }])
    })
  )

  it.effect("leaves a large journal to the run", () =>
    Effect.gen(function* () {
      expect((yield* resumed("many", 70, "paid")).execution?.journal).toBeUndefined()
      // Random, because equal letters are compressed.
      const text = Array.from({ length: 3_000 }, () => Math.random().toString(36).slice(2)).join("")
      expect((yield* resumed("large", 1, text)).execution?.journal).toBeUndefined()
    })
  )
})
