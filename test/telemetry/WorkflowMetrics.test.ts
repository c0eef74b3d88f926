import { describe, expect, it } from "@effect/vitest"
import { Effect } from "effect"
import { z } from "zod"
import { ofRecipe } from "../../src/client/Handlers.js"
import { workflow } from "../../src/client/index.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { WorkflowTally } from "../../src/telemetry/WorkflowTally.js"
import { TestShift } from "../../src/testing/TestShift.js"
import * as PrometheusText from "../support/PrometheusText.js"

const order = workflow("order", { payload: z.object({ fails: z.boolean() }) }, async ({ fails }, step) => {
  await step.run(
    "charge",
    ({ attempt }) => {
      if (fails || attempt === 1) throw new Error("no")
    },
    { attempts: 2 }
  )
  await step.sleep("cool off", "1h")
  await step.waitFor("approval")
})

const start = (execution: string, fails: boolean) =>
  Effect.flatMap(Workflows, (workflows) =>
    workflows.start({ kind: "order", version: 1, queue: "default", attempts: 5, payload: { fails }, execution })
  )

/** The samples of a metric, by their label values. */
const read = (name: string) =>
  Effect.gen(function* () {
    // Other tests of this process have metrics of their own.
    const lines = (yield* (yield* Metrics).render).split("\n").filter((line) => line.includes("nightshift_workflow"))
    const page = PrometheusText.parse(`${lines.join("\n")}\n`)
    const { samples = [], type } = page.get(`nightshift_${name}`) ?? {}
    expect(type).toBe("counter")
    return Object.fromEntries(samples.map(({ labels, value }) => [Object.values(labels).join(" "), value]))
  })

describe("the metrics of workflows", () => {
  it.effect("count ends, recorded steps and signals, each once", () =>
    Effect.gen(function* () {
      const shift = yield* TestShift
      const { cancel, signal } = yield* Workflows
      yield* start("done", false)
      yield* start("failed", true)
      yield* start("cancelled", false)
      yield* start("cancelled now", false)
      yield* shift.advance("2 hours")
      yield* cancel("cancelled")
      yield* cancel("cancelled now", { now: true })
      yield* signal({ execution: "done", name: "approval", value: 1, id: "one" })
      yield* signal({ execution: "done", name: "approval", value: 2, id: "one" })
      yield* shift.settle
      expect(yield* read("workflow_executions_ended_total")).toEqual({
        "order completed": 1,
        "order failed": 1,
        "order cancelled": 2
      })
      expect(yield* read("workflow_steps_recorded_total")).toEqual({
        "run retrying": 4,
        "run done": 3,
        "run failed": 1,
        "sleep done": 3,
        "signal done": 1
      })
      expect(yield* read("workflow_signals_total")).toEqual({ delivered: 1, repeated: 1 })
    }).pipe(Effect.provide(TestShift.layer({ handlers: [ofRecipe(order)] })))
  )

  it.effect("count workflows beyond a number of names together", () =>
    Effect.gen(function* () {
      const tally = new WorkflowTally(yield* Metrics)
      for (let n = 0; n < 600; n += 1) tally.ended(`workflow-${n}`, "completed")
      tally.ended("workflow-0", "failed")
      const ended = yield* read("workflow_executions_ended_total")
      expect(Object.keys(ended).length).toBe(502)
      expect(ended["(other) completed"]).toBe(100)
      expect(ended["workflow-0 failed"]).toBe(1)
    }).pipe(Effect.provide(Metrics.layer))
  )
})
