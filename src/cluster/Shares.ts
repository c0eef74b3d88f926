import { Context, type Effect } from "effect"
import type { PodId } from "../core/Ids.js"
import type { Term } from "../core/Term.js"
import type { DatabaseError } from "../database/DatabaseError.js"
import type { TermOver } from "./Leadership.js"

/** The number of slots of a queue that are assigned to a pod. */
export interface Share {
  readonly queue: string
  readonly pod: PodId
  readonly slots: number
}

/** Signal topic for changed slot assignments. */
export const sharesTopic = "shares"

/** The slot assignments of the cluster, written by the leader. */
export class Shares extends Context.Tag("nightshift/cluster/Shares")<
  Shares,
  {
    /** All shares, ordered by queue and pod. */
    readonly all: Effect.Effect<ReadonlyArray<Share>, DatabaseError>

    /** Sets these shares atomically and leaves the others unchanged. Changes nothing when the term is over. */
    readonly assign: (term: Term, shares: ReadonlyArray<Share>) => Effect.Effect<void, TermOver | DatabaseError>
  }
>() {}
