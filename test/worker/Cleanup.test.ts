import { describe, expect, it } from "@effect/vitest"
import { ConfigProvider, Duration, Effect, Layer, ScheduleDecision, ScheduleIntervals, Schema } from "effect"
import { AccessRetentionConfig } from "../../src/access/AccessCleanup.js"
import { Leadership } from "../../src/cluster/Leadership.js"
import { Term } from "../../src/core/Ids.js"
import { runPass } from "../../src/core/Loop.js"
import * as Handler from "../../src/handlers/Handler.js"
import { Operations } from "../../src/queue/admin/Operations.js"
import * as Job from "../../src/queue/Job.js"
import { TestShift } from "../../src/testing/TestShift.js"
import { ClusterConfig } from "../../src/worker/ClusterConfig.js"
import * as Cleanup from "../../src/worker/loops/Cleanup.js"

const Call = Job.make("call", { payload: Schema.String })

const shift = TestShift.layer({ handlers: [Handler.make(Call, () => Effect.void)] })

const configs = Layer.mergeAll(
  ClusterConfig.layer,
  Layer.succeed(AccessRetentionConfig, { auditRetention: Duration.days(90) })
)

describe("the leader's cleanup", () => {
  it.effect("deletes the progress of operations that ended a week ago", () =>
    Effect.gen(function* () {
      const { advance } = yield* TestShift
      const operations = yield* Operations
      const leading = yield* Effect.flatten((yield* Leadership).leader)
      const cleanup = (yield* Cleanup.make(Effect.all([Cleanup.operations, Cleanup.undo])))(leading.term)
      yield* Call.enqueue("now")
      yield* advance("1 second")
      yield* operations.begin({
        action: "requeue",
        who: "operator",
        reason: "",
        target: { filter: { state: ["done"] } }
      })
      yield* advance("1 second")
      expect(yield* runPass(cleanup)).toBe("ok")
      expect((yield* operations.list({ limit: 10 })).operations).toHaveLength(1)
      yield* advance("8 days")
      expect(yield* runPass(cleanup)).toBe("ok")
      expect((yield* operations.list({ limit: 10 })).operations).toEqual([])
    }).pipe(Effect.provide(configs), Effect.provide(shift))
  )

  it.effect.each([
    ["5m", "1h", 5],
    ["24h", "1h", 60]
  ] as const)("runs every %s, and every %s at the latest", ([cleanup, janitor, minutes]) =>
    Effect.gen(function* () {
      const { schedule } = (yield* Cleanup.make(Effect.succeed([])))(Term.make(1))
      const [, , decision] = yield* schedule.step(0, "ok", schedule.initial)
      expect(ScheduleDecision.isContinue(decision) && ScheduleIntervals.start(decision.intervals)).toBe(
        minutes * 60_000
      )
    }).pipe(
      Effect.provide(configs),
      Effect.withConfigProvider(
        ConfigProvider.fromMap(
          new Map([
            ["QUEUE_CLEANUP_INTERVAL", cleanup],
            ["QUEUE_JANITOR_INTERVAL", janitor]
          ])
        )
      ),
      Effect.provide(shift)
    )
  )
})
