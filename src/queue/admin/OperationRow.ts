import { Schema } from "effect"
import { JobFilter } from "../search/JobFilter.js"
import type { Operation, OperationAction, OperationStatus } from "./Operations.js"
import { Rehearsal } from "./Rehearsal.js"

export interface OperationRow {
  readonly id: string
  readonly action: OperationAction
  readonly undoes: string | null
  readonly undoable: boolean
  readonly status: OperationStatus
  readonly who: string
  readonly reason: string | null
  readonly filter: unknown
  readonly id_count: number
  readonly created_at: number
  readonly updated_at: number
  readonly finished_at: number | null
  readonly last_id: string
  readonly reached: string | null
  readonly total: number | null
  readonly total_exact: boolean | null
  readonly done: number
  readonly failed: number
  readonly skipped: unknown
  readonly rehearsal: unknown
  readonly error: string | null
}

const decodeFilter = Schema.decodeUnknownSync(JobFilter)
const decodeSkipped = Schema.decodeUnknownSync(Schema.Record({ key: Schema.String, value: Schema.Number }))

export const filterOf = (row: OperationRow): JobFilter | undefined =>
  row.filter === null ? undefined : decodeFilter(row.filter)

export const skippedOf = (row: OperationRow): Readonly<Record<string, number>> => decodeSkipped(row.skipped)

const decodeRehearsal = Schema.decodeUnknownSync(Rehearsal)

export const rehearsalOf = (row: OperationRow): Rehearsal | undefined =>
  row.rehearsal === null ? undefined : decodeRehearsal(row.rehearsal)

export const toOperation = (row: OperationRow): Operation => ({
  id: row.id,
  action: row.action,
  undoes: row.undoes ?? undefined,
  undoable: row.undoable,
  status: row.status,
  who: row.who,
  reason: row.reason ?? undefined,
  filter: filterOf(row),
  createdAt: row.created_at,
  updatedAt: row.updated_at,
  finishedAt: row.finished_at ?? undefined,
  total: row.total === null ? undefined : { count: row.total, exact: row.total_exact ?? false },
  done: row.done,
  skipped: skippedOf(row),
  failed: row.failed,
  rehearsal: rehearsalOf(row),
  error: row.error ?? undefined
})
