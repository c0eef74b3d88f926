import { Context, type Duration, type Effect, type Option, Schema } from "effect"
import type { PodId } from "../core/Ids.js"
import { Term } from "../core/Term.js"
import type { DatabaseError } from "../database/DatabaseError.js"

/** Somebody else leads by now; whatever was to be done in the name of this term is not done. */
export class TermOver extends Schema.TaggedError<TermOver>()("TermOver", { term: Term }) {
  override get message(): string {
    return `The leader's term ${this.term} is over.`
  }
}

/** Who leads, as the lease row says. */
export interface Leader {
  readonly pod: PodId
  readonly term: Term
  /** Epoch milliseconds. */
  readonly until: number
}

/**
 * Which pod speaks for the whole cluster: a lease in one row, with a term that rises whenever it changes hands. A leader is
 * gone when its row has not changed for a whole lease by the steady clock of the pod that watches it; what the row's instants
 * say is for people.
 */
export class Leadership extends Context.Tag("nightshift/cluster/Leadership")<
  Leadership,
  {
    /**
     * Takes the lease if it is free or was not renewed for as long, or renews it if it is this pod's; the term while this pod
     * leads, nothing while another does. A process that has just started sees the lease for the first time and waits.
     */
    readonly campaign: (pod: PodId, lease: Duration.Duration) => Effect.Effect<Option.Option<Term>, DatabaseError>

    /** Gives the lease back, so that the next leader need not wait for its end; in whichever term where none is named. */
    readonly resign: (pod: PodId, term?: Term) => Effect.Effect<void, DatabaseError>

    /**
     * Fails when the term is over: another pod has taken the lease, or it was given back. In a transaction it also keeps the lease from changing hands until the commit, so that
     * what is written there is written by the leader or not at all.
     */
    readonly assertTerm: (term: Term) => Effect.Effect<void, TermOver | DatabaseError>

    /** Who holds the lease. A leader that died holds it until another pod takes it. */
    readonly leader: Effect.Effect<Option.Option<Leader>, DatabaseError>
  }
>() {}
