import { describe, expect, it } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Kinds } from "../../src/queue/Kinds.js"
import { Queue } from "../../src/queue/Queue.js"
import * as QueueMemory from "../../src/queue/QueueMemory.js"
import { Queues } from "../../src/queue/settings/QueueSettings.js"
import * as Wakeups from "../../src/queue/Wakeups.js"
import { Metrics } from "../../src/telemetry/Metrics.js"
import { Tally } from "../../src/telemetry/Tally.js"
import * as PrometheusText from "../support/PrometheusText.js"

/** Enqueued jobs by queue and kind, as Prometheus reads them. */
const enqueued = Effect.gen(function* () {
  const lines = (yield* (yield* Metrics).render).split("\n").filter((line) => line.includes("nightshift_jobs_enqueued"))
  const { samples = [] } = PrometheusText.parse(`${lines.join("\n")}\n`).get("nightshift_jobs_enqueued_total") ?? {}
  return new Map(samples.map(({ labels, value }) => [`${labels.queue} ${labels.kind}`, value]))
})

const junk = (tally: typeof Tally.Service, count: number, now = 0) => {
  for (let n = 0; n < count; n += 1) tally.of("default", `junk-${n}`).enqueued(1, now)
}

const hour = 3_600_000

describe("metric series of kinds", () => {
  it.effect("exist for registered kinds in served queues, however many other names were used before", () =>
    Effect.gen(function* () {
      const kind = { name: "mail", queue: "post", version: 1, attempts: 5, onDead: undefined }
      const queue = yield* Queue
      for (let n = 0; n < 3; n += 1)
        yield* queue.enqueue(
          Array.from({ length: 1000 }, (_, at) => ({ ...kind, kind: `junk-${n}-${at}`, queue: "default", payload: {} }))
        )
      yield* (yield* Kinds).register([kind])
      yield* (yield* Queues).declare(["default"])
      yield* queue.enqueue(
        ["post", "default", "junk"].map((name) => ({ ...kind, kind: "mail", queue: name, payload: {} }))
      )
      const counts = yield* enqueued
      expect([counts.get("post mail"), counts.get("default mail")]).toEqual([1, 1])
      expect(counts.get("junk mail")).toBeUndefined()
      expect(counts.get("(other) (other)")).toBe(1001)
      expect(counts.size).toBe(2003)
    }).pipe(
      Effect.provide(Layer.provide(QueueMemory.layer, Wakeups.layer)),
      Effect.provideServiceEffect(Tally, Tally.make),
      Effect.provide(Metrics.layer)
    )
  )

  it.effect("of names that were idle for an hour make room for new ones", () =>
    Effect.gen(function* () {
      const tally = yield* Tally.make
      junk(tally, 2000)
      const running = tally.of("default", "junk-7")
      running.started(0, 0)
      tally.of("default", "new").enqueued(1, 1)
      expect((yield* enqueued).get("(other) (other)")).toBe(1)
      tally.of("default", "junk-8").enqueued(1, hour)
      tally.of("default", "new").enqueued(1, hour)
      const counts = yield* enqueued
      expect([counts.get("default new"), counts.get("default junk-8")]).toEqual([1, 2])
      expect(counts.has("default junk-7")).toBe(true)
      expect(counts.size).toBe(4)
      expect(tally.of("default", "junk-7")).toBe(running)
      // The counts of those that were removed are delivered.
      const sum = tally.take().reduce((all, { enqueued, grain }) => all + (grain === 60 ? enqueued : 0), 0)
      expect(sum).toBe(2003)
    }).pipe(Effect.provide(Metrics.layer))
  )
})
