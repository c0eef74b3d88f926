import { Option, Schema } from "effect"
import type { BatchId, JobId } from "../core/Ids.js"
import { showableInstant } from "../core/Storable.js"
import {
  computed,
  type DeadReason,
  type DedupeScope,
  FollowUp,
  HistoryEntry,
  type Status,
  type StoredJob,
  stateOf
} from "../core/StoredJob.js"

/** A JSON column in a list: the driver reads the null of SQL, which is no value, like that of JSON. */
const inList = (column: string) =>
  `case when j.${column} is not null then jsonb_build_array(j.${column}) end as ${column}`
export const resultColumn = inList("result")
export const progressColumn = inList("progress")

export interface StoredJobRow {
  readonly id: JobId
  readonly queue: string
  readonly kind: string
  readonly version: number
  readonly payload: unknown
  readonly key: string | null
  readonly status: Status
  readonly priority: number
  readonly attempt: number
  readonly max_attempts: number
  readonly crash_count: number
  readonly dedupe_key: string | null
  readonly dedupe_scope: DedupeScope | null
  readonly pod_id: string | null
  readonly on_dead: unknown
  readonly result: readonly [unknown] | null
  readonly progress: readonly [unknown] | null
  readonly last_error: string | null
  readonly history: unknown
  readonly dead_reason: DeadReason | null
  readonly meta: unknown
  readonly batch_id: BatchId | null
  readonly woken: number | null
  readonly is_child: boolean | null
  readonly run_at: number
  readonly created_at: number
  readonly updated_at: number
  readonly started_at: number | null
  readonly heartbeat_at: number | null
  readonly finished_at: number | null
  readonly cancel_requested_at: number | null
}

const decodeHistory = Schema.decodeUnknownSync(Schema.Array(HistoryEntry))
const decodeFollowUp = Schema.decodeUnknownOption(FollowUp)

/** The follow-up, unless another program has written one that no one can store. */
export const followUpOf = (stored: unknown) =>
  stored === null || stored === computed ? undefined : Option.getOrUndefined(decodeFollowUp(stored))

/** A row written by other programs may contain `infinity`, which is not a valid date here. */
const instant = (millis: number | null) => (millis === null ? undefined : showableInstant(millis))

export const toStoredJob = (row: StoredJobRow, now: number): StoredJob => {
  const lastError = row.last_error ?? undefined
  const reason = row.dead_reason ?? undefined
  return {
    id: row.id,
    queue: row.queue,
    kind: row.kind,
    version: row.version,
    payload: row.payload,
    key: row.key ?? undefined,
    state: stateOf({ status: row.status, runAt: row.run_at, lastError, reason }, now),
    priority: row.priority,
    runAt: showableInstant(row.run_at),
    attempt: row.attempt,
    attempts: row.max_attempts,
    crashCount: row.crash_count,
    dedupe:
      row.dedupe_key === null || row.dedupe_scope === null
        ? undefined
        : { key: row.dedupe_key, scope: row.dedupe_scope },
    pod: row.pod_id ?? undefined,
    createdAt: showableInstant(row.created_at),
    updatedAt: showableInstant(row.updated_at),
    startedAt: instant(row.started_at),
    heartbeatAt: instant(row.heartbeat_at),
    finishedAt: instant(row.finished_at),
    cancelRequestedAt: instant(row.cancel_requested_at),
    onDead: followUpOf(row.on_dead),
    result: row.result?.[0],
    progress: row.progress?.[0],
    lastError,
    history: row.history === null ? [] : decodeHistory(row.history),
    reason,
    meta: row.meta ?? undefined,
    batch: row.batch_id ?? undefined,
    execution: row.woken === null ? undefined : (row.dedupe_key ?? undefined)
  }
}
