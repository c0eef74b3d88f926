import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, type Redacted } from "effect"
import { z } from "zod"
import { ofRecipe } from "../../src/client/Handlers.js"
import { workflow } from "../../src/client/index.js"
import { Nightshift } from "../../src/index.js"
import { Workflows } from "../../src/queue/workflow/Workflows.js"
import * as TestDatabase from "../support/TestDatabase.js"
import * as Collector from "./Collector.js"

const Order = z.object({ id: z.string() })
const settings = { payload: Order, key: (order: { id: string }) => order.id, queue: "orders" }

const parcel = workflow("parcel", settings, async (_, step) => {
  await step.run("pack", () => "hunter2")
})

const order = workflow("order", settings, async ({ id }, step) => {
  let calls = 0
  await step.run(
    "charge",
    ({ attempt }) => {
      calls += attempt
      if (attempt === 1) throw new TypeError("hunter2")
      return calls
    },
    { backoff: "10ms" }
  )
  await step.waitFor("approval")
  await step.all("ship", [`${id}-1`, `${id}-2`], (each) => parcel({ id: each }))
  return "hunter2"
})

const hex = (id: string) => id.replaceAll("-", "")

/** Runs an effect in a process with a collector; the next call is another process on the same database. */
const inProcess = <A, E>(url: Redacted.Redacted, collector: string, effect: Effect.Effect<A, E, Workflows>) =>
  effect.pipe(
    Effect.provide(Nightshift.layer({ handlers: [order, parcel].map(ofRecipe), queues: ["orders"], databaseUrl: url })),
    Effect.provide(
      Layer.setConfigProvider(ConfigProvider.fromMap(new Map([["OTEL_EXPORTER_OTLP_ENDPOINT", collector]])))
    )
  )

const until = (execution: string, state: string) =>
  Effect.gen(function* () {
    const { show } = yield* Workflows
    const found = Effect.delay(show(execution), "20 millis")
    return yield* Effect.repeat(found, { until: (each) => each.state === state })
  })

describe("the trace of an execution", () => {
  it.scopedLive("has one id in all processes, a span per step and links to its children", () =>
    Effect.gen(function* () {
      const url = yield* TestDatabase.migrated
      const collector = yield* Collector.make
      const first = yield* inProcess(
        url,
        collector.url,
        Effect.gen(function* () {
          const { start } = yield* Workflows
          const execution = { kind: "order", version: 1, queue: "orders", attempts: 5, payload: { id: "A" } }
          yield* start({ ...execution, execution: "order/A" })
          return yield* until("order/A", "waiting")
        })
      )
      const traceId = hex(first.id)
      const second = yield* inProcess(
        url,
        collector.url,
        Effect.gen(function* () {
          const { signal } = yield* Workflows
          yield* signal({ execution: "order/A", name: "approval", value: "hunter2" })
          return yield* until("order/A", "done")
        })
      )
      const spans = collector.spans().filter((span) => span.traceId === traceId)
      const named = (name: string) => spans.filter((span) => span.name === name)
      const steps = spans.filter(({ name }) => name.startsWith("step "))

      const [root] = named("execute order")
      expect(root).toMatchObject({ spanId: traceId.slice(16), status: {} })
      expect(root?.parentSpanId).toBeUndefined()
      expect(root?.about).toMatchObject({
        "nightshift.execution.id": "order/A",
        "nightshift.execution.outcome": "completed"
      })
      const runs = named("process orders")
      expect(runs.map(({ about }) => about["nightshift.job.outcome"])).toEqual(["suspended", "suspended", "done"])
      expect(new Set(runs.map(({ parentSpanId }) => parentSpanId))).toEqual(new Set([root?.spanId]))

      expect(
        steps.map(({ about }) => [
          about["nightshift.step.name"],
          about["nightshift.step.kind"],
          about["nightshift.step.attempt"],
          about["nightshift.step.outcome"]
        ])
      ).toEqual([
        ["charge", "run", "1", "retrying"],
        ["charge", "run", "2", "done"],
        ["approval", "signal", "1", "done"],
        ["ship", "children", "1", "done"]
      ])
      const [retried, charged, approved, shipped] = steps
      expect(retried?.about["error.type"]).toBe("TypeError")
      expect([retried, charged].map((span) => span?.parentSpanId)).toEqual([runs[0]?.spanId, runs[0]?.spanId])
      // A wait is longer than any run, so it belongs to the execution.
      expect([approved, shipped].map((span) => span?.parentSpanId)).toEqual([root?.spanId, root?.spanId])
      expect(BigInt(approved?.startTimeUnixNano ?? 0)).toBeLessThan(BigInt(runs[1]?.startTimeUnixNano ?? 0))

      const children = second.children.map(({ id }) => id)
      const sent = spans.find((span) => span.about["messaging.batch.message_count"] === "2")
      expect(sent?.links.map((link) => link.traceId)).toEqual(children.map(hex))
      for (const child of children) {
        const [above, ...others] = collector.spans().filter((span) => span.traceId === hex(child))
        expect([above, ...others].map((span) => span?.name).toSorted()).toEqual([
          "execute parcel",
          "process orders",
          "step pack"
        ])
        const packed = collector
          .spans()
          .find(({ name, traceId }) => name === "execute parcel" && traceId === hex(child))
        expect(packed?.links).toMatchObject([{ traceId, spanId: sent?.spanId }])
      }
      expect(collector.text()).not.toContain("hunter2")
    })
  )
})
