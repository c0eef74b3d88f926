import { Clock, Duration, Effect, Schedule, type Scope } from "effect"
import { Pods, podsTopic } from "../../cluster/Pods.js"
import type { LeaderLoop } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { QueueWaits, type WaitReason } from "../../history/QueueWaits.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { Queues, settingsTopic } from "../../queue/settings/QueueSettings.js"
import { reasonOfQueue } from "../../queue/why/Why.js"
import { ClusterConfig } from "../ClusterConfig.js"

/** Only waits longer than this are recorded, in milliseconds. */
const minRecordedWait = Duration.toMillis("5 seconds")

/** Records why the due jobs of each queue wait, when the reason changes. Idle queues cost one statement. */
export const make: Effect.Effect<
  LeaderLoop,
  never,
  Pods | JobSearch | Queues | QueueWaits | Hints | ClusterConfig | Scope.Scope
> = Effect.gen(function* () {
  const pods = yield* Pods
  const search = yield* JobSearch
  const queues = yield* Queues
  const waits = yield* QueueWaits
  const { lease, rebalanceInterval } = yield* ClusterConfig
  const hints = yield* Hints
  const latch = makeLatch()
  yield* hints.subscribe(podsTopic, latch.open)
  yield* hints.subscribe(settingsTopic, latch.open)

  // Created for each term, because another leader may have changed the open waits in between.
  return () => {
    let known: Map<string, WaitReason> | undefined
    const record = Effect.gen(function* () {
      const before = known ?? new Map((yield* waits.open).map(({ queue, reason }) => [queue, reason]))
      const names = yield* search.overdue((yield* Clock.currentTimeMillis) - minRecordedWait)
      known = before
      if (names.length === 0 && before.size === 0) return {}
      const live = yield* pods.live(lease)
      const settings = new Map((yield* queues.all).map((each) => [each.name, each]))
      const now = yield* Clock.currentTimeMillis
      const reasons = names.map((name) => [name, reasonOfQueue(name, settings.get(name), live, now)] as const)
      const after = new Map(reasons.flatMap(([name, reason]) => (reason === undefined ? [] : [[name, reason]])))
      const changes = [...new Set([...before.keys(), ...after.keys()])]
        .filter((name) => before.get(name) !== after.get(name))
        .map((name) => ({ queue: name, reason: after.get(name) }))
      if (changes.length === 0) return {}
      known = undefined
      yield* waits.change(changes)
      known = after
      return { waits: changes.length }
    })
    return {
      name: "wait log",
      about: "recording why due jobs wait",
      schedule: wakeable(Schedule.spaced(rebalanceInterval), latch.openedWithin),
      runAtStart: true,
      steps: [{ name: "waits", timeout: "10 seconds", run: record, quiet: true }]
    }
  }
})
