import type { Effect } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import type { ClaimedJob, ClaimRequest } from "../Queue.js"
import type { ClaimCursor } from "./ClaimCursor.js"
import type { ScanPositions } from "./ScanPositions.js"

/** One claim: what is requested, and what the process knows about the queue. */
export interface Claiming extends ClaimRequest {
  readonly cursor: ClaimCursor
  /** The cursor's positions when the claim began. A reset while it runs replaces them and must not be overwritten. */
  readonly positions: ScanPositions
  readonly keyed: boolean
  readonly rated: boolean
  readonly now: number
}

export type Claim = (claiming: Claiming) => Effect.Effect<ReadonlyArray<ClaimedJob>, DatabaseError>
