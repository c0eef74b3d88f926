import { Effect, type Scope } from "effect"
import * as Backoff from "../core/Backoff.js"
import type { Registry } from "../handlers/Registry.js"
import { type ClaimedJob, type HeldJob, Queue } from "../queue/Queue.js"
import { type QueueSettings, Queues } from "../queue/QueueSettings.js"
import { Transactions } from "../queue/Transactions.js"
import { Wakeups } from "../queue/Wakeups.js"
import { Metrics } from "../telemetry/Metrics.js"
import * as Claimer from "./Claimer.js"
import { CrewConfig } from "./CrewConfig.js"
import { Deadlines } from "./Deadlines.js"
import { Finalizer } from "./Finalizer.js"
import * as JobMetrics from "./JobMetrics.js"
import * as Judge from "./Judge.js"
import type { Pod } from "./Pod.js"
import * as Prefetch from "./Prefetch.js"
import { Shelf } from "./Shelf.js"
import { at, handOver, type Station } from "./Slot.js"
import * as Slots from "./Slots.js"

// A queue's supervisor on a pod keeps a claimer that fills the shelf and slots that empty it. On the way out it stops
// claiming, puts unstarted jobs back, lets running ones finish for a while, and then stops them and gives their attempts
// back.

/** What the rest of the crew may ask of a queue's supervisor. */
export interface Supervisor {
  /** Every job this pod holds of the queue, begun or not. */
  readonly held: () => ReadonlyArray<HeldJob>
  /** Stops a job that is held here, for a reason that came from outside. */
  readonly stop: (held: HeldJob, reason: Judge.StopReason) => Effect.Effect<void>
  /** There may be work. */
  readonly wake: () => void
  /** Whether nothing runs and nothing waits here. */
  readonly isIdle: () => boolean
}

/** Enough different chances for the jitter of a crowd, drawn once instead of for every job. */
const drawChances = Effect.flatMap(Effect.random, (random) => Effect.replicateEffect(random.next, 64))

const curveOf = (settings: QueueSettings | undefined) =>
  settings?.backoff.enabled === true ? Backoff.exponential(settings.backoff) : undefined

/** Serves a queue until the Scope closes. */
export const start = <R>(
  name: string,
  registry: Registry<R>,
  onShort: () => void
): Effect.Effect<
  Supervisor,
  never,
  R | Queue | Queues | Transactions | Wakeups | Metrics | CrewConfig | Deadlines | Finalizer | Pod | Scope.Scope
> =>
  Effect.gen(function* () {
    const config = yield* CrewConfig
    const deadlines = yield* Deadlines
    const queues = yield* Queues
    const chances = yield* drawChances
    const shelf = new Shelf()
    const prefetch = Prefetch.make(config.slots)
    const claimer = yield* Claimer.start({ queue: name, shelf, prefetch, onShort })
    let turns = 0

    const station: Station<R> = {
      name,
      shelf,
      registry,
      queue: yield* Queue,
      transactions: yield* Transactions,
      finalizer: yield* Finalizer,
      metrics: JobMetrics.make(yield* Metrics, name),
      clock: yield* Effect.clock,
      chance: () => chances[turns++ % chances.length] ?? 0.5,
      curve: () => curveOf(queues.known(name)),
      onBegin: deadlines.began,
      onIdle: claimer.look,
      onTaken: () => {
        prefetch.taken()
        if (prefetch.wanted(shelf) > 0) claimer.look()
      }
    }
    yield* Effect.flatMap(Wakeups, (wakeups) => wakeups.onWake(name, claimer.wake))
    const slots = yield* Slots.hire(config.slots, station)

    const putBack = (jobs: ReadonlyArray<ClaimedJob>) =>
      Effect.forEach(jobs, (job) => handOver(station, job, Judge.ofUnstarted(job)), { discard: true })

    yield* Effect.addFinalizer(() =>
      claimer.stop.pipe(
        Effect.zipRight(Effect.suspend(() => putBack(shelf.remove(() => true)))),
        Effect.zipRight(slots.retire(config.grace))
      )
    )

    const stopUnstarted = (job: ClaimedJob, reason: Judge.StopReason) => {
      const end = Judge.ofStop(job, undefined, reason, at(station))
      return end === undefined ? Effect.void : handOver(station, job, end)
    }

    return {
      held: () => [...shelf.waiting, ...slots.running().map(({ job }) => job)],
      wake: claimer.wake,
      isIdle: () => shelf.size === 0 && slots.running().length === 0,
      stop: (held, reason) =>
        Effect.suspend(() => {
          const [unstarted] = shelf.remove((job) => Slots.isSameRun(job, held))
          return unstarted === undefined ? slots.stop(held, reason) : stopUnstarted(unstarted, reason)
        })
    }
  })
