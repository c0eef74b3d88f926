import { Clock, Effect, Option, Schedule, type Scope } from "effect"
import { Pods, podsTopic, type StoredPod } from "../../cluster/Pods.js"
import { Shares, shareChanges, sharesTopic } from "../../cluster/Shares.js"
import type { Term } from "../../core/Ids.js"
import type { LeaderLoop } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { whenClosed } from "../../core/Registration.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { Hints } from "../../database/Hints.js"
import { Queue } from "../../queue/Queue.js"
import { Queues, settingsTopic } from "../../queue/settings/QueueSettings.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { Leader } from "./Leader.js"

/** Returns the names of queues that have due jobs and that none of these pods serves. */
export const unservedAmong = (
  pods: ReadonlyArray<Pick<StoredPod, "queues" | "draining">>
): Effect.Effect<ReadonlyArray<string>, DatabaseError, Queue> =>
  Effect.gen(function* () {
    const queue = yield* Queue
    const served = new Set(pods.flatMap(({ draining, queues }) => (draining ? [] : queues)))
    const unservedNames = (yield* queue.pendingQueues).filter((name) => !served.has(name))
    if (unservedNames.length === 0) return []
    const due = yield* queue.nextDue(unservedNames)
    const now = yield* Clock.currentTimeMillis
    return unservedNames.filter((name) => (due.get(name) ?? Number.POSITIVE_INFINITY) <= now)
  })

const unserved = MetricSpec.gauge(
  "queues_unserved",
  "Queues with due jobs that no live process serves. Reported by the leader."
)

/** Assigns every queue's slots to the live pods that serve it. */
export const make: Effect.Effect<
  LeaderLoop,
  never,
  Pods | Shares | Queues | Queue | Leader | Hints | ClusterConfig | Metrics | Scope.Scope
> = Effect.gen(function* () {
  const pods = yield* Pods
  const shares = yield* Shares
  const queues = yield* Queues
  const context = yield* Effect.context<Queue>()
  const { lease, rebalanceInterval } = yield* ClusterConfig
  const leader = yield* Leader
  const hints = yield* Hints
  const metrics = yield* Metrics
  const gauge = metrics.series(unserved, {})

  const split = (term: Term, live: ReadonlyArray<StoredPod>) =>
    Effect.gen(function* () {
      const changes = shareChanges(yield* queues.all, live, yield* shares.all)
      if (changes.length > 0) {
        yield* shares.assign(term, changes)
        yield* hints.publish(sharesTopic, "")
      }
      return { shares: changes.length }
    })

  // The list is logged when it changes, not on every pass.
  let lastLogged = ""
  let count = 0
  const warn = (live: ReadonlyArray<StoredPod>) =>
    Effect.gen(function* () {
      const names = yield* unservedAmong(live)
      const text = names.join(", ")
      if (text !== lastLogged && text !== "") {
        yield* Effect.logWarning(
          `no live process serves these queues with due jobs: ${text}. Start a process that serves them`
        )
      }
      lastLogged = text
      count = names.length
    })
  yield* metrics.onRead(Effect.map(leader.term, (term) => gauge.set(Option.isSome(term) ? count : 0)))
  yield* whenClosed(() => gauge.set(0))

  const latch = makeLatch()
  yield* hints.subscribe(podsTopic, latch.open)
  yield* hints.subscribe(settingsTopic, latch.open)
  return (term) => ({
    name: "rebalancer",
    about: "assigning the queues' slots to the live processes",
    schedule: wakeable(Schedule.spaced(rebalanceInterval), latch.openedWithin),
    runAtStart: true,
    steps: [
      {
        name: "split",
        timeout: "10 seconds",
        quiet: true,
        run: Effect.flatMap(pods.present(lease), (live) => Effect.zipLeft(split(term, live), warn(live))).pipe(
          Effect.provide(context)
        )
      }
    ]
  })
})
