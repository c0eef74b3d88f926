import { type Clock, Duration } from "effect"
import { ChangeWatch, perClock } from "../core/ChangeWatch.js"
import type { PodId } from "../core/Ids.js"
import type { Term } from "../core/Term.js"

/** The lease's row as it was read. `until` only has to change with every renewal. */
export interface LeaseSeen {
  readonly term: Term
  readonly until: string
}

interface Held {
  readonly term: Term
  /** On the steady clock. */
  readonly until: number
}

/** What a process knows about the leader's lease, timed by its own steady clock. */
class LeadershipWatch {
  private readonly rows = new ChangeWatch<"leader", LeaseSeen>((a, b) => a.term === b.term && a.until === b.until)
  private readonly held = new Map<PodId, Held>()

  /** The row as the last look found it, if it has not changed for a whole lease: its leader is gone. */
  expired(lease: Duration.Duration, asked: number): LeaseSeen | undefined {
    return this.rows.quietFor(Duration.toMillis(lease), asked)[0]?.[1]
  }

  /** The term that a pod may renew: it asked for it less than a lease ago. */
  termOf(pod: PodId, asked: number): Term | undefined {
    const held = this.held.get(pod)
    return held !== undefined && asked < held.until ? held.term : undefined
  }

  /** How much is left of a lease that this process took, in milliseconds. */
  leftOf(term: Term, now: number): number | undefined {
    for (const held of this.held.values()) if (held.term === term) return held.until - now
    return undefined
  }

  saw(row: LeaseSeen | undefined, answered: number): void {
    this.rows.look(row === undefined ? [] : [["leader", row]], answered)
  }

  took(pod: PodId, term: Term, lease: Duration.Duration, asked: number): void {
    this.held.set(pod, { term, until: asked + Duration.toMillis(lease) })
  }

  lost(pod: PodId): void {
    this.held.delete(pod)
  }
}

/** The watch of the process that uses this clock. */
export const make = (): ((clock: Clock.Clock) => LeadershipWatch) => perClock(() => new LeadershipWatch())
