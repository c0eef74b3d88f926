import { type Context, Effect, FiberRef } from "effect"
import * as Undo from "../../core/Undo.js"
import type { DatabaseUnavailable } from "../../database/DatabaseError.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { Actor } from "./Actor.js"
import { type Faults, refusal } from "./Faults.js"
import type { HistoryChecker } from "./HistoryChecker.js"
import type { SimulationScheduler } from "./SimulationScheduler.js"

// What lies between a process and the database: a request takes time and so does its answer, either may be lost, and the
// process may be gone in between. An act itself is whole, and so is a transaction that does not wait for anything.

/** Inside of a transaction nothing takes time, and a fault undoes all of it. */
const inTransaction: FiberRef.FiberRef<boolean> = FiberRef.unsafeMake(false)

export interface WireOptions {
  readonly actor: Actor
  readonly scheduler: SimulationScheduler
  readonly faults: Faults
  readonly checker: HistoryChecker
}

/** The wire of one process. */
export class FaultInjector {
  private readonly open = new Set<() => void>()

  constructor(private readonly options: WireOptions) {}

  get who(): string {
    return this.options.actor.name
  }

  /** Takes back what stands half-way, as the database does for a process that is gone. */
  break(): void {
    for (const takeBack of this.open) takeBack()
    this.open.clear()
  }

  /** The same service at the far end of the wire. What only listens, or asks nobody, is left as it is. */
  to<I, S extends object>(tag: Context.Tag<I, S>, service: S, local: ReadonlyArray<keyof S> = []): S {
    const port = tag.key.replace(/.*\//, "")
    const far = Object.entries(service).map(([name, member]: [string, unknown]) => {
      const call = `${port}.${name}`
      if (local.some((each) => each === name)) return [name, member]
      if (Effect.isEffect(member)) return [name, this.call(call, [], member)]
      if (typeof member !== "function") return [name, member]
      const method = (...args: ReadonlyArray<unknown>) => {
        const act: unknown = member(...args)
        return Effect.isEffect(act) ? this.call(call, args, act) : act
      }
      return [name, method]
    })
    return Object.fromEntries(far) as S
  }

  /** All acts of a transaction stand, or none. There is room for any number of them. */
  readonly transactions: typeof Transactions.Service = {
    run: (effect) => this.transact(effect),
    runHandler: (effect) => this.transact(effect)
  }

  private transact<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> {
    let takeBack = () => {}
    const whole = Undo.transaction(effect, (undo) => {
      takeBack = undo
      this.open.add(undo)
    })
    const once = Effect.ensuring(
      Effect.locally(whole, inTransaction, true),
      Effect.sync(() => this.open.delete(takeBack))
    )
    return Effect.flatMap(FiberRef.get(inTransaction), (isPart) =>
      isPart ? effect : this.send("Transactions.commit", once)
    )
  }

  /** Calls back across the wire: later, or not at all. */
  readonly hears =
    (what: string, listener: (...args: ReadonlyArray<string | undefined>) => void) =>
    (...args: ReadonlyArray<string | undefined>): void => {
      const { actor, scheduler, faults, checker } = this.options
      if (actor.isGone) return
      const { kind, nth } = faults.strike(this.who, what, "hint")
      if (kind !== undefined) checker.trace.note(this.who, `does not hear: ${what}`)
      else scheduler.later(actor, faults.delay(`${this.who} ${what} ${nth}`), () => listener(...args))
    }

  private call<A, E, R>(
    name: string,
    args: ReadonlyArray<unknown>,
    act: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | DatabaseUnavailable, R> {
    const { checker } = this.options
    const done = Effect.clockWith((clock) =>
      checker.during({ who: this.who, call: name, args, local: clock.unsafeCurrentTimeMillis() }, act)
    )
    return Effect.flatMap(FiberRef.get(inTransaction), (isPart): Effect.Effect<A, E | DatabaseUnavailable, R> => {
      // What an act does itself does not go over the wire.
      if (checker.isInCall) return act
      return isPart ? this.sendInside(name, done) : this.send(name, done)
    })
  }

  /** A statement of a transaction: it takes no time, and where it fails, all fails. */
  private sendInside<A, E, R>(name: string, act: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> {
    const { kind } = this.options.faults.strike(this.who, name, "call")
    if (kind !== "refused" && kind !== "lost") return act
    this.options.checker.trace.note(this.who, `${name} fails, and with it its transaction`)
    return refusal(true)
  }

  private send<A, E, R>(name: string, act: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> {
    return Effect.suspend(() => {
      const { faults, checker } = this.options
      const { kind, nth } = faults.strike(this.who, name, "call")
      checker.asked(this.who, name)
      const named = `${this.who} ${name} ${nth}`
      if (kind !== undefined)
        checker.trace.note(this.who, `${name} is ${kind === "lost" ? "answered, and nobody hears it" : kind}`)
      const before = faults.delay(`${named} before`) + (kind === "slow" ? faults.slowness(named) : 0)
      const reachable = Effect.suspend(
        (): Effect.Effect<A, E | DatabaseUnavailable, R> =>
          kind === "refused" || faults.isCutOff(this.who) ? refusal(true) : act
      )
      const answer = Effect.suspend((): Effect.Effect<void, DatabaseUnavailable> => {
        if (kind !== "lost" && !faults.isCutOff(this.who)) return Effect.void
        checker.answerLost(this.who, name)
        return refusal(false)
      })
      const after = faults.delay(`${named} after`)
      const asked = before > 0 ? Effect.zipRight(Effect.sleep(before), reachable) : reachable
      // Whoever is interrupted while the answer is on its way does not hear it, either.
      const arrival = Effect.onInterrupt(Effect.sleep(after), () =>
        Effect.sync(() => checker.answerLost(this.who, name))
      )
      return Effect.zipLeft(asked, after > 0 ? Effect.zipRight(arrival, answer) : answer)
    })
  }
}
