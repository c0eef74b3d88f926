import { Effect, Exit, Fiber, FiberId, Option, Predicate, Random, Runtime, RuntimeFlags } from "effect"
import { Actor } from "./Actor.js"
import { Dice, digest } from "./Seed.js"
import { ServerClock } from "./ServerClock.js"
import { SteppingClock } from "./SteppingClock.js"

// Who has the next turn, and when time goes on: always the same for the same seed. While somebody can do something, time
// stands still; when nobody can, it goes on to the next instant at which somebody wakes.

/** How often others of this machine's event loop have a turn. */
const turnsPerBreath = 5_000

/** When so much happens in one instant, or in all, somebody turns in circles. */
const mostTurnsPerInstant = 200_000
const mostTurns = 20_000_000

/** Lets promises of handlers settle. */
const breathe = Effect.async<void>((resume) => void setImmediate(() => resume(Effect.void)))

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

  /** How many turns were taken so far. */
  get turns(): number {
    return this.turnsTaken
  }

  actor(name: string): Actor {
    const actor = new Actor(name)
    this.actors.push(actor)
    return actor
  }

  /** Starts a fiber in a process, on its clock and with its own chance. */
  start<A, E, R>(actor: Actor, runtime: Runtime.Runtime<R>, effect: Effect.Effect<A, E, R>, skewMillis = 0) {
    const inWorld = effect.pipe(
      Effect.withClock(this.clock.clockOf(actor.name, this.server.follow(actor.name, skewMillis))),
      Effect.withRandom(Random.make(`${this.seed} ${actor.name}`))
    )
    const quick = Runtime.disableRuntimeFlag(runtime, RuntimeFlags.RuntimeMetrics)
    return Runtime.runFork(quick)(inWorld, { scheduler: actor, immediate: false })
  }

  /** Calls somebody in a process after a while. */
  later(actor: Actor, delay: number, call: () => void): void {
    this.clock.after(actor.name, delay, () => actor.scheduleTask(call))
  }

  /** The process is gone from one instant to the next. */
  kill(actor: Actor): void {
    actor.kill()
    this.clock.forget(actor.name)
  }

  /**
   * Nobody gets a turn any more. Effect keeps hold of every fiber that was started by itself until it ends, and those of
   * killed processes never do: they are told that they have, or each run would leave its whole world behind.
   */
  readonly end: Effect.Effect<void> = Effect.map(Fiber.roots, (fibers) => {
    const own = new Set<unknown>(this.actors)
    for (const actor of this.actors) actor.kill()
    for (const fiber of fibers) {
      if (!Predicate.hasProperty(fiber, "currentScheduler") || !own.has(fiber.currentScheduler)) continue
      if (!Predicate.hasProperty(fiber, "setExitValue") || typeof fiber.setExitValue !== "function") continue
      fiber.setExitValue(Exit.interrupt(FiberId.none))
    }
  })

  /** Gives turns until the fiber is over, or enough was seen; why it cannot come to an end where it does not. */
  untilOver<A, E>(
    fiber: { readonly unsafePoll: () => Exit.Exit<A, E> | null },
    isEnough: () => boolean
  ): Effect.Effect<Option.Option<Exit.Exit<A, E> | string>> {
    let inInstant = 0
    let hasBreathed = false
    type Outcome = Option.Option<Exit.Exit<A, E> | string>
    const turn = (): Option.Option<Outcome> => {
      for (let count = 0; count < turnsPerBreath; count += 1) {
        const exit = fiber.unsafePoll()
        if (exit !== null) return Option.some(Option.some(exit))
        if (isEnough()) return Option.some(Option.none())
        const ready = this.actors.filter((actor) => actor.isReady)
        if (ready.length > 0) {
          inInstant += 1
          this.turnsTaken += 1
          hasBreathed = false
          ready[ready.length === 1 ? 0 : this.dice.whole(0, ready.length - 1)]?.turn()
          if (inInstant > mostTurnsPerInstant || this.turnsTaken > mostTurns) {
            return Option.some(Option.some("somebody turns in circles: the simulation does not come to an end"))
          }
        } else if (!hasBreathed && this.actors.some(({ waiting }) => waiting > 0)) {
          hasBreathed = true
          return Option.none()
        } else {
          inInstant = 0
          if (!this.clock.step()) return Option.some(Option.some("everybody waits for something that never comes"))
        }
      }
      return Option.none()
    }
    return Effect.suspend(() => Option.match(turn(), { onNone: () => breathe, onSome: Effect.fail })).pipe(
      Effect.forever,
      Effect.flip
    )
  }
}
