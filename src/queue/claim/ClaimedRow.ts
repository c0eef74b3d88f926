import type { JobId, Lease } from "../../core/Ids.js"
import type { ClaimedExecution, ClaimedJob } from "../Queue.js"
import * as ExecutionRows from "../workflow/ExecutionRows.js"
import { isLinked, undoes, withClaim } from "../workflow/JournalSql.js"
import { RunState } from "../workflow/RunState.js"

// The result of a claim. Rows arrive as arrays, because thousands per second are read: `columns`, `ClaimedRow` and
// `toClaimed` list the same columns in the same order.

// `extract` computes in numeric, which costs a large claim more than reading the rows. As float8 the result can be half
// a microsecond early, hence the 0.0005.
export const millis = (column: string): string => `floor(date_part('epoch', ${column}) * 1000 + 0.0005)`

/** What an execution or a child of one has beyond a plain job; null for plain jobs. */
const linked = (schema: string, journals: boolean) => `case when ${isLinked("j")} then
    jsonb_build_array(j.woken, j.dedupe_key, ${undoes}, ${journals ? withClaim(schema) : "null"}, j.dying is not null,
      j.cut is true, j.release,
      (select jsonb_build_array(l.continued, l.release) from ${schema}.workflow_lifetime l where l.job_id = j.id),
      j.is_child is true) end`

export const columns = (schema: string, journals: boolean): string => `j.id, j.kind, j.version, j.payload, j.key,
    j.attempt, j.max_attempts, j.crash_count, j.meta, j.priority, ${millis("j.created_at")}, ${millis("j.run_at")},
    ${linked(schema, journals)}, job_spot.number::int`

export type ClaimedRow = readonly [
  id: JobId,
  kind: string,
  version: number,
  payload: unknown,
  key: string | null,
  attempt: number,
  attempts: number,
  crashCount: number,
  meta: unknown,
  priority: number,
  createdAt: number,
  runAt: number,
  linked: Linked | null,
  place: number
]

type Linked = readonly [
  /** Null for a child that is not an execution. */
  woken: number | null,
  execution: string,
  cancelled: boolean,
  journal: JournalJson | null,
  dying: boolean,
  cut: boolean,
  release: string | null,
  /** Null for an execution that has not continued and is not pinned. */
  lifetime: readonly [continued: number, pinned: string | null] | null,
  isChild: boolean
]

type JournalJson = readonly [
  steps: ReadonlyArray<ExecutionRows.StepRow>,
  waits: ReadonlyArray<ExecutionRows.DeferredRow>
]

const executionOf = (
  [woken, id, cancelled, journal, dying, cut, release, lifetime]: Linked,
  job: Pick<ClaimedJob, "id" | "lease" | "crashCount" | "version">
): ClaimedExecution | undefined => {
  if (woken === null) return undefined
  const execution = {
    woken,
    id,
    cancelled,
    dying,
    cut,
    release: release ?? undefined,
    continued: lifetime?.[0] ?? 0,
    pinned: lifetime?.[1] ?? undefined,
    crashed: job.crashCount > 0,
    version: job.version,
    run: { id: job.id, lease: job.lease },
    state: new RunState()
  }
  if (journal === null) return execution
  const [steps, waits] = journal
  return {
    ...execution,
    journal: { woken, cancelled, steps: steps.map(ExecutionRows.toStep), waits: waits.map(ExecutionRows.toDeferred) }
  }
}

/** A claimed job, and where the claim found it. */
export interface Claimed {
  readonly job: ClaimedJob
  readonly priority: number
  /** Position among the jobs of its claim. */
  readonly place: number
}

export const toClaimed =
  (queue: string, lease: Lease, startedAt: number) =>
  ([
    id,
    kind,
    version,
    payload,
    key,
    attempt,
    attempts,
    crashCount,
    meta,
    priority,
    createdAt,
    runAt,
    linked,
    place
  ]: ClaimedRow): Claimed => ({
    priority,
    place,
    job: {
      id,
      lease,
      queue,
      kind,
      version,
      payload,
      key: key ?? undefined,
      attempt,
      attempts,
      crashCount,
      meta: meta ?? undefined,
      execution: linked === null ? undefined : executionOf(linked, { id, lease, crashCount, version }),
      linked: linked !== null,
      isChild: linked?.[8] ?? false,
      createdAt,
      runAt,
      startedAt
    }
  })
