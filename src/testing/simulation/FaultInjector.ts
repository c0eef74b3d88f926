import { Effect } from "effect"
import * as Rollback from "../../core/Rollback.js"
import type { DatabaseUnavailable } from "../../database/DatabaseError.js"
import type { Transactions } from "../../queue/Transactions.js"
import type { Actor } from "./Actor.js"
import type { FaultKind } from "./Coverage.js"
import { type Faults, refusal } from "./Faults.js"
import type { HistoryChecker } from "./HistoryChecker.js"
import type { SimulationScheduler } from "./SimulationScheduler.js"

// The connection between a process and the database. Requests and replies take time, either can be lost, and the
// process can die in between. Each operation is atomic, and so is a transaction, which takes no virtual time by itself:
// inside it, operations have no delay, and a fault rolls back the whole transaction.

export interface WireOptions {
  readonly actor: Actor
  readonly scheduler: SimulationScheduler
  readonly faults: Faults
  readonly checker: HistoryChecker
  /** Kills the process. Absent for the client, which is never killed. */
  readonly kill?: (why: string) => void
}

/** Describes a fault for the trace. */
const described = (kind: FaultKind, hitsReply: boolean): string => {
  const when = hitsReply ? "is applied" : "is sent"
  if (kind === "killed") return `${when}, then its process is killed`
  if (kind === "disconnected") return `${when}, then its process is disconnected`
  return `is ${kind === "lost" ? "applied, but its reply is lost" : kind}`
}

/** The request and the reply of one call. One handler of interruptions for both: each takes as many operations as the call. */
class Way {
  private interrupted: (() => void) | undefined

  constructor(
    private readonly name: string,
    private readonly options: WireOptions,
    private readonly inFlight: Array<string>
  ) {}

  /** Sleeps in virtual time. */
  wait(millis: number, onInterrupt?: () => void): Effect.Effect<void> {
    const { inFlight, name } = this
    const { actor, scheduler } = this.options
    return Effect.async<void>((resume) => {
      inFlight.push(name)
      const arrived = () => {
        inFlight.splice(inFlight.indexOf(name), 1)
        this.interrupted = undefined
      }
      const cancel = scheduler.clock.after(actor.name, millis, () => {
        arrived()
        resume(Effect.void)
      })
      this.interrupted = () => {
        arrived()
        cancel()
        onInterrupt?.()
      }
    })
  }

  /** Ends a wait that was interrupted. */
  abandon(): void {
    this.interrupted?.()
  }
}

/** The database connection of one process. */
export class FaultInjector {
  private readonly open = new Set<() => void>()
  /** Operations whose request or reply is under way. */
  private readonly inFlight: Array<string> = []

  constructor(private readonly options: WireOptions) {}

  get who(): string {
    return this.options.actor.name
  }

  /** Rolls back open transactions, as the database does when a client disconnects. */
  break(): void {
    const { faults } = this.options
    if (!faults.areOver) for (const name of this.inFlight) faults.coverage.add("call", name, 0, "killed")
    for (const rollBack of this.open) rollBack()
    this.open.clear()
  }

