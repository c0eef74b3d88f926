import { withoutTrace } from "../../core/ErrorText.js"
import type { JobId } from "../../core/Ids.js"
import type { DeadReason } from "../../core/StoredJob.js"
import { errorShape } from "./ErrorShape.js"
import { type DeadGroup, type DeadGroups, errorCharacters, groupLimits } from "./JobOverview.js"

export interface DeadJob {
  readonly id: JobId
  readonly kind: string
  readonly reason: DeadReason
  readonly error: string | undefined
  readonly finishedAt: number
}

/** Milliseconds of each count in `recent`, and their number. */
const recentWidth = 120_000
const recentCount = 30

type Mutable<A> = { -readonly [Key in keyof A]: A[Key] }

/** A group that grows: thousands of jobs join it at once. */
interface Growing extends Mutable<Omit<DeadGroup, "recent">> {
  readonly recent: Array<number>
}

const begun = ({ error, finishedAt, id, kind, reason }: DeadJob, shape: string): Growing => ({
  kind,
  reason,
  shape,
  count: 0,
  firstAt: finishedAt,
  lastAt: finishedAt,
  recent: Array.from({ length: recentCount }, () => 0),
  sample: { id, error: error === undefined ? undefined : withoutTrace(error).slice(0, errorCharacters) }
})

const join = (group: Growing, { finishedAt }: DeadJob, now: number): void => {
  group.count += 1
  group.firstAt = Math.min(group.firstAt, finishedAt)
  group.lastAt = Math.max(group.lastAt, finishedAt)
  const place = recentCount - 1 - Math.floor(Math.max(0, now - finishedAt) / recentWidth)
  if (place >= 0) group.recent[place] = (group.recent[place] ?? 0) + 1
}

/** Groups dead jobs, passed last death first. One job more than the limit shows that there are others. */
export const group = (jobs: ReadonlyArray<DeadJob>, now: number): DeadGroups => {
  const looked = jobs.slice(0, groupLimits.looked)
  const groups = new Map<string, Growing>()
  for (const job of looked) {
    const shape = errorShape(job.error)
    const name = JSON.stringify([job.kind, job.reason, shape])
    const group = groups.get(name) ?? begun(job, shape)
    groups.set(name, group)
    join(group, job, now)
  }
  const largest = [...groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt)
  return {
    groups: largest.slice(0, groupLimits.groups),
    looked: looked.length,
    sampled: jobs.length > looked.length || largest.length > groupLimits.groups
  }
}
