import { Context, Effect, Layer } from "effect"
import type { StoredJob } from "../core/StoredJob.js"
import { toStored } from "./JobRowMemory.js"
import { JobTable, type RowListener } from "./JobTableMemory.js"

/** All that the memory layers hold, for those who watch a simulation. */
export class JobsMemory extends Context.Tag("nightshift/queue/JobsMemory")<
  JobsMemory,
  {
    /** Rises with every change of any job. */
    readonly changes: () => number
    /** Every job there is, in the order of their ids. */
    readonly all: Effect.Effect<ReadonlyArray<StoredJob>>
    /** Calls back with every row that is written, as it was and as it is, while it is written. */
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
