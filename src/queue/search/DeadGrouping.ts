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

/** Adds a death to the counts of the last hour, unless it is older. */
const plusOne = (recent: ReadonlyArray<number>, at: number, now: number): ReadonlyArray<number> => {
  const place = recentCount - 1 - Math.floor(Math.max(0, now - at) / recentWidth)
  return place < 0 ? recent : recent.with(place, (recent[place] ?? 0) + 1)
}

const none: ReadonlyArray<number> = Array.from({ length: recentCount }, () => 0)

const joined = (group: DeadGroup | undefined, job: DeadJob, shape: string, now: number): DeadGroup =>
  group === undefined
    ? {
        kind: job.kind,
        reason: job.reason,
        shape,
        count: 1,
        firstAt: job.finishedAt,
        lastAt: job.finishedAt,
        recent: plusOne(none, job.finishedAt, now),
        sample: {
          id: job.id,
          error: job.error === undefined ? undefined : withoutTrace(job.error).slice(0, errorCharacters)
        }
      }
    : {
        ...group,
        count: group.count + 1,
        firstAt: Math.min(group.firstAt, job.finishedAt),
        lastAt: Math.max(group.lastAt, job.finishedAt),
        recent: plusOne(group.recent, job.finishedAt, now)
      }

/** Groups dead jobs, passed last death first. One job more than the limit shows that there are others. */
export const group = (jobs: ReadonlyArray<DeadJob>, now: number): DeadGroups => {
  const looked = jobs.slice(0, groupLimits.looked)
  const groups = new Map<string, DeadGroup>()
  for (const job of looked) {
    const shape = errorShape(job.error)
    const name = JSON.stringify([job.kind, job.reason, shape])
    groups.set(name, joined(groups.get(name), job, shape, now))
  }
  const largest = [...groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt)
  return {
    groups: largest.slice(0, groupLimits.groups),
    looked: looked.length,
    sampled: jobs.length > looked.length || largest.length > groupLimits.groups
  }
}
