import type { JobId, Lease } from "../../core/Ids.js"
import type { ClaimedExecution, ClaimedJob } from "../Queue.js"
import * as ExecutionRows from "../workflow/ExecutionRows.js"
import { RunState } from "../workflow/RunState.js"

/** Columns that a claim returns, in order. Arrays instead of objects, because thousands of rows per second are read. */
export type ClaimedRow = readonly [
  id: JobId,
  kind: string,
  version: number,
  payload: unknown,
  key: string | null,
  attempt: number,
  maxAttempts: number,
  crashCount: number,
  meta: unknown,
  priority: number,
  createdAt: number,
  runAt: number,
  /** Null for plain jobs. */
  linked:
    | readonly [
        woken: number,
        execution: string,
        cancelled: boolean,
        journal: JournalJson | null,
        dying: boolean,
        cut: boolean,
        release: string | null
      ]
    | null,
  /** Round-robin position, only for claims by key. */
  place?: number
]

type JournalJson = readonly [
  steps: ReadonlyArray<ExecutionRows.StepRow>,
  waits: ReadonlyArray<ExecutionRows.DeferredRow>
]

const executionOf = (row: ClaimedRow, lease: Lease): ClaimedExecution | undefined => {
  const linked = row[12]
  if (linked === null || linked[0] < 0) return undefined
  const [woken, id, cancelled, journal, dying, cut, release] = linked
  const run = { id: row[0], lease }
  const execution = {
    woken,
    id,
    cancelled,
    dying,
    cut,
    release: release ?? undefined,
    crashed: row[7] > 0,
    version: row[2],
    run,
    state: new RunState()
  }
  if (journal === null) return execution
  const [steps, waits] = journal
  return {
    ...execution,
    journal: { woken, cancelled, steps: steps.map(ExecutionRows.toStep), waits: waits.map(ExecutionRows.toDeferred) }
  }
}

export const toClaimed =
  (queue: string, lease: Lease, now: number) =>
  (row: ClaimedRow): ClaimedJob => ({
    id: row[0],
    lease,
    queue,
    kind: row[1],
    version: row[2],
    payload: row[3],
    key: row[4] ?? undefined,
    attempt: row[5],
    maxAttempts: row[6],
    crashCount: row[7],
    meta: row[8] ?? undefined,
    execution: executionOf(row, lease),
    linked: row[12] !== null,
    createdAt: row[10],
    runAt: row[11],
    startedAt: now
  })
