import {
  Cause,
  Chunk,
  Clock,
  DateTime,
  Duration,
  Effect,
  type Fiber,
  FiberRef,
  Layer,
  Scheduler,
  type TestClock
} from "effect"
import type { AlarmClock } from "../core/Alarm.js"
import { type IdleSteps, pausingIn } from "../core/Loop.js"
import { isWatchdog } from "../core/Watchdog.js"
import { currentRun } from "./HandlerRuns.js"
import { SteppingClock } from "./simulation/SteppingClock.js"

// Effect's TestClock waits for three real timers per sleeper it wakes, including interrupted ones: about 3 ms. This
// clock jumps from one wake-up to the next and gives each one turn of the event loop: a few microseconds.

const owner = "test"

/**
 * Maximum distance of one move. Background loops run at every instant in between, so a longer move would take minutes.
 */
const longestMove = Duration.toMillis(Duration.days(5 * 366))

/** Waits one turn of the event loop, in which all ready fibers and resolved promises continue. */
export const eventLoopTurn: Effect.Effect<void> = Effect.async<void>(
  (resume) => void setImmediate(() => resume(Effect.void))
)

const isInterrupted = (fiber: Fiber.RuntimeFiber<unknown, unknown>) =>
  !Cause.isEmpty(fiber.getFiberRef(FiberRef.interruptedCause))

/** The pause of a background loop that has nothing to do. */
interface Pause {
  /** When the pause ends unless something changes before, in epoch milliseconds. */
  readonly endsAt: () => number
  readonly end: (at: number) => void
}

/** Operations between two checks whether a fiber must let others run. The limit is usually 2,048. */
const operationsPerCheck = 64

/** Turns of microtasks before the scheduler lets the event loop continue. */
const maxMicrotasks = 2_048

/**
 * Runs fibers in the order in which they became ready. After many microtasks, Effect's own scheduler continues on a real
 * timer, so the order would depend on the speed of the machine.
 */
class OrderedScheduler extends Scheduler.MixedScheduler {
  private readonly runner = new Scheduler.SchedulerRunner((depth, drain) => {
    if (depth >= maxMicrotasks) setImmediate(() => drain(0))
    // Not queueMicrotask, for which Node creates an object that tracks it.
    else void Promise.resolve(depth + 1).then(drain)
  })

  override scheduleTask(task: Scheduler.Task, priority: number): void {
    this.runner.scheduleTask(task, priority)
  }

  /** Effect's own reads a reference of the fiber before every operation. */
  override shouldYield(fiber: Fiber.RuntimeFiber<unknown, unknown>): number | false {
    return fiber.currentOpCount % operationsPerCheck === 0 ? super.shouldYield(fiber) : false
  }
}

/** Sets the scheduler of a test. */
export const ordered: Layer.Layer<never> = Layer.unwrapEffect(
  Effect.sync(() => Layer.setScheduler(new OrderedScheduler(maxMicrotasks)))
)

/** A clock that only the test moves. `TestClock.adjust`, `setTime` and `sleeps` work as on Effect's own. */
export class VirtualClock implements TestClock.TestClock, AlarmClock {
  readonly [Clock.ClockTypeId]: Clock.ClockTypeId = Clock.ClockTypeId
  private readonly steps: SteppingClock
  private readonly pauses = new Set<Pause>()
  /** Runs before a move and at every instant in between. */
  settle: Effect.Effect<void> = eventLoopTurn

  /** Epoch milliseconds. */
  constructor(startAt: number) {
    this.steps = new SteppingClock(startAt)
  }

  readonly unsafeCurrentTimeMillis = (): number => this.steps.now
  readonly unsafeCurrentTimeNanos = (): bigint => BigInt(Math.floor(this.steps.now * 1_000_000))
  readonly currentTimeMillis: Effect.Effect<number> = Effect.sync(this.unsafeCurrentTimeMillis)
  readonly currentTimeNanos: Effect.Effect<bigint> = Effect.sync(this.unsafeCurrentTimeNanos)

  readonly sleep = (duration: Duration.Duration): Effect.Effect<void> => {
    const millis = Duration.toMillis(duration)
    if (millis <= 0) return Effect.void
    return Effect.withFiberRuntime((fiber) =>
      Effect.async<void>((resume) => {
        const cancel = this.wakeAfter(fiber, millis, () => resume(Effect.void))
        return Effect.sync(cancel)
      })
    )
  }

