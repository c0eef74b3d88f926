import { Context, Duration, Effect, Layer, Random, type Scope, Utils } from "effect"
import type { QueueSlots } from "../../cluster/Pods.js"
import * as Backoff from "../../core/Backoff.js"
import { steadyMillis } from "../../core/ChangeWatch.js"
import * as Thrown from "../../core/Thrown.js"
import type { Registry } from "../../handlers/Registry.js"
import type { DirectHandoff } from "../../queue/handoff/DirectHandoff.js"
import { type ClaimedJob, type HeldJob, Queue } from "../../queue/Queue.js"
import { type QueueSettings, Queues } from "../../queue/settings/QueueSettings.js"
import { Transactions } from "../../queue/Transactions.js"
import { Wakeups } from "../../queue/Wakeups.js"
import * as Masking from "../../telemetry/Masking.js"
import type { Metrics } from "../../telemetry/Metrics.js"
import { Tally } from "../../telemetry/Tally.js"
import { Tracing } from "../../telemetry/tracing/Tracing.js"
import type { Pod } from "../Pod.js"
import { WorkerConfig } from "../WorkerConfig.js"
import { AttemptLogs } from "./AttemptLogs.js"
import * as Claimer from "./Claimer.js"
import { Deadlines } from "./Deadlines.js"
import { FailureLog } from "./FailureLog.js"
import { Finalizer } from "./Finalizer.js"
import * as JobMetrics from "./JobMetrics.js"
import * as Judge from "./Judge.js"
import { LocalQueue } from "./LocalQueue.js"
import * as Prefetch from "./Prefetch.js"
import { at, handOver, type SlotContext } from "./Slot.js"
import * as SlotHandoff from "./SlotHandoff.js"
import * as Slots from "./Slots.js"
import { Suspects } from "./Suspects.js"

// The supervisor of a queue on a pod runs a claimer that fills the local queue and the slots that empty it. Reducing
// the number of slots lets running jobs finish and returns unstarted jobs to the queue. On shutdown the supervisor
// stops claiming, returns unstarted jobs to the queue, lets running jobs finish for the grace period, then interrupts
// them without using up their attempt.

export interface Supervisor {
  /** Sets the number of slots. */
  readonly setSlots: (target: number) => Effect.Effect<void>
  /** Stops claiming, because the pod is about to stop. */
  readonly stopClaiming: () => void
  /** Returns jobs to the queue that have been waiting since the last call, because another pod may have a free slot. */
  readonly returnStale: Effect.Effect<void>
  /** Target, current and busy slots. */
  readonly slots: () => Omit<QueueSlots, "queue">
  /** Returns the kinds that ran since the last call. */
  readonly kindsSince: () => ReadonlyArray<string>
  /** Currently running jobs. */
  readonly running: () => ReadonlyArray<ClaimedJob>
  /** All jobs of the queue that this pod holds, started or not. */
  readonly held: () => ReadonlyArray<HeldJob>
  /** Stops a held job. */
  readonly stop: (held: HeldJob, reason: Judge.StopReason) => Effect.Effect<void>
  /** Signals that there may be due jobs. */
  readonly wake: () => void
  /** Whether this pod holds no job of the queue. */
  readonly isIdle: () => boolean
}

const curveOf = (settings: QueueSettings | undefined) =>
  settings?.backoff.enabled === true ? Backoff.exponential(settings.backoff) : undefined

/** Serves a queue until the Scope closes. Starts without slots; call `setSlots` to add some. */
export const start = <R>(
  name: string,
  registry: Registry<R>,
  {
    onHeld,
    onShort,
    pinned,
    releasesOf
  }: {
    /** Called when a queue has no more due jobs. */
    readonly onShort: () => void
    /** Called when the pod receives a job. */
    readonly onHeld: () => void
    readonly releasesOf: SlotContext<R>["releasesOf"]
    readonly pinned: Parameters<typeof Claimer.start>[0]["pinned"]
  }
): Effect.Effect<
  Supervisor,
  never,
  | R
  | Queue
  | Queues
  | Transactions
  | Wakeups
  | DirectHandoff
  | Metrics
  | WorkerConfig
  | Deadlines
  | Finalizer
  | AttemptLogs
  | Pod
  | Scope.Scope
