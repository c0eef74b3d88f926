import type { JobId } from "../../core/Ids.js"
import type { JobRow } from "../JobRowMemory.js"
import type { JobTable } from "../JobTableMemory.js"
import type { Step } from "./Execution.js"

// Rows of workflow_lifetime in the memory layers. Every method runs inside a step of the job table.

export interface Lifetime {
  /** How often the execution continued with a new journal. */
  readonly continued: number
  /** The release that the execution is pinned to. */
  readonly release: string | undefined
  /** The job's `woken` when it was left to that release. */
  readonly parked: number | undefined
}

/** Ends the waits for events of a journal with these steps. Returns the names of their signals. */
type EndEventWaits = (id: JobId, steps: ReadonlyArray<Step>) => ReadonlySet<string>

const fresh: Lifetime = { continued: 0, release: undefined, parked: undefined }

export const make = (
  jobs: typeof JobTable.Service,
  set: (map: Map<JobId, Lifetime>, id: JobId, value: Lifetime | undefined) => void
) => {
  const rows = new Map<JobId, Lifetime>()
  const of = (id: JobId): Lifetime => rows.get(id) ?? fresh
  const change = (id: JobId, changes: Partial<Lifetime>) => set(rows, id, { ...of(id), ...changes })
  let endEventWaits: EndEventWaits = () => new Set()
  return {
    of,
    endEventWaits: (id: JobId, steps: ReadonlyArray<Step>) => endEventWaits(id, steps),
    /** Sets how a journal ends its waits for events, which the layer of events holds. */
    onEndOfJournal: (end: EndEventWaits) => {
      endEventWaits = end
    },
    /** Sets or deletes the row of an execution. */
    put: (id: JobId, lifetime: Lifetime | undefined) => set(rows, id, lifetime),
    /** Counts a new journal, which is not pinned. */
    renewed: (id: JobId) => change(id, { ...fresh, continued: of(id).continued + 1 }),
    /** Gives the copy of a journal its number. The names of waits for events have it. */
    forked: (source: JobId, fork: JobId) => change(fork, { continued: of(source).continued }),
    /** Pins an execution, unless it is pinned. Returns its release. */
    pin: (id: JobId, release: string): string => {
      const pinned = of(id).release ?? release
      change(id, { release: pinned })
      return pinned
    },
    /** Leaves a returned execution to its release, unless it was unpinned meanwhile. */
    park: ({ id, woken }: JobRow) => {
      if (of(id).release !== undefined) change(id, { parked: woken })
    },
    unpin: (id: JobId) => change(id, { release: undefined, parked: undefined }),
    /** Pinned executions that have not ended. */
    pinned: (): ReadonlyArray<{ readonly row: JobRow; readonly release: string }> =>
      [...rows].flatMap(([id, { release }]) => {
        const row = jobs.get(id)
        return release === undefined || row === undefined || row.finishedAt !== undefined ? [] : [{ row, release }]
      }),
    /** Whether the execution is left to a release, and nothing has woken it since. */
    isParked: ({ id, run, woken }: JobRow): boolean =>
      run === undefined && woken !== undefined && of(id).parked === woken
  }
}
