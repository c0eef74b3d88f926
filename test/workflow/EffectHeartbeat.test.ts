import { assert, it } from "@effect/vitest"
import { Activity } from "@effect/workflow"
import { Cause, Effect, Exit, Schema } from "effect"
import { NightshiftWorkflow } from "../../src/workflow/index.js"
import { advance, crash, exitOf, on, settle, show, start } from "./EffectOrder.js"

it.effect("an activity of hours sends heartbeats, and continues after a crash with the last one", () => {
  const log: Array<number> = []
  const copy = Activity.make({
    name: "copy",
    success: Schema.Number,
    execute: Effect.gen(function* () {
      let page = Number((yield* NightshiftWorkflow.lastHeartbeat) ?? 0)
      log.push(page)
      while (page < 9) {
        yield* Effect.sleep("10 minutes")
        page += 1
        yield* NightshiftWorkflow.heartbeat(page)
      }
      return page
    })
  })
  return on(
    () => copy,
    Effect.gen(function* () {
      const id = yield* start()
      yield* settle
      yield* advance("1 hour")
      const { heartbeats, state } = yield* show(id)
      assert.deepStrictEqual(
        [state, ...heartbeats.map(({ details, step }) => [step, details])],
        ["running", ["copy", 6]]
      )
      yield* crash
      // The job is recovered an hour later.
      for (let hour = 0; hour < 2; hour += 1) yield* advance("1 hour")
      assert.deepStrictEqual([yield* exitOf(id), log], [Exit.succeed(9), [0, 6]])
      assert.deepStrictEqual((yield* show(id)).heartbeats, [])
    })
  )
})

it.effect("a heartbeat outside of an activity is a defect", () =>
  on(
    () => NightshiftWorkflow.heartbeat(1),
    Effect.gen(function* () {
      const id = yield* start()
      yield* settle
      const exit = yield* exitOf(id)
      assert.include(
        Exit.isExit(exit) && Exit.isFailure(exit) ? Cause.pretty(exit.cause) : "",
        "A heartbeat is only possible inside an activity"
      )
    })
  )
)
