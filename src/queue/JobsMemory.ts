import { Context, Effect, Layer } from "effect"
import type { StoredJob } from "../core/StoredJob.js"
import { toStored } from "./JobRowMemory.js"
import { JobTable, type RowListener } from "./JobTableMemory.js"

/** Access to all jobs of the memory layers, for simulations. */
export class JobsMemory extends Context.Tag("nightshift/queue/JobsMemory")<
  JobsMemory,
  {
    /** Increases with every change to a job. */
    readonly changes: () => number
    readonly all: Effect.Effect<ReadonlyArray<StoredJob>>
    /** Calls the listener synchronously with every written row, before and after. */
    readonly watch: (listener: RowListener) => void
  }
>() {}

export const layer: Layer.Layer<JobsMemory, never, JobTable> = Layer.effect(
  JobsMemory,
  Effect.map(JobTable, (table) => ({
    changes: table.changes,
    watch: table.onRow,
    all: table.step((now) =>
      [...table.rows()].map((row) => toStored(row, now)).sort((left, right) => (left.id < right.id ? -1 : 1))
    )
  }))
)
