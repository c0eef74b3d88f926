import { type Clock, Duration } from "effect"
import { ChangeWatch, perClock } from "../core/ChangeWatch.js"
import type { PodId, Term } from "../core/Ids.js"

/** The lease row as read. `until` is only compared for equality; every renewal changes it. */
export interface LeaseSeen {
  readonly term: Term
  readonly until: string
}

interface Held {
  readonly term: Term
  /** On the monotonic clock. */
  readonly until: number
}

/** What a process knows about the leader's lease, timed by its own monotonic clock. */
class LeadershipWatch {
  private readonly rows = new ChangeWatch<"leader", LeaseSeen>((a, b) => a.term === b.term && a.until === b.until)
  private readonly held = new Map<PodId, Held>()

  /** Returns the row if it has not changed for a full lease, which means that the leader is dead. */
  expired(lease: Duration.Duration, sentAt: number): LeaseSeen | undefined {
    return this.rows.quietFor(Duration.toMillis(lease), sentAt)[0]?.[1]
  }

  /** Returns the term that the pod may renew, if it took or renewed the lease less than one lease ago. */
  termOf(pod: PodId, sentAt: number): Term | undefined {
    const held = this.held.get(pod)
    return held !== undefined && sentAt < held.until ? held.term : undefined
  }

  /** Returns the milliseconds left of a lease that this process holds. */
  leftOf(term: Term, now: number): number | undefined {
    for (const held of this.held.values()) if (held.term === term) return held.until - now
    return undefined
  }

  saw(row: LeaseSeen | undefined, receivedAt: number): void {
    this.rows.record(row === undefined ? [] : [["leader", row]], receivedAt)
  }

  took(pod: PodId, term: Term, lease: Duration.Duration, sentAt: number): void {
    this.held.set(pod, { term, until: sentAt + Duration.toMillis(lease) })
  }

  lost(pod: PodId): void {
    this.held.delete(pod)
  }
}

/** Returns the watch of the process that uses the given clock. */
export const make = (): ((clock: Clock.Clock) => LeadershipWatch) => perClock(() => new LeadershipWatch())