  /** Wraps a service so that its calls go through this connection. Members listed in `local` are not wrapped. */
  to<S extends object>(tag: { readonly key: string }, service: S, local: ReadonlyArray<keyof S> = []): S {
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

  /** Transactions are atomic and unlimited in number. */
  readonly transactions: typeof Transactions.Service = {
    run: (effect) => this.transact(effect),
    runHandler: (effect) => this.transact(effect)
  }

  private transact<A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> {
    const once = Rollback.transaction(effect, (rollBack) => {
      this.open.add(rollBack)
      return () => this.open.delete(rollBack)
    })
    return Effect.withFiberRuntime((fiber) =>
      Rollback.isOpenIn(fiber) ? effect : this.send("Transactions.commit", once)
    )
  }

  /** Delivers a notification with a delay, or drops it. */
  readonly receives =
    (what: string, listener: (...args: ReadonlyArray<string | undefined>) => void) =>
    (...args: ReadonlyArray<string | undefined>): void => {
      const { actor, scheduler, faults, checker } = this.options
      if (actor.isGone) return
      const { kind, nth } = faults.strike(this.who, what, "hint")
      if (kind !== undefined) checker.trace.note(this.who, `misses notification: ${what}`)
      else scheduler.later(actor, faults.delay(`${this.who} ${what} ${nth}`), () => listener(...args))
    }

  private call<A, E, R>(
    name: string,
    args: ReadonlyArray<unknown>,
    act: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | DatabaseUnavailable, R> {
    const { checker } = this.options
    return Effect.withFiberRuntime((fiber): Effect.Effect<A, E | DatabaseUnavailable, R> => {
      // Nested calls made by an operation do not go through the connection again.
      if (checker.isInCall) return act
      const done = Effect.clockWith((clock) =>
        checker.during({ who: this.who, call: name, args, local: clock.unsafeCurrentTimeMillis() }, act)
      )
      return Rollback.isOpenIn(fiber) ? this.sendInside(name, done) : this.send(name, done)
    })
  }

  /** Runs a statement inside a transaction without delay. A fault fails the whole transaction. */
  private sendInside<A, E, R>(name: string, act: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> {
    const { kind } = this.options.faults.strike(this.who, name, "inside")
    if (kind !== "refused" && kind !== "lost") return act
    this.options.checker.trace.note(this.who, `${name} fails and rolls back its transaction`)
    return refusal(true)
  }

  private send<A, E, R>(name: string, act: Effect.Effect<A, E, R>): Effect.Effect<A, E | DatabaseUnavailable, R> {
    return Effect.suspend(() => {
      const { faults, checker, kill, scheduler } = this.options
      const { kind, nth } = faults.strike(this.who, name, "call", kill !== undefined)
      checker.requestSent(this.who, name)
      const named = `${this.who} ${name} ${nth}`
      const hitsReply = (kind === "killed" || kind === "disconnected") && faults.strikesReply(named)
      if (kind !== undefined) checker.trace.note(this.who, `${name} ${described(kind, hitsReply)}`)
      const before =
        faults.delay(`${named} before`) + (kind === "slow" ? faults.slowness(named, scheduler.clock.now) : 0)
      const after = faults.delay(`${named} after`)
      const isDisconnected = () => {
        if (!faults.isDisconnected(this.who)) return false
        faults.coverage.add("call", name, 0, "disconnected")
        return true
      }
      // The fiber of a killed process never continues.
      const killed = Effect.async<never>(() => kill?.("is killed"))
      const disconnect = () => {
        faults.disconnect(this.who)
        scheduler.clock.after("database", faults.disconnectMillis(named), () => faults.reconnect(this.who))
      }
      const request = (): Effect.Effect<A, E | DatabaseUnavailable, R> => {
        if (kind === "killed" && !hitsReply) return killed
        if (kind === "disconnected" && !hitsReply) disconnect()
        return kind === "refused" || isDisconnected() ? refusal(true) : act
      }
      const lost = () => checker.answerLost(this.who, name)
      const reply = (value: A): Effect.Effect<A, DatabaseUnavailable> => {
        if (kind === "killed") return killed
        if (kind === "disconnected") disconnect()
        if (kind !== "lost" && !isDisconnected()) return Effect.succeed(value)
        lost()
        return refusal(false)
      }
      const way = new Way(name, this.options, this.inFlight)
      const delayedRequest = before > 0 ? Effect.flatMap(way.wait(before), request) : request()
      const whole = Effect.flatMap(delayedRequest, (value) =>
        // A caller that is interrupted while it waits for the reply does not receive it.
        after > 0 ? Effect.flatMap(way.wait(after, lost), () => reply(value)) : reply(value)
      )
      if (before <= 0 && after <= 0) return whole
      return Effect.uninterruptibleMask((restore) =>
        Effect.matchCauseEffect(restore(whole), {
          onFailure: (cause) => {
            way.abandon()
            return Effect.failCause(cause)
          },
          onSuccess: Effect.succeed
        })
      )
    })
  }
}
