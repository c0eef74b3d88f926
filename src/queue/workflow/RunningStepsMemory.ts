import { Effect } from "effect"
import type { JobTable } from "../JobTableMemory.js"
import type { HeldJob } from "../Queue.js"
import { callMillis, type Permit, type PermitRow } from "./StepPermits.js"
import { LeaseLost } from "./WorkflowErrors.js"
import type { Workflows } from "./Workflows.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

export const make = (
  jobs: typeof JobTable.Service,
  table: typeof WorkflowTable.Service
): Pick<typeof Workflows.Service, "heartbeat" | "takePermit" | "returnPermit"> => {
  const isGone = ({ calledAt, jobId, lease }: PermitRow, now: number) => {
    const row = jobs.get(jobId)
    if (lease !== undefined) return row?.run?.lease !== lease
    return row === undefined || row.finishedAt !== undefined || (calledAt !== undefined && calledAt < now - callMillis)
  }
  const isWaiting = ({ calledAt, lease }: PermitRow) => lease === undefined && calledAt === undefined

  const turn = ({ execution, most, scope, step }: Permit, { id: jobId, lease }: HeldJob, returns: boolean) =>
    jobs.atomically((now) => {
      const { permits } = table
      const own = `${jobId} ${step}`
      // A step that is late for its call, and has not been replaced, is still first.
      for (const [key, row] of permits)
        if (row.scope === scope && isGone(row, key === own ? (row.calledAt ?? now) : now)) permits.delete(key)
      // Not the permit of a later run of the execution: this one may have lost its lease.
      const isLater = (permits.get(own)?.lease ?? lease) !== lease
      if (returns && !isLater) permits.delete(own)
      else if (!returns && permits.get(own)?.scope !== scope)
        permits.set(own, { jobId, execution, scope, step, since: now, calledAt: undefined, lease: undefined })
      const all = [...permits].filter(([, row]) => row.scope === scope)
      const line = all
        .filter(([, row]) => isWaiting(row))
        .sort(([one, a], [other, b]) => a.since - b.since || (one < other ? -1 : 1))
      const next = line.slice(0, Math.max(0, most - (all.length - line.length)))
      for (const [key, row] of next) permits.set(key, { ...row, calledAt: now })
      const asked = permits.get(own)
      const granted = !returns && (asked?.calledAt !== undefined || asked?.lease === lease)
      if (asked !== undefined && granted) permits.set(own, { ...asked, calledAt: undefined, lease })
      const called = next.filter(([key]) => key !== own).map(([, row]) => row.execution)
      for (const other of new Set(called)) if (other !== execution) table.wake(other, now)
      const place = line.slice(next.length).filter(([, { since }]) => since < (asked?.since ?? 0)).length
      return { granted, place: Math.min(1_000, place), ownIsNext: called.includes(execution) }
    })

  return {
    heartbeat: (run, { attempt, details, name, startedAt, timeoutAt }) =>
      Effect.flatten(
        jobs.atomically((now) => {
          const row = jobs.get(run.id)
          const execution = row?.dedupe?.key
          if (execution === undefined || row?.run?.lease !== run.lease)
            return Effect.fail(new LeaseLost({ id: run.id }))
          table.putDeferred({
            execution,
            kind: "heartbeat",
            name,
            createdAt: startedAt,
            dueAt: timeoutAt,
            completedAt: now,
            exit: JSON.parse(JSON.stringify({ attempt, details })),
            remaining: undefined,
            waiting: false,
            early: false
          })
          return Effect.void
        })
      ),
    takePermit: (run, permit) => turn(permit, run, false),
    returnPermit: (run, permit) => turn(permit, run, true)
  }
}
