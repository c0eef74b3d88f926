import { Duration } from "effect"
import { type JobCounts, noCounts } from "../../../telemetry/BucketCount.js"
import type { Finding, Invariant } from "../Invariant.js"
import { lease, slowPace } from "../PodSettings.js"

const tickOf = (meta: string | undefined): string | undefined => {
  if (meta === undefined) return undefined
  const { schedule, tick }: { readonly schedule?: string; readonly tick?: string } = JSON.parse(meta)
  return schedule === undefined || tick === undefined ? undefined : `${schedule} at ${tick}`
}

export const oncePerTick: Invariant = {
  name: "schedule",
  promise: "a schedule enqueues one job per tick",
  onChange: ({ after, before }, history) => {
    const tick = before === undefined ? tickOf(after?.meta) : undefined
    if (tick === undefined || after === undefined) return undefined
    const duplicate = [...history.rows.values()].find(({ id, meta }) => id !== after.id && tickOf(meta) === tick)
    return duplicate === undefined
      ? undefined
      : `${history.nameOf(after.id)} and ${history.nameOf(duplicate.id)} were both enqueued for ${tick}`
  }
}

const names = Object.keys(noCounts) as ReadonlyArray<keyof JobCounts>
const counters: ReadonlyArray<keyof JobCounts> = ["started", "completed", "retried", "dead"]

/**
 * Counts are lost if a pod is killed or stops while the database is unreachable. A pod does not count a commit whose
 * reply was lost.
 */
export const counted: Invariant = {
  name: "counters",
  promise: "counters match the observed events, except counts that a killed process had not flushed",
  atEnd: (history) => {
    const wrong = history.counted.processes.flatMap((who): ReadonlyArray<Finding> => {
      const { seen, written } = history.counted.of(who)
      return counters.flatMap((name): ReadonlyArray<Finding> => {
        // A run whose transaction failed to begin counts as started although its handler never ran.
        const over = name !== "started" && written[name] > seen[name]
        const slack = name === "completed" ? history.lostCommits : 0
        const under = !history.killed.has(who) && !history.unwritten.has(who) && written[name] + slack < seen[name]
        return over || under
          ? [{ found: `${who} flushed ${name}=${written[name]}, but ${seen[name]} were observed` }]
          : []
      })
    })
    const { ending } = history
    if (ending === undefined) return wrong
    const { shared, total } = history.counted
    const mismatched = names.filter((name) => ending.charted[name] !== total[name] + shared[name])
    const described = (name: keyof JobCounts) =>
      `charts show ${name}=${ending.charted[name]}, but processes flushed ${total[name]} and the database counted ${shared[name]}`
    return [...wrong, ...mismatched.map((name) => ({ found: described(name) }))]
  }
}

/**
 * Twice the lease, on the slowest clock: a pod may see a renewal a third of a lease late, and a new pod watches the leader
 * for a full lease.
 */
const longestWithoutLeader = (2 * Duration.toMillis(lease)) / slowPace

export const led: Invariant = {
  name: "led",
  promise:
    "after the last fault, a process becomes leader within two leases, and there is always a leader from then on",
  atEnd: ({ calm, led: instants }) => {
    if (calm === undefined) return []
    const { from, until } = calm
    const marks = [from, ...instants.filter((at) => at > from && at < until), until]
    const gap = Math.max(...marks.slice(1).map((at, place) => at - (marks[place] ?? at)))
    return gap > longestWithoutLeader
      ? [{ found: `no process acquired or renewed leadership for ${gap / 1000} s` }]
      : []
  }
}

export const cleanExit: Invariant = {
  name: "shutdown",
  promise: "a stopped process leaves no fiber, row or leadership behind",
  atEnd: ({ ending }) => (ending?.leftovers ?? []).map((found) => ({ found }))
}
