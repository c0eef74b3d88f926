import { Duration, Effect, Exit, Fiber, Option, Schedule, Scope } from "effect"
import type { Registry } from "../handlers/Registry.js"
import { type ClaimedJob, type HeldJob, Queue } from "../queue/Queue.js"
import { Transactions } from "../queue/Transactions.js"
import { Wakeups } from "../queue/Wakeups.js"
import * as MetricSpec from "../telemetry/MetricSpec.js"
import { Metrics } from "../telemetry/Metrics.js"
import { CrewConfig, stubbornness } from "./CrewConfig.js"
import { Deadlines } from "./Deadlines.js"
import { Finalizer } from "./Finalizer.js"
import * as JobMetrics from "./JobMetrics.js"
import * as Judge from "./Judge.js"
import { Pod } from "./Pod.js"
import * as Prefetch from "./Prefetch.js"
import { Shelf } from "./Shelf.js"
import { conclude, handOver, Slot, type Station, work } from "./Slot.js"

// A queue's supervisor on a pod keeps slots at work and the shelf filled. On the way out it stops claiming, puts unstarted
// jobs back, lets running ones finish for a while, and then stops them and gives their attempts back.

const abandonedSlots = MetricSpec.counter("slots_abandoned_total", "Slots whose handler ignored being stopped.", [
  "queue"
])
const claimErrors = MetricSpec.counter("claim_errors_total", "Claims that failed.", ["queue"])
const slotsGauge = MetricSpec.gauge("slots", "Places where jobs can run.", ["queue"])
const busyGauge = MetricSpec.gauge("slots_busy", "Places where a job runs now.", ["queue"])

/** Waits so long and no longer, also while a Scope closes, where nothing can be interrupted unless it says so. */
const within = <A>(effect: Effect.Effect<A>, duration: Duration.DurationInput) =>
  Effect.timeoutOption(Effect.interruptible(effect), duration)

/** What the rest of the crew may ask of a queue's supervisor. */
export interface Supervisor {
  readonly queue: string
  /** Every job this pod holds of the queue, begun or not. */
  readonly held: () => ReadonlyArray<HeldJob>
  /** Stops a job that is held here, for a reason that came from outside. */
  readonly stop: (held: HeldJob, reason: Judge.StopReason) => Effect.Effect<void>
  /** There may be work. */
  readonly wake: () => void
  /** Whether nothing runs and nothing waits here. */
  readonly isIdle: () => boolean
}

/** Claims for a queue until the Scope closes. */
export const start = <R>(
  queueName: string,
  registry: Registry<R>,
  onShort: () => void
): Effect.Effect<
  Supervisor,
  never,
  R | Queue | Transactions | Wakeups | Metrics | CrewConfig | Deadlines | Finalizer | Pod | Scope.Scope
