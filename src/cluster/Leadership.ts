import { Context, type Duration, type Effect, type Option, Schema } from "effect"
import { type PodId, Term } from "../core/Ids.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** Another pod leads now. The write that asserted this term was not made. */
export class TermEnded extends Schema.TaggedError<TermEnded>()("TermEnded", { term: Term }) {
  override get message(): string {
    return `Leader term ${this.term} has ended: another process leads, or the lease was released.`
  }
}

/** The current leader according to the lease row. */
export interface Leader {
  readonly pod: PodId
  readonly term: Term
  /** Epoch milliseconds. */
  readonly until: number
}

/**
 * Leader election: a lease in a single row, with a term that increases at every change of leader. A pod considers the
 * leader dead when the row has not changed for a full lease on the pod's own monotonic clock. The timestamps in the row
 * are informational only.
 */
export class Leadership extends Context.Tag("nightshift/cluster/Leadership")<
  Leadership,
  {
    /**
     * Takes the lease if it is free or expired, or renews it if this pod holds it. Returns the term if this pod leads
     * and none if another pod does. A process that has just started has not yet observed the lease, so it waits a full
     * lease before it treats the lease as expired.
     */
    readonly campaign: (pod: PodId, lease: Duration.Duration) => Effect.Effect<Option.Option<Term>, DatabaseError>

    /**
     * Releases the lease so that the next leader does not wait for it to expire. Without a term, releases any term of
     * this pod.
     */
    readonly resign: (pod: PodId, term?: Term) => Effect.Effect<void, DatabaseError>

    /**
     * Fails when the term has ended, because another pod took the lease or this pod released it. Inside a transaction,
     * the lease is also locked until the commit, so that only the current leader's writes can commit.
     */
    readonly assertTerm: (term: Term) => Effect.Effect<void, TermEnded | DatabaseError>

    /** The holder of the lease. A dead leader is returned until another pod takes the lease. */
    readonly leader: Effect.Effect<Option.Option<Leader>, DatabaseError>
  }
>() {}
