import type { Lease, PodId } from "../../core/Ids.js"
import { isLinked, type JobRow } from "../JobRowMemory.js"
import { type ClaimedJob, type HeldJob, isStartOf, type OwnAttempt } from "../Queue.js"
import { RunState } from "../workflow/RunState.js"
import type { WorkflowTable } from "../workflow/WorkflowTableMemory.js"

type WorkflowTables = typeof WorkflowTable.Service

/** The job of a row as its claim returns it. */
export const claimedOf = (workflows: WorkflowTables, row: JobRow, lease: Lease, startedAt: number): ClaimedJob => ({
  id: row.id,
  lease,
  queue: row.queue,
  kind: row.kind,
  version: row.version,
  payload: JSON.parse(row.payload),
  key: row.key,
  attempt: row.attempt,
  attempts: row.attempts,
  crashCount: row.crashCount,
  meta: row.meta === undefined ? undefined : JSON.parse(row.meta),
  execution:
    row.dedupe === undefined || row.woken === undefined
      ? undefined
      : {
          id: row.dedupe.key,
          woken: row.woken,
          cancelled: row.cancelRequestedAt !== undefined || row.dying !== undefined,
          dying: row.dying !== undefined,
          cut: row.cut,
          release: row.release,
          continued: workflows.lifetimes.of(row.id).continued,
          pinned: workflows.lifetimes.of(row.id).release,
          crashed: row.crashCount > 0,
          version: row.version,
          run: { id: row.id, lease },
          state: new RunState()
        },
  linked: isLinked(row),
  isChild: row.isChild,
  createdAt: row.createdAt,
  runAt: row.runAt,
  startedAt
})

/** The attempt of a pod under a lease (see `Queue.attempts`). */
export const ownAttempt = (
  workflows: WorkflowTables,
  pod: PodId,
  row: JobRow | undefined,
  { lease }: HeldJob
): OwnAttempt | undefined => {
  if (row === undefined) return undefined
  if (row.run?.lease === lease) {
    if (row.run.pod !== pod) return undefined
    return { _tag: "Running", job: claimedOf(workflows, row, lease, row.startedAt ?? row.createdAt) }
  }
  const isOwnStart = (by: string | undefined, startedAt: number | undefined) =>
    by === pod && isStartOf(lease, startedAt)
  const isOwn =
    (row.status === "done" && isOwnStart(row.ranOn, row.startedAt)) ||
    row.history.some(({ outcome, pod: by, startedAt }) => outcome !== "crashed" && isOwnStart(by, startedAt))
  return isOwn ? { _tag: "Ended", status: row.status } : undefined
}
