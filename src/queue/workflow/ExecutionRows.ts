import type { JobId } from "../../core/Ids.js"
import { showableInstant } from "../../core/Storable.js"
import { type DeadReason, type Status, stateOf } from "../../core/StoredJob.js"
import type { WaitKind } from "../../core/Suspension.js"
import {
  type Child,
  type Deferred,
  type DeferredKind,
  dueAtOf,
  type ExecutionSummary,
  executionStateOf,
  maxCountedParts,
  type Step,
  type StepKind,
  type StepOutcome,
  type Tags
} from "./Execution.js"
import { requestedWaits } from "./SignalValues.js"

// Rows of the workflow tables as the statements return them.

export interface StepRow {
  readonly name: string
  readonly kind: StepKind
  readonly attempt: number
  readonly sequence: number
  readonly outcome: StepOutcome
  readonly exit: unknown
  readonly started_at: number
  readonly ended_at: number
  readonly retry_at: number | null
  readonly reopened_at: number | null
}

export const toStep = ({ ended_at, reopened_at, retry_at, started_at, ...row }: StepRow): Step => ({
  ...row,
  startedAt: started_at,
  endedAt: ended_at,
  retryAt: retry_at ?? undefined,
  reopenedAt: reopened_at ?? undefined
})

export interface DeferredRow {
  readonly kind: DeferredKind
  readonly name: string
  readonly created_at: number
  readonly due_at: number | null
  readonly completed_at: number | null
  readonly exit: unknown
  readonly remaining: number | null
  readonly waiting: boolean
}

export const toDeferred = ({ completed_at, created_at, due_at, remaining, ...row }: DeferredRow): Deferred => ({
  ...row,
  createdAt: created_at,
  dueAt: due_at ?? undefined,
  completedAt: completed_at ?? undefined,
  remaining: remaining ?? undefined
})

export interface ExecutionRow {
  readonly id: JobId
  readonly execution: string
  readonly workflow: string
  readonly version: number
  readonly queue: string
  readonly status: Status
  readonly dead_reason: DeadReason | null
  readonly woken: number
  readonly payload: unknown
  readonly result: readonly [unknown] | null
  readonly last_error: string | null
  readonly run_at: number
  readonly created_at: number
  readonly updated_at: number
  readonly finished_at: number | null
  readonly cancelled: boolean
  /** Null for an execution that has not continued and is not pinned. */
  readonly lifetime: readonly [continued: number, pinned: string | null] | null
  readonly tags: Tags
  readonly waits: ReadonlyArray<DeferredRow>
  readonly steps_done: number
  readonly failed_step: string | null
  /** Null for an execution without children: done, failed, cancelled, open, deleted. */
  readonly child_counts: readonly [number, number, number, number, number] | null
  readonly steps?: ReadonlyArray<StepRow>
  readonly deferreds?: ReadonlyArray<DeferredRow>
}

/** The statement reads one child more than are counted, which is the last. */
const toChildCounts = ([done, failed, cancelled, open, deleted]: NonNullable<ExecutionRow["child_counts"]>) => ({
  done,
  failed,
  cancelled,
  open,
  deleted,
  more: done + failed + cancelled + open + deleted > maxCountedParts
})

export const toSummary = (row: ExecutionRow, now: number): ExecutionSummary => {
  const waits = row.waits.map(toDeferred)
  const runAt = showableInstant(row.run_at)
  const reason = row.dead_reason ?? undefined
  return {
    id: row.id,
    execution: row.execution,
    workflow: row.workflow,
    version: row.version,
    queue: row.queue,
    state: executionStateOf(
      { status: row.status, reason, cancelled: row.cancelled, woken: row.woken, runAt, waits },
      now
    ),
    reason,
    payload: row.payload,
    result: row.result?.[0],
    lastError: row.last_error ?? undefined,
    createdAt: row.created_at,
    updatedAt: row.updated_at,
    finishedAt: row.finished_at ?? undefined,
    dueAt: dueAtOf(row.status, runAt),
    continued: row.lifetime?.[0] ?? 0,
    pinned: row.lifetime?.[1] ?? undefined,
    tags: row.tags,
    waits: requestedWaits(waits),
    stepsDone: row.steps_done,
    failedStep: row.failed_step ?? undefined,
    childCounts: toChildCounts(row.child_counts ?? [0, 0, 0, 0, 0])
  }
}

export interface ChildRow {
  readonly name: string
  readonly position: number
  readonly child: JobId
  readonly owned: boolean
  readonly kind: string | null
  readonly dedupe_key: string | null
  readonly woken: number | null
  readonly status: Status | null
  readonly dead_reason: DeadReason | null
  readonly cancelled: boolean
  readonly run_at: number | null
  /** Kinds of the open waits, if the child is an execution. */
  readonly waits: ReadonlyArray<WaitKind>
  readonly result: readonly [unknown] | null
  readonly last_error: string | null
  readonly created_at: number | null
  readonly finished_at: number | null
}

/** `woken` is null for a plain job. */
const stateOfChild = ({ cancelled, woken, ...row }: ChildRow, status: Status, now: number) => {
  const facts = { status, reason: row.dead_reason ?? undefined, runAt: showableInstant(row.run_at ?? 0) }
  if (woken === null) return stateOf({ ...facts, lastError: row.last_error ?? undefined }, now)
  return executionStateOf({ ...facts, cancelled, woken, waits: row.waits.map((kind) => ({ kind })) }, now)
}

export const toChild = (row: ChildRow, now: number): Child => ({
  name: row.name,
  position: row.position,
  id: row.child,
  owned: row.owned,
  job:
    row.kind === null || row.status === null
      ? undefined
      : {
          kind: row.kind,
          execution: row.woken === null ? undefined : (row.dedupe_key ?? undefined),
          state: stateOfChild(row, row.status, now),
          reason: row.dead_reason ?? undefined,
          result: row.result?.[0],
          lastError: row.last_error ?? undefined,
          createdAt: row.created_at ?? 0,
          finishedAt: row.finished_at ?? undefined
        }
})

/** The source of a fork. */
export interface ForkRow {
  readonly execution: string
  readonly kind: string
  readonly version: number
  readonly queue: string
  readonly payload: unknown
  readonly max_attempts: number
  readonly priority: number
  readonly key: string | null
  readonly subject: string | null
  /** When its data was erased. */
  readonly erased: string | null
  readonly steps: ReadonlyArray<string>
}