> =>
  Effect.gen(function* () {
    const config = yield* WorkerConfig
    const deadlines = yield* Deadlines
    const queues = yield* Queues
    const finalizer = yield* Finalizer
    // A separate generator: Effect's random service costs a step of the fiber per job.
    const jitter = new Utils.PCGRandom(yield* Random.nextInt)
    const clock = yield* Effect.clock
    const localQueue = new LocalQueue(onHeld)
    let wanted = 0
    let stoppingSince: number | undefined
    let ahead = Prefetch.make(config.slots)
    const heldHere = () => [...localQueue.waiting, ...slots.running().map(({ job }) => job)]
    const suspects = new Suspects(heldHere, () => wanted)
    const prefetch: Prefetch.Prefetch = {
      wanted: () =>
        stoppingSince !== undefined || wanted === 0 || finalizer.isBehind()
          ? 0
          : Math.min(ahead.wanted(localQueue), suspects.room()),
      taken: () => ahead.taken(),
      starved: (now) => ahead.starved(now),
      claimed: (now, jobs) => {
        ahead.claimed(now, jobs)
        suspects.claimed(jobs)
      }
    }
    const claimer = yield* Claimer.start({ queue: name, localQueue, prefetch, onShort, pinned })
    yield* finalizer.onRoom(claimer.checkRoom)
    const begun = new Set<string>()
    const tracer = yield* Tracing

    const context: SlotContext<R> = {
      name,
      localQueue,
      registry,
      queue: yield* Queue,
      transactions: yield* Transactions,
      finalizer,
      metrics: JobMetrics.make(yield* Tally, name, tracer, config.onEnd),
      failures: new FailureLog(),
      logs: yield* AttemptLogs,
      tracer: tracer === undefined ? undefined : Thrown.guarded(tracer),
      clock,
      chance: () => jitter.number(),
      curve: () => curveOf(queues.known(name)),
      releasesOf,
      maskText: Masking.makeText(config.mask ?? []),
      onBegin: (slot) => {
        if (slot.run !== undefined) begun.add(slot.run.job.kind)
        deadlines.began(slot)
      },
      onIdle: () => {
        if (localQueue.idleSlots >= wanted) prefetch.starved(clock.unsafeCurrentTimeMillis())
        claimer.checkRoom()
      },
      onFreed: claimer.wake,
      onTaken: () => {
        prefetch.taken()
        if (prefetch.wanted(localQueue) > 0) claimer.checkRoom()
      }
    }
    yield* Effect.flatMap(Wakeups, (wakeups) => wakeups.onWake(name, claimer.wake))
    const slots = yield* Slots.make(context)

    const returnJobs = (jobs: ReadonlyArray<ClaimedJob>) =>
      Effect.forEach(jobs, (job) => handOver(context, job, Judge.ofUnstarted(job)), { discard: true })

    /** Too many jobs were claimed ahead, so the measured rate is obsolete and is reset. */
    const returnSurplus = (jobs: ReadonlySet<ClaimedJob>) => {
      if (jobs.size === 0) return Effect.void
      ahead = Prefetch.make(config.slots)
      return returnJobs(localQueue.remove((job) => jobs.has(job)))
    }

    const setSlots = (target: number) =>
      Effect.suspend(() => {
        const before = wanted
        wanted = target
        const kept = target < before ? Math.floor((localQueue.size * target) / before) : localQueue.size
        const surplus = new Set(localQueue.waiting.slice(target === 0 ? 0 : kept))
        return returnSurplus(surplus).pipe(
          Effect.zipRight(slots.resize(target)),
          Effect.tap(() => (target > before ? claimer.wake() : undefined))
        )
      })

    let seen: ReadonlySet<ClaimedJob> = new Set()
    const returnStale = Effect.suspend(() => {
      const stale = new Set(localQueue.waiting.filter((job) => seen.has(job)))
      seen = new Set(localQueue.waiting)
      return returnSurplus(stale)
    })

    /** The grace counts from the moment the pod was asked to stop, not from when it began to drain. */
    const graceLeft = () => {
      const now = steadyMillis(clock)
      return Duration.millis(Math.max(0, Duration.toMillis(config.grace) - (now - (stoppingSince ?? now))))
    }
    yield* Effect.addFinalizer(() =>
      claimer.stop.pipe(
        Effect.zipRight(Effect.suspend(() => returnJobs(localQueue.remove(() => true)))),
        Effect.zipRight(Effect.suspend(() => slots.retire(graceLeft())))
      )
    )

    /** Rejects jobs that this pod has no code for, so that another pod can claim them from the queue. */
    const mayTake = (kind: string, version: number) =>
      stoppingSince === undefined && wanted > 0 && (registry.get(kind)?.handler.kind.version ?? 0) >= version
    // Opened after the slots, so that it closes before they retire. The enqueuing side then returns jobs in transit to
    // the queue.
    yield* SlotHandoff.open({ queue: name, localQueue, claimer, mayTake, room: () => suspects.room() })

    const stopUnstarted = (job: ClaimedJob, reason: Judge.StopReason) => {
      const end = Judge.ofStop(job, undefined, reason, at(context))
      return end === undefined ? Effect.void : handOver(context, job, end)
    }

    return {
      setSlots,
      stopClaiming: () => {
        stoppingSince ??= steadyMillis(clock)
      },
      returnStale,
      slots: () => ({ wanted, have: slots.count(), busy: slots.running().length }),
      kindsSince: () => {
        const kinds = [...begun]
        begun.clear()
        for (const { job } of slots.running()) begun.add(job.kind)
        return kinds
      },
      running: () => slots.running().map(({ job }) => job),
      held: heldHere,
      wake: claimer.wake,
      isIdle: () => localQueue.size === 0 && !slots.isAnyRunning(),
      stop: (held, reason) =>
        Effect.suspend(() => {
          // An execution that was claimed to undo its steps stays.
          const isUndone = ({ execution }: ClaimedJob) => reason === "cancelled" && execution?.cancelled === true
          const [unstarted] = localQueue.remove((job) => Slots.isSameRun(job, held) && !isUndone(job))
          return unstarted === undefined ? slots.stop(held, reason) : stopUnstarted(unstarted, reason)
        })
    }
  })

export class Supervisors extends Context.Tag("nightshift/worker/Supervisors")<Supervisors, Map<string, Supervisor>>() {
  static readonly layer: Layer.Layer<Supervisors> = Layer.sync(Supervisors, () => new Map())
}