> =>
  Effect.gen(function* () {
    const config = yield* CrewConfig
    const queue = yield* Queue
    const pod = yield* Pod
    const deadlines = yield* Deadlines
    const metrics = yield* Metrics
    const random = yield* Effect.random
    const clock = yield* Effect.clock
    const chances = yield* Effect.replicateEffect(random.next, 64)
    const shelf = new Shelf()
    const prefetch = Prefetch.make(config.slots)
    const slots = new Map<Slot, Fiber.RuntimeFiber<void>>()
    const slotScope = yield* Scope.make()
    let closing = false
    let woken = true
    let onDemand: (() => void) | undefined
    let turns = 0

    const signal = () => onDemand?.()
    const station: Station<R> = {
      shelf,
      registry,
      queue,
      transactions: yield* Transactions,
      finalizer: yield* Finalizer,
      metrics: JobMetrics.make(metrics, queueName),
      clock,
      chance: () => chances[turns++ % chances.length] ?? 0.5,
      onBegin: deadlines.began,
      onIdle: signal,
      onTaken: () => {
        prefetch.taken()
        if (prefetch.wanted(shelf) > 0) signal()
      }
    }

    const sayAbandoned = metrics.series(abandonedSlots, { queue: queueName })
    const failures = metrics.series(claimErrors, { queue: queueName })
    yield* metrics.onRead(
      Effect.sync(() => {
        metrics.series(slotsGauge, { queue: queueName }).set(slots.size)
        metrics
          .series(busyGauge, { queue: queueName })
          .set([...slots.keys()].filter(({ run }) => run !== undefined).length)
      })
    )

    /** The slot's fiber has ended, or is given up: its job is ended as the reason says, and another slot takes its place. */
    const replace = (slot: Slot, exit: Exit.Exit<void>): Effect.Effect<void, never, R> =>
      Effect.gen(function* () {
        slots.delete(slot)
        deadlines.forget(slot)
        const { run, stop } = slot
        slot.run = undefined
        if (run !== undefined) {
          const at = { now: clock.unsafeCurrentTimeMillis(), chance: station.chance() }
          const end =
            stop === undefined ? Judge.ofExit(run.job, run.kind, exit, at) : Judge.ofStop(run.job, run.kind, stop, at)
          if (end !== undefined) yield* conclude(station, run, end)
        }
        if (!closing) yield* hire
      })

    const hire: Effect.Effect<void, never, R> = Effect.suspend(() => {
      const slot = new Slot()
      deadlines.watch(slot, stopSlot(slot, "timeout"))
      // A slot is hired while another one ends, where nothing is interruptible; what it runs must be.
      const life = Effect.onExit(Effect.interruptible(work(slot, station)), (exit) =>
        slot.abandoned ? Effect.void : replace(slot, exit)
      )
      return Effect.map(Effect.forkIn(life, slotScope), (fiber) => void slots.set(slot, fiber))
    })

    /** Interrupts what the slot runs. A handler that does not listen is given up after a while. */
    const stopSlot = (slot: Slot, reason: Judge.StopReason): Effect.Effect<void> =>
      Effect.suspend(() => {
        const fiber = slots.get(slot)
        if (slot.run === undefined || slot.stop !== undefined || fiber === undefined) return Effect.void
        slot.stop = reason
        return Effect.zipRight(
          Fiber.interruptFork(fiber),
          Effect.forkIn(
            Effect.flatMap(within(Fiber.await(fiber), stubbornness), (ended) =>
              Option.isSome(ended) ? Effect.void : giveUp(slot)
            ),
            slotScope
          )
        )
      })

    const giveUp = (slot: Slot) =>
      Effect.gen(function* () {
        if (slot.run === undefined) return
        const { id, kind } = slot.run.job
        slot.abandoned = true
        sayAbandoned.add(1)
        yield* Effect.logWarning(`a handler did not stop when told to (${slot.stop}); its slot is given up`).pipe(
          Effect.annotateLogs({ job: id, kind, queue: queueName })
        )
        yield* Effect.provide(replace(slot, Exit.void), environment)
      })
    const environment = yield* Effect.context<R>()

    const demand = Effect.async<void>((resume) => {
      const check = () => {
        if (closing || prefetch.wanted(shelf) <= 0 || !woken) return
        onDemand = undefined
        resume(Effect.void)
      }
      onDemand = check
      check()
    })

    /** A claim is not cut off half-way: jobs would be taken and nobody would know. */
    const claimOnce = Effect.gen(function* () {
      const limit = prefetch.wanted(shelf)
      if (limit <= 0) return
      woken = false
      const jobs = yield* queue.claim({ queue: queueName, pod: pod.id, limit })
      prefetch.claimed(jobs.length, clock.unsafeCurrentTimeMillis())
      shelf.put(jobs)
      // More may be there when the claim came back full, or when it held a suspect, which comes alone.
      if (jobs.length === limit || jobs.some(({ crashCount }) => crashCount > 0)) woken = true
      else onShort()
    }).pipe(Effect.uninterruptible)

    const patiently = claimOnce.pipe(
      Effect.tapError((error) => {
        failures.add(1)
        return Effect.logWarning(`claiming from queue "${queueName}" failed, trying again`, error)
      }),
      Effect.retry(
        Schedule.exponential("1 second").pipe(Schedule.union(Schedule.spaced("15 seconds")), Schedule.jittered)
      ),
      Effect.orDie
    )

    const wake = () => {
      woken = true
      signal()
    }
    yield* Effect.flatMap(Wakeups, (wakeups) => wakeups.onWake(queueName, wake))
    for (let count = 0; count < config.slots; count += 1) yield* hire
    const claimer = yield* Effect.forkIn(Effect.forever(Effect.zipRight(demand, patiently)), slotScope)

    const putBack = (jobs: ReadonlyArray<ClaimedJob>) =>
      Effect.forEach(jobs, (job) => handOver(station, job, Judge.ofUnstarted(job)), { discard: true })

    yield* Effect.addFinalizer(() =>
      Effect.gen(function* () {
        closing = true
        yield* Fiber.interrupt(claimer)
        yield* putBack(shelf.remove(() => true))
        const fibers = [...slots.values()]
        for (const slot of slots.keys()) slot.retired = true
        shelf.wakeAll()
        const finished = yield* within(Fiber.awaitAll(fibers), config.grace)
        if (Option.isNone(finished)) {
          yield* Effect.forEach([...slots.keys()], (slot) => stopSlot(slot, "shutdown"), { discard: true })
          yield* within(Fiber.awaitAll(fibers), Duration.sum(stubbornness, "1 second"))
        }
        // A handler that will not stop even now must not keep the process from ending: its job has been put back.
        yield* Effect.forkDaemon(Scope.close(slotScope, Exit.void))
      })
    )

    const stop = (held: HeldJob, reason: Judge.StopReason): Effect.Effect<void> => {
      // By lease, too: a job that was lost may be back here under a newer one.
      const isHeld = (job: HeldJob) => job.id === held.id && job.lease === held.lease
      const unstarted = shelf.remove(isHeld)
      if (unstarted.length > 0) {
        const at = { now: clock.unsafeCurrentTimeMillis(), chance: 0 }
        return Effect.forEach(
          unstarted,
          (job) => {
            const end = Judge.ofStop(job, undefined, reason, at)
            return end === undefined ? Effect.void : handOver(station, job, end)
          },
          { discard: true }
        )
      }
      const slot = [...slots.keys()].find(({ run }) => run !== undefined && isHeld(run.job))
      return slot === undefined ? Effect.void : stopSlot(slot, reason)
    }

    return {
      queue: queueName,
      held: () => [...shelf.waiting, ...[...slots.keys()].flatMap(({ run }) => (run === undefined ? [] : [run.job]))],
      stop,
      wake,
      isIdle: () => shelf.size === 0 && [...slots.keys()].every(({ run }) => run === undefined)
    }
  })
