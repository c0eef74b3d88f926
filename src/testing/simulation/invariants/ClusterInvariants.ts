import { Duration } from "effect"
import { type JobCounts, noCounts } from "../../../telemetry/BucketCount.js"
import type { Finding, Invariant } from "../Invariant.js"
import { lease } from "../PodSettings.js"

const tickOf = (meta: string | undefined): string | undefined => {
  if (meta === undefined) return undefined
  const { schedule, tick }: { readonly schedule?: string; readonly tick?: string } = JSON.parse(meta)
  return schedule === undefined || tick === undefined ? undefined : `${schedule} at ${tick}`
}

/** 10 */
export const oncePerTick: Invariant = {
  name: "schedule",
  promise: "there is one job per schedule and tick",
  onChange: ({ after, before }, history) => {
    const tick = before === undefined ? tickOf(after?.meta) : undefined
    if (tick === undefined || after === undefined) return undefined
    const twin = [...history.rows.values()].find(({ id, meta }) => id !== after.id && tickOf(meta) === tick)
    return twin === undefined
      ? undefined
      : `${history.nameOf(after.id)} was stored for ${tick}, and so was ${history.nameOf(twin.id)}`
  }
}

const names = Object.keys(noCounts) as ReadonlyArray<keyof JobCounts>
const counters: ReadonlyArray<keyof JobCounts> = ["started", "completed", "retried", "dead"]

/**
 * 13. What a pod could not write before it was gone is lost: it was killed, or had to stop while the database was away. A
 * commit whose answer is lost is not counted by whoever made it.
 */
export const counted: Invariant = {
  name: "counters",
  promise: "counters equal what happened, but for what a killed pod had not written yet",
  atEnd: (history) => {
    const wrong = history.counted.everybody.flatMap((who): ReadonlyArray<Finding> => {
      const { seen, written } = history.counted.of(who)
      return counters.flatMap((name): ReadonlyArray<Finding> => {
        // A run whose transaction could not even begin counts as started, and no handler saw it.
        const over = name !== "started" && written[name] > seen[name]
        const slack = name === "completed" ? history.lostCommits : 0
        const under = !history.killed.has(who) && !history.unwritten.has(who) && written[name] + slack < seen[name]
        return over || under ? [{ found: `${who} wrote ${name}=${written[name]} where ${seen[name]} were seen` }] : []
      })
    })
    const { ending } = history
    if (ending === undefined) return wrong
    const { shared, total } = history.counted
    const unlike = names.filter((name) => ending.charted[name] !== total[name] + shared[name])
    const told = (name: keyof JobCounts) =>
      `charts show ${name}=${ending.charted[name]} where ${total[name]} were written by pods and ${shared[name]} seen beside them`
    return [...wrong, ...unlike.map((name) => ({ found: told(name) }))]
  }
}

/** Twice the lease: a renewal is seen a third of it later, and a pod that just started watches for a whole one. */
const longestWithoutLeader = 2 * Duration.toMillis(lease)

export const led: Invariant = {
  name: "led",
  promise: "once nothing goes wrong any more, a pod leads within two leases, and one leads from then on",
  atEnd: ({ calm, led: instants }) => {
    if (calm === undefined) return []
    const { from, until } = calm
    const marks = [from, ...instants.filter((at) => at > from && at < until), until]
    const gap = Math.max(...marks.slice(1).map((at, place) => at - (marks[place] ?? at)))
    return gap > longestWithoutLeader ? [{ found: `no pod took or renewed the lease for ${gap / 1000} s` }] : []
  }
}

/** 15 */
export const cleanExit: Invariant = {
  name: "shutdown",
  promise: "a pod that was stopped leaves nothing running and nothing behind",
  atEnd: ({ ending }) => (ending?.leftovers ?? []).map((found) => ({ found }))
}
