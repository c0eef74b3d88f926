import { describe, expect, it } from "@effect/vitest"
import { Duration, Effect, Schema } from "effect"
import * as Backoff from "../../src/core/Backoff.js"
import * as Handler from "../../src/handlers/Handler.js"
import * as Job from "../../src/queue/Job.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import { TestShift } from "../../src/testing/TestShift.js"

const Plain = Job.make("plain", { payload: Schema.Struct({}), queue: "mail" })
const Own = Job.make("own", { payload: Schema.Struct({}), queue: "mail", backoff: Backoff.fixed("3 seconds") })

const shift = TestShift.layer({
  handlers: [Handler.make(Plain, () => Effect.fail("no")), Handler.make(Own, () => Effect.fail("no"))]
})

/** Waits after a job's first failures, in seconds. */
const waits = (kind: typeof Plain, count: number) =>
  Effect.gen(function* () {
    const { advance, job, settle } = yield* TestShift
    const { id } = yield* kind.enqueue({})
    const found: Array<number> = []
    for (let time = 0; time < count; time += 1) {
      yield* settle
      const { runAt, updatedAt } = yield* job(id)
      found.push((runAt - updatedAt) / 1000)
      yield* advance(Duration.millis(runAt - updatedAt))
    }
    return found
  })

describe("the wait before a retry", () => {
  it.effect("follows the default ladder when neither kind nor queue has a curve", () =>
    Effect.gen(function* () {
      expect(yield* waits(Plain, 3)).toEqual([30, 120, 600])
    }).pipe(Effect.provide(shift))
  )

  it.effect("follows the queue's curve when enabled: doubling from its base, capped, with jitter", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* queues.declare(["mail"])
      const backoff = { enabled: true, base: Duration.seconds(10), max: Duration.seconds(25) }
      yield* queues.change("mail", { backoff })
      const found = yield* waits(Plain, 4)
      for (const [index, middle] of [10, 20, 25, 25].entries()) {
        expect(found[index]).toBeGreaterThanOrEqual(middle * 0.9)
        expect(found[index]).toBeLessThanOrEqual(middle * 1.1)
      }
    }).pipe(Effect.provide(shift))
  )

  it.effect("follows the kind's curve before the queue's", () =>
    Effect.gen(function* () {
      const queues = yield* Queues
      yield* queues.declare(["mail"])
      yield* queues.change("mail", { backoff: { enabled: true } })
      expect(yield* waits(Own, 2)).toEqual([3, 3])
    }).pipe(Effect.provide(shift))
  )
})
