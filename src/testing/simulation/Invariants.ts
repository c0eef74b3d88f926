import type { Invariant } from "./Invariant.js"
import * as Claim from "./invariants/ClaimInvariants.js"
import * as Cluster from "./invariants/ClusterInvariants.js"
import * as Lease from "./invariants/LeaseInvariants.js"
import * as Life from "./invariants/LifeInvariants.js"

/** Invariants of every queue, for any handlers and any faults. */
export const always: ReadonlyArray<Invariant> = [
  Life.kept,
  Life.ran,
  Lease.finishedStays,
  Lease.oneLease,
  Lease.silentWhenRemoved,
  Lease.oneRunPerClaim,
  Life.attemptsBounded,
  Life.historyKept,
  Claim.notEarly,
  Life.oncePerKey,
  Claim.keyLimit,
  Claim.rateLimit,
  Claim.pauseHolds,
  Claim.cancelHolds,
  Cluster.oncePerTick,
  Claim.keyOrder,
  Life.drains,
  Cluster.led,
  Cluster.counted,
  Cluster.cleanExit
]
