import { Clock, Duration, Effect, Schedule } from "effect"
import type { Assignment } from "../../cluster/Pods.js"
import type { Loop } from "../../core/Loop.js"
import { makeLatch, wakeable } from "../../core/LoopSchedule.js"
import { Hints } from "../../database/Hints.js"
import { type QueueSettings, Queues, settingsTopic } from "../../queue/settings/QueueSettings.js"
import { runLoop } from "../../telemetry/LoopRunner.js"
import { ClusterConfig } from "../ClusterConfig.js"
import { Supervisors } from "../slots/Supervisor.js"
import { WorkerConfig } from "../WorkerConfig.js"
import { PodHeartbeat } from "./PodHeartbeat.js"

/**
 * Returns the number of slots of a queue on this pod: 0 while the queue is paused, otherwise the leader's assignment,
 * or an even split if there is none yet; limited by this pod's maximum.
 */
const slotTarget = (
  settings: Pick<QueueSettings, "name" | "maxWorkers" | "paused">,
  { servingPods, shares }: Assignment,
  cap: number
): number => {
  if (settings.paused) return 0
  const fair = Math.ceil(settings.maxWorkers / (servingPods.get(settings.name) ?? 1))
  return Math.min(cap, shares.get(settings.name) ?? fair)
}

// Computes the number of slots of each queue on this pod from the queue's settings, the leader's assignments and the
// live pods. Runs on every tick, and at once when a change is signalled.

/** While hints arrive, the settings are read only once per this many ticks, in case a hint was lost. */
const ticksPerReading = 5

/** Adjusts the slots of this pod's queues to their targets until the Scope closes. */
export const start = Effect.fnUntraced(function* (workers: Readonly<Record<string, number | undefined>>) {
  const queues = yield* Queues
  const hints = yield* Hints
  const podHeartbeat = yield* PodHeartbeat
  const supervisors = yield* Supervisors
  const { slots } = yield* WorkerConfig
  const { podHeartbeat: tick } = yield* ClusterConfig
  const known = new Map<string, QueueSettings>()
  const vanished = new Set<string>()
  const latch = makeLatch()
  let readAt = Number.NEGATIVE_INFINITY
  let returnedAt = Number.NEGATIVE_INFINITY
  let settingsChanged = true

  const isReadingDue = Effect.gen(function* () {
    const ticks = (yield* hints.connected) ? ticksPerReading : 1
    return settingsChanged || (yield* Clock.currentTimeMillis) - readAt >= Duration.toMillis(tick) * ticks
  })

  const read = Effect.gen(function* () {
    settingsChanged = false
    const all = new Map((yield* queues.all).map((settings) => [settings.name, settings]))
    readAt = yield* Clock.currentTimeMillis
    for (const name of supervisors.keys()) {
      const settings = all.get(name)
      if (settings !== undefined) {
        known.set(name, settings)
        vanished.delete(name)
      } else if (!vanished.has(name)) {
        vanished.add(name)
        yield* Effect.logWarning(
          `queue "${name}" no longer has a settings row; keeping its current slots. Restart the process to create the row again`
        )
      }
    }
    return {}
  }).pipe(Effect.tapError(() => Effect.sync(() => (settingsChanged = true))))

  const adjustSlots = Effect.gen(function* () {
    const report = { raised: 0, lowered: 0 }
    for (const [name, supervisor] of supervisors) {
      const settings = known.get(name)
      if (settings === undefined || vanished.has(name)) continue
      const { wanted } = supervisor.slots()
      const target = slotTarget(settings, podHeartbeat.assignment(), workers[name] ?? slots)
      if (target > wanted) report.raised += 1
      if (target < wanted) report.lowered += 1
      yield* supervisor.setSlots(target)
    }
    return report
  })

  const returnStale = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    if (now - returnedAt < Duration.toMillis(tick)) return {}
    returnedAt = now
    yield* Effect.forEach(supervisors.values(), (supervisor) => supervisor.returnStale, { discard: true })
    return {}
  })

  const loop: Loop = {
    name: "slot reconciler",
    about: "adjusting slots to their targets",
    schedule: wakeable(Schedule.spaced(tick), latch.openedWithin),
    runAtStart: true,
    steps: [
      {
        name: "settings",
        timeout: "10 seconds",
        run: Effect.if(isReadingDue, { onTrue: () => read, onFalse: () => Effect.succeed({}) })
      },
      { name: "slots", timeout: "10 seconds", run: adjustSlots, quiet: true },
      { name: "prefetched", timeout: "10 seconds", run: returnStale }
    ]
  }

  yield* hints.subscribe(settingsTopic, (name) => {
    if (name !== undefined && !supervisors.has(name)) return
    settingsChanged = true
    latch.open()
  })
  yield* podHeartbeat.onOrders(latch.open)
  yield* runLoop(loop)
})
