import { Cause, type Context, Duration, Effect, Exit, Fiber, identity, Option, Scope } from "effect"
import { whenClosed } from "../../core/Registration.js"
import * as Thrown from "../../core/Thrown.js"
import type { End } from "../../queue/AttemptEnd.js"
import type { HeldJob } from "../../queue/Queue.js"
import * as MetricSpec from "../../telemetry/MetricSpec.js"
import { Metrics } from "../../telemetry/Metrics.js"
import { interruptTimeout } from "../WorkerConfig.js"
import { Deadlines } from "./Deadlines.js"
import * as Judge from "./Judge.js"
import { annotated, LoggedJob } from "./LoggedJob.js"
import { at, conclude, type Run, Slot, type SlotContext, work } from "./Slot.js"

const abandonedSlots = MetricSpec.counter(
  "slots_abandoned_total",
  "Slots abandoned because their handler did not stop.",
  ["queue"]
)
const crashedSlots = MetricSpec.counter("slots_crashed_total", "Slots that crashed because of a bug in Nightshift.", [
  "queue"
])
const slotsGauge = MetricSpec.gauge("slots", "Slots of this process.", ["queue"])
const busyGauge = MetricSpec.gauge("slots_busy", "Slots that are running a job.", ["queue"])

export interface Slots {
  readonly running: () => ReadonlyArray<Run>
  readonly isAnyRunning: () => boolean
  readonly count: () => number
  /** Sets the number of slots. Starts new slots, or retires the newest ones after their current job. */
  readonly resize: (target: number) => Effect.Effect<void>
  /**
   * Interrupts the run of a job. A handler that does not stop is abandoned after a timeout. A workflow that was cancelled is
   * not interrupted: its run ends when its steps have ended.
   */
  readonly stop: (held: HeldJob, reason: Judge.StopReason) => Effect.Effect<void>
  /** Stops all slots: lets running jobs finish for the grace period, then interrupts them. */
  readonly retire: (grace: Duration.Duration) => Effect.Effect<void>
}

/** Waits with a timeout. `interruptible` makes the timeout work while a Scope closes, which is uninterruptible. */
const within = <A>(effect: Effect.Effect<A>, duration: Duration.DurationInput) =>
  Effect.timeoutOption(Effect.interruptible(effect), duration)

/** Records in the job's history that the handler did not stop and was abandoned. */
const asAbandoned = (end: End): End =>
  end._tag === "Done" || end._tag === "Suspended" ? end : { ...end, remember: "abandoned" }

/** Compares the lease too, because a lost job may have been claimed by this pod again under a newer lease. */
export const isSameRun = (a: HeldJob, b: HeldJob): boolean => a.id === b.id && a.lease === b.lease

