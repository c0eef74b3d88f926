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

const joined = (group: DeadGroup | undefined, job: DeadJob, shape: string): DeadGroup =>
  group === undefined
    ? {
        kind: job.kind,
        reason: job.reason,
        shape,
        count: 1,
        firstAt: job.finishedAt,
        lastAt: job.finishedAt,
        sample: {
          id: job.id,
          error: job.error === undefined ? undefined : withoutTrace(job.error).slice(0, errorCharacters)
        }
      }
    : {
        ...group,
        count: group.count + 1,
        firstAt: Math.min(group.firstAt, job.finishedAt),
        lastAt: Math.max(group.lastAt, job.finishedAt)
      }

/** Groups dead jobs, passed newest first. One job more than the limit shows that there are others. */
export const group = (jobs: ReadonlyArray<DeadJob>): DeadGroups => {
  const looked = jobs.slice(0, groupLimits.looked)
  const groups = new Map<string, DeadGroup>()
  for (const job of looked) {
    const shape = errorShape(job.error)
    const name = JSON.stringify([job.kind, job.reason, shape])
    groups.set(name, joined(groups.get(name), job, shape))
  }
  const largest = [...groups.values()].sort((a, b) => b.count - a.count || b.lastAt - a.lastAt)
  return {
    groups: largest.slice(0, groupLimits.groups),
    looked: looked.length,
    sampled: jobs.length > looked.length || largest.length > groupLimits.groups
  }
}
