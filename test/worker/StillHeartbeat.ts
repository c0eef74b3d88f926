import { Duration, Effect } from "effect"
import type { Assignment } from "../../src/cluster/Pods.js"
import type { PodHeartbeat } from "../../src/worker/loops/PodHeartbeat.js"

const none: Assignment = {
  shares: new Map(),
  servingPods: new Map(),
  otherReleases: new Map(),
  silent: [],
  others: 0,
  othersRunJobs: false
}

/** The heartbeat of a pod that has run alone for an hour, in a cluster that is not quiet. Tests replace what they need. */
export const still: typeof PodHeartbeat.Service = {
  assignment: () => none,
  onOrders: () => Effect.void,
  onSilence: () => Effect.void,
  onOthersRunJobs: () => Effect.void,
  isQuiet: Effect.succeed(false),
  steadyFor: Effect.succeed(Duration.hours(1)),
  undisturbedFor: Effect.succeed(Duration.hours(1)),
  drain: Effect.void
}
