import { Effect, Exit, Fiber, FiberId, Option, Predicate, Random, Runtime, RuntimeFlags } from "effect"
import { Actor } from "./Actor.js"
import { Dice, digest } from "./Seed.js"
import { ServerClock } from "./ServerClock.js"
import { SteppingClock } from "./SteppingClock.js"

// Decides deterministically which process runs next and when time advances. Time does not advance while any process is
// ready; otherwise it jumps to the next wake-up.

/**
 * Yields to the event loop before time advances, so that handlers' promises can resolve: a replay of a workflow takes a few to
 * see that its code has stopped.
 */
const maxYields = 4

/** Turns between two yields to the real event loop. */
const turnsPerYield = 5_000

/** Turns per instant and in total after which the run counts as an endless loop. */
const maxTurnsPerInstant = 200_000
const maxTurns = 20_000_000

export class SimulationScheduler {
  readonly clock: SteppingClock
  readonly server: ServerClock
  private readonly actors: Array<Actor> = []
  private readonly dice: Dice
  private turnsTaken = 0

  constructor(
    private readonly seed: number,
    startAt: number
  ) {
    this.clock = new SteppingClock(startAt)
    this.server = new ServerClock(this.clock, seed)
    this.dice = new Dice(digest("turns", seed))
  }

  get turns(): number {
    return this.turnsTaken
  }

  actor(name: string): Actor {
    const actor = new Actor(name)
    this.actors.push(actor)
    return actor
  }

  /** Starts a fiber in a process, with the process's clock and random generator. */
  start<A, E, R>(
    actor: Actor,
    runtime: Runtime.Runtime<R>,
    effect: Effect.Effect<A, E, R>,
    { pace = 1, skew = 0 } = {}
  ) {
    const withServices = effect.pipe(
      Effect.withClock(this.clock.clockOf(actor.name, this.server.follow(actor.name, skew, pace), pace)),
      Effect.withRandom(Random.make(`${this.seed} ${actor.name}`))
    )
    const quick = Runtime.disableRuntimeFlag(runtime, RuntimeFlags.RuntimeMetrics)
    return Runtime.runFork(quick)(withServices, { scheduler: actor, immediate: false })
  }

  /** Schedules a callback in a process. */
  later(actor: Actor, delay: number, call: () => void): void {
    this.clock.after(actor.name, delay, () => actor.scheduleTask(call))
  }

  /** Kills a process without running its finalizers. */
  kill(actor: Actor): void {
    actor.kill()
    this.clock.forget(actor.name)
  }

  /**
   * Stops all processes. Effect keeps every root fiber in memory until it exits, and the fibers of killed processes
   * never do, so they are marked as exited here. Otherwise every run would leak its whole state. This includes fibers of
   * earlier runs: a promise of a handler may start one after its run is over.
   */
  readonly end: Effect.Effect<void> = Effect.map(Fiber.roots, (fibers) => {
    for (const actor of this.actors) {
      actor.kill()
      actor.isOver = true
    }
    for (const fiber of fibers) {
      const scheduler = Predicate.hasProperty(fiber, "currentScheduler") ? fiber.currentScheduler : undefined
      if (!(scheduler instanceof Actor) || !scheduler.isOver) continue
      if (!Predicate.hasProperty(fiber, "setExitValue") || typeof fiber.setExitValue !== "function") continue
      fiber.setExitValue(Exit.interrupt(FiberId.none))
    }
  })

  /** Picks one of the processes that are ready. */
  private readyActor(): Actor | undefined {
    const { actors } = this
    let only: Actor | undefined
    let count = 0
    for (let index = 0; index < actors.length; index += 1) {
      const actor = actors[index]
      if (actor === undefined || !actor.isReady) continue
      only ??= actor
      count += 1
    }
    if (count < 2) return only
    let left = this.dice.whole(0, count - 1)
    return actors.find((actor) => actor.isReady && left-- === 0)
  }

  /**
   * Runs turns until the fiber exits or `isEnough` returns true (none). Returns a text if the run deadlocks or loops.
   */
  untilOver<A, E>(
    fiber: { readonly unsafePoll: () => Exit.Exit<A, E> | null },
    isEnough: () => boolean
  ): Effect.Effect<Option.Option<Exit.Exit<A, E> | string>> {
    let inInstant = 0
    let yields = 0
    type Outcome = Option.Option<Exit.Exit<A, E> | string>
    const turn = (): Option.Option<Outcome> => {
      for (let count = 0; count < turnsPerYield; count += 1) {
        const exit = fiber.unsafePoll()
        if (exit !== null) return Option.some(Option.some(exit))
        if (isEnough()) return Option.some(Option.none())
        const ready = this.readyActor()
        if (ready !== undefined) {
          inInstant += 1
          this.turnsTaken += 1
          yields = 0
          ready.turn()
          if (inInstant > maxTurnsPerInstant || this.turnsTaken > maxTurns) {
            return Option.some(Option.some("endless loop: a process never waits, so the simulation does not end"))
          }
        } else if (yields < maxYields && this.actors.some(({ waiting }) => waiting > 0)) {
          yields += 1
          return Option.none()
        } else {
          inInstant = 0
          yields = 0
          if (!this.clock.step()) return Option.some(Option.some("deadlock: every process waits and none will wake up"))
        }
      }
      return Option.none()
    }
    // Calls back instead of running in a fiber: an execution lets the event loop continue hundreds of times.
    return Effect.async<Outcome>((resume) => {
      let isStopped = false
      const proceed = () => {
        if (isStopped) return
        try {
          Option.match(turn(), {
            onNone: () => void setImmediate(proceed),
            onSome: (outcome) => resume(Effect.succeed(outcome))
          })
        } catch (error) {
          resume(Effect.die(error))
        }
      }
      proceed()
      return Effect.sync(() => {
        isStopped = true
      })
    })
  }
}