/** Manages the slots of a queue, starting with none. Replaces slots that end until they are retired. */
export const make = <R>(context: SlotContext<R>): Effect.Effect<Slots, never, R | Deadlines | Metrics | Scope.Scope> =>
  Effect.gen(function* () {
    const deadlines = yield* Deadlines
    const metrics = yield* Metrics
    const environment = yield* Effect.context<R>()
    const slots = new Map<Slot, Fiber.RuntimeFiber<void>>()
    const scope = yield* Scope.make()
    const label = { queue: context.name }
    const abandoned = metrics.series(abandonedSlots, label)
    const crashed = metrics.series(crashedSlots, label)
    let wanted = 0

    const staying = () => [...slots.keys()].filter(({ retired }) => !retired)
    const running = () => [...slots.keys()].flatMap(({ run }) => (run === undefined ? [] : [run]))
    const isAnyRunning = () => {
      for (const { run } of slots.keys()) if (run !== undefined) return true
      return false
    }
    const show = () => {
      metrics.series(slotsGauge, label).set(slots.size)
      metrics.series(busyGauge, label).set(running().length)
    }
    yield* metrics.onRead(Effect.sync(show))
    yield* whenClosed(show)

    /** Finalizes the job of a slot whose fiber has ended or was abandoned, and starts a replacement. */
    const replace = (slot: Slot, exit: Exit.Exit<void>): Effect.Effect<void> =>
      Effect.gen(function* () {
        slots.delete(slot)
        deadlines.forget(slot)
        const { late, run, stop } = slot
        slot.run = undefined
        if (run !== undefined) {
          const then = at(context)
          const end =
            stop === undefined
              ? Judge.ofExit(run.job, run.kind, exit, then)
              : (Judge.ofLate(run.job, stop, late, then) ??
                Judge.ofStop(run.job, run.kind, stop, then, run.timeoutHint?.(run.job.id)))
          if (end !== undefined) yield* conclude(context, run, slot.abandoned ? asAbandoned(end) : end)
        }
        if (stop === undefined && Exit.isFailure(exit) && !Cause.isInterruptedOnly(exit.cause)) {
          crashed.add(1)
          yield* Effect.logError(
            `a slot of queue "${context.name}" crashed; starting a replacement`,
            Thrown.plainCause(exit.cause)
          ).pipe(run === undefined ? identity : annotated(LoggedJob.of(run.job)))
        }
        if (staying().length < wanted) yield* startSlot
      })

    const resize = (target: number): Effect.Effect<void> =>
      Effect.suspend(() => {
        wanted = target
        const inPlace = staying()
        for (const slot of inPlace.slice(target)) slot.retired = true
        if (inPlace.length > target) context.localQueue.wakeAll()
        // Reactivates retiring slots before starting new ones.
        const back = [...slots.keys()].filter((slot) => slot.retired && slot.stop === undefined)
        const called = back.slice(0, Math.max(0, target - inPlace.length))
        for (const slot of called) slot.retired = false
        const missing = target - inPlace.length - called.length
        return missing > 0 ? Effect.replicateEffect(startSlot, missing, { discard: true }) : Effect.void
      })

    const startSlot: Effect.Effect<void> = Effect.suspend(() => {
      const slot = new Slot()
      deadlines.watch(slot, stopSlot(slot, "timeout"))
      // A replacement is started from an uninterruptible finalizer, but its jobs must be interruptible.
      const life = Effect.onExit(Effect.interruptible(work(slot, context)), (exit) =>
        slot.abandoned ? Effect.void : replace(slot, exit)
      )
      const inHouse = Effect.mapInputContext(life, (_: Context.Context<never>) => environment)
      return Effect.map(Effect.forkIn(inHouse, scope), (fiber) => void slots.set(slot, fiber))
    })

    const stopSlot = (slot: Slot, reason: Judge.StopReason): Effect.Effect<void> =>
      Effect.suspend(() => {
        const fiber = slots.get(slot)
        if (slot.run === undefined || slot.stop !== undefined || fiber === undefined) return Effect.void
        slot.stop = reason
        const abandonLater = Effect.flatMap(within(Fiber.await(fiber), interruptTimeout), (ended) =>
          Option.isSome(ended) ? Effect.void : abandon(slot)
        )
        return Effect.zipRight(Fiber.interruptFork(fiber), Effect.forkIn(abandonLater, scope))
      })

    const abandon = (slot: Slot) =>
      Effect.gen(function* () {
        if (slot.run === undefined) return
        const { job } = slot.run
        slot.abandoned = true
        abandoned.add(1)
        yield* Effect.logWarning(`a handler did not stop when interrupted (${slot.stop}); abandoning its slot`).pipe(
          annotated(LoggedJob.of(job))
        )
        yield* replace(slot, Exit.void)
      })

    const retire = (grace: Duration.Duration) =>
      Effect.gen(function* () {
        wanted = 0
        const fibers = [...slots.values()]
        for (const slot of slots.keys()) slot.retired = true
        context.localQueue.wakeAll()
        const finished = yield* within(Fiber.awaitAll(fibers), grace)
        if (Option.isNone(finished)) {
          yield* Effect.forEach([...slots.keys()], (slot) => stopSlot(slot, "shutdown"), { discard: true })
          yield* within(Fiber.awaitAll(fibers), Duration.sum(interruptTimeout, "1 second"))
        }
        // Does not wait: a handler that still runs must not block the shutdown. Its job is already back in the queue.
        yield* Effect.forkDaemon(Scope.close(scope, Exit.void))
      })

    return {
      running,
      isAnyRunning,
      count: () => slots.size,
      resize,
      retire,
      stop: (held, reason) => {
        const slot = [...slots.keys()].find(({ run }) => run !== undefined && isSameRun(run.job, held))
        if (slot === undefined || (reason === "cancelled" && slot.run?.job.execution?.state.cancel() === true)) {
          return Effect.void
        }
        return stopSlot(slot, reason)
      }
    }
  })