  readonly alarm: AlarmClock["alarm"] = (fiber, delay, ring) => {
    // A task of its own, as the end of a fiber that had slept: who wakes at an instant keeps its place among the others.
    const rings = () => fiber.currentScheduler.scheduleTask(ring, 0)
    if (delay <= 0) {
      rings()
      return () => {}
    }
    const cancel = this.wakeAfter(fiber, delay, () => {
      fiber.removeObserver(cancel)
      rings()
    })
    fiber.addObserver(cancel)
    return () => {
      fiber.removeObserver(cancel)
      cancel()
    }
  }

  /** Wakes a sleeper of this fiber once, unless it is cancelled before. */
  private wakeAfter(fiber: Fiber.RuntimeFiber<unknown, unknown>, millis: number, wake: () => void): () => void {
    const run = isWatchdog(fiber) ? undefined : fiber.getFiberRef(currentRun)
    const idle = pausingIn(fiber)
    if (run === undefined) return this.wakeAt(millis, idle, wake)
    let isSleeping = true
    const awake = () => {
      if (isSleeping) run.sleeping -= 1
      isSleeping = false
    }
    run.sleeping += 1
    const cancel = this.wakeAt(millis, idle, () => {
      // The end of a test interrupts a run that was killed. Its finalizers may sleep.
      if (run.isKilled && !isInterrupted(fiber)) return
      awake()
      wake()
    })
    return () => {
      awake()
      cancel()
    }
  }

  private wakeAt(millis: number, idle: IdleSteps | undefined, wake: () => void): () => void {
    return idle === undefined ? this.after(millis, wake) : this.pause(millis, idle, wake)
  }

  private after(millis: number, wake: () => void): () => void {
    return Number.isFinite(millis) ? this.steps.after(owner, millis, wake) : () => {}
  }

  /**
   * Pauses a loop until it has something to do: to the first multiple of its pause at or after that instant, or exactly
   * to that instant.
   */
  private pause(millis: number, idle: IdleSteps, wake: () => void): () => void {
    if (idle.until.length < idle.steps || !Number.isFinite(millis)) return this.after(millis, wake)
    const first = this.steps.now + millis
    let cancel: () => void = () => this.pauses.delete(pause)
    const pause: Pause = {
      endsAt: () => {
        let due = Number.POSITIVE_INFINITY
        for (const instant of idle.until) due = Math.min(due, instant())
        due = Math.max(this.steps.now, due)
        if (due <= first) return first
        return idle.isExact ? due : first + Math.ceil((due - first) / millis) * millis
      },
      end: (at) => {
        this.pauses.delete(pause)
        cancel = this.steps.after(owner, at - this.steps.now, wake)
      }
    }
    this.pauses.add(pause)
    return () => cancel()
  }

  /** Returns the time of the next wake-up, if it is not later than this instant. */
  private nextUntil(instant: number): number | undefined {
    let latest = Math.min(instant, this.steps.nextAt ?? instant)
    for (const pause of this.pauses) {
      const at = pause.endsAt()
      if (at > latest) continue
      pause.end(at)
      latest = at
    }
    const next = this.steps.nextAt
    return next !== undefined && next <= instant ? next : undefined
  }

  readonly adjust = (duration: Duration.DurationInput): Effect.Effect<void> =>
    Effect.suspend(() => this.setTime(this.steps.now + Duration.toMillis(duration)))

  readonly setTime = (instant: number): Effect.Effect<void> =>
    Effect.gen(this, function* () {
      if (instant - this.steps.now > longestMove) {
        return yield* Effect.dieMessage(
          `The clock cannot move from ${iso(this.steps.now)} to ${iso(instant)} in one step: the limit is five years. ` +
            "To test at a certain date, use TestShift.layer({ startAt })."
        )
      }
      const isBackwards = instant < this.steps.now
      yield* this.settle
      while (this.nextUntil(instant) !== undefined) {
        this.steps.step()
        yield* this.settle
      }
      // Another move at the same time may have gone further.
      if (isBackwards || instant > this.steps.now) this.steps.set(instant)
    })

  readonly adjustWith =
    (duration: Duration.DurationInput) =>
    <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
      Effect.zipLeft(effect, this.adjust(duration), { concurrent: true })

  get save(): Effect.Effect<Effect.Effect<void>> {
    return Effect.map(this.currentTimeMillis, (saved) => Effect.sync(() => this.steps.set(saved)))
  }

  get sleeps(): Effect.Effect<Chunk.Chunk<number>> {
    return Effect.sync(() => Chunk.fromIterable(this.steps.instants))
  }
}

/** Sets Effect's clock to a virtual clock that starts at the epoch. */
export const layer: Layer.Layer<never> = Layer.unwrapEffect(Effect.sync(() => Layer.setClock(new VirtualClock(0))))

const iso = (millis: number) =>
  Number.isFinite(millis) ? DateTime.formatIso(DateTime.unsafeMake(millis)) : String(millis)
