import type { PodFacts } from "../../src/cluster/Pods.js"
import type { PodId } from "../../src/core/Ids.js"

/** The facts of a process that serves one queue. */
export const podFacts = (id: PodId): PodFacts => ({
  id,
  label: undefined,
  version: "1",
  queues: ["mail"],
  kinds: [],
  releases: {},
  host: { name: "here", pid: 1, node: "v20" },
  startedAt: 0
})
