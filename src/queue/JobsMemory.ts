import { Context, Effect, Layer } from "effect"
import type { Lease, PodId } from "../core/Ids.js"
import type { StoredJob } from "../core/StoredJob.js"
import { newRow } from "./enqueue/EnqueueMemory.js"
import { begin, toStored } from "./JobRowMemory.js"
import { JobTable, type RowListener } from "./JobTableMemory.js"
import type { StampedJobs } from "./NewJob.js"
import { formOf } from "./settings/QueueRow.js"
import { QueueTable } from "./settings/QueuesMemory.js"

/** Access to all jobs of the memory layers, for simulations. */
export class JobsMemory extends Context.Tag("nightshift/queue/JobsMemory")<
  JobsMemory,
  {
    /** Increases with every change to a job. */
    readonly changes: () => number
    readonly all: Effect.Effect<ReadonlyArray<StoredJob>>
    /** Calls the listener synchronously with every written row, before and after. */
    readonly watch: (listener: RowListener) => void
    /** Stores jobs as claimed by a pod, or as pending if the queue is not open. Returns whether they are claimed. */
    readonly insertClaimed: (jobs: StampedJobs, lease: Lease, pod: PodId) => Effect.Effect<boolean>
  }
>() {}

const insertClaimed = (
  table: typeof JobTable.Service,
  queues: typeof QueueTable.Service,
  jobs: StampedJobs,
  by: { readonly lease: Lease; readonly pod: PodId },
  now: number
): boolean => {
  const row = queues.rows.get(jobs[0]?.queue ?? "")
  const form = formOf(row, now)
  const isOpen = row?.paused !== true && (row?.throttledUntil ?? 0) <= now && !form.keyed && !form.rated
  for (const job of jobs) {
    const fresh = newRow(job, now)
    table.put(isOpen ? begin(fresh, by, now) : fresh)
    table.tally.of(job.queue, job.kind).enqueued(1, now)
  }
  return isOpen
}

export const layer: Layer.Layer<JobsMemory, never, JobTable | QueueTable> = Layer.effect(
  JobsMemory,
  Effect.map(Effect.all([JobTable, QueueTable]), ([table, queues]) => ({
    insertClaimed: (jobs, lease, pod) =>
      table.atomically((now) => insertClaimed(table, queues, jobs, { lease, pod }, now)),
    changes: table.changes,
    watch: table.onRow,
    all: table.atomically((now) =>
      [...table.rows()].map((row) => toStored(row, now)).sort((left, right) => (left.id < right.id ? -1 : 1))
    )
  }))
)
