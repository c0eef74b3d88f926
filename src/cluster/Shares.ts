import { Context, type Effect } from "effect"
import type { PodId } from "../core/Ids.js"
import type { Term } from "../core/Term.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { TermOver } from "./Leadership.js"

/** How many slots of a queue a pod was given. */
export interface Share {
  readonly queue: string
  readonly pod: PodId
  readonly slots: number
}

/** Where it is said that slots were given out anew. */
export const sharesTopic = "shares"

/** The slots of the cluster, as the leader gave them out. */
export class Shares extends Context.Tag("nightshift/cluster/Shares")<
  Shares,
  {
    /** Every share, by queue and pod. */
    readonly all: Effect.Effect<ReadonlyArray<Share>, DatabaseError>

    /** Sets these shares, all or none, and leaves the others as they are. Nothing is changed when the term is over. */
    readonly assign: (term: Term, shares: ReadonlyArray<Share>) => Effect.Effect<void, TermOver | DatabaseError>
  }
>() {}
