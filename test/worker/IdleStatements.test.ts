import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Effect, Layer, Logger, LogLevel, Schedule } from "effect"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Database } from "../../src/database/Database.js"
import { DatabaseUrl } from "../../src/database/DatabaseUrl.js"
import * as NoopEcho from "../../src/handlers/NoopEcho.js"
import * as Nightshift from "../../src/worker/Nightshift.js"
import * as TestDatabase from "../support/TestDatabase.js"

/** The default intervals, divided by ten. */
const intervals = {
  NIGHTSHIFT_POD_HEARTBEAT: "100ms",
  NIGHTSHIFT_REBALANCE_INTERVAL: "500ms",
  NIGHTSHIFT_LEASE: "1500ms",
  QUEUE_POLL: "200ms",
  QUEUE_HEARTBEAT: "1s",
  QUEUE_STALE_AFTER: "6s",
  QUEUE_REAPER_INTERVAL: "1500ms",
  SCHEDULE_POLL: "500ms"
}
const queues = Array.from({ length: 10 }, (_, n) => `queue-${n}`)

/** What the process has sent, by operation. */
class Sent {
  readonly counts = new Map<string, number>()
  readonly add = (operation: string) => void this.counts.set(operation, (this.counts.get(operation) ?? 0) + 1)
  get beats() {
    return this.counts.get("pod_beat") ?? 0
  }
  get all() {
    return [...this.counts.values()].reduce((sum, count) => sum + count, 0)
  }
  /** Completes after this many more heartbeats. */
  readonly during = (beats: number) =>
    Effect.suspend(() => {
      const end = this.beats + beats
      return Effect.repeat(Effect.void, { until: () => this.beats >= end, schedule: Schedule.spaced("10 millis") })
    })
}

/** A process that leads, serves ten queues and has nothing to do. */
const idle = <A, E>(
  settings: Readonly<Record<string, string>>,
  test: (sent: Sent) => Effect.Effect<A, E, Nightshift.Services>
) =>
  Effect.gen(function* () {
    const url = yield* DatabaseUrl
    return yield* Effect.gen(function* () {
      const sent = new Sent()
      const { onStatement } = yield* Database
      const { leader } = yield* Leadership
      yield* onStatement(sent.add)
      yield* Effect.repeat(leader, { until: (found) => found._tag === "Some", schedule: Schedule.spaced("50 millis") })
      yield* sent.during(10)
      return yield* test(sent)
    }).pipe(
      Effect.provide(Nightshift.layer({ handlers: [NoopEcho.handler], queues, databaseUrl: url })),
      Effect.withConfigProvider(ConfigProvider.fromMap(new Map(Object.entries({ ...intervals, ...settings })))),
      Logger.withMinimumLogLevel(LogLevel.None)
    )
  }).pipe(Effect.scoped, Effect.provide(Layer.fresh(TestDatabase.layer)))

describe("an idle process that leads", () => {
  it.live("sends little more than its heartbeats", () =>
    idle({}, (sent) =>
      Effect.gen(function* () {
        sent.counts.clear()
        yield* sent.during(20)
        expect(sent.all / sent.beats).toBeLessThan(1.5)
      })
    )
  )
})
