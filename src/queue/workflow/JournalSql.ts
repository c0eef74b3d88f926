import { millis } from "../../database/SqlInstant.js"

// Parts of statements that read the journal of an execution.

export const stepColumns = `s.name, s.kind, s.attempt, s.sequence, s.outcome, s.exit, ${millis("s.started_at")} as started_at,
  ${millis("s.ended_at")} as ended_at, ${millis("s.retry_at")} as retry_at, ${millis("s.reopened_at")} as reopened_at`

const waitColumns = `d.kind, d.name, d.waiting, d.remaining, d.exit, ${millis("d.created_at")} as created_at,
  ${millis("d.due_at")} as due_at, ${millis("d.completed_at")} as completed_at`

/** All rows of a subquery as one JSON array. */
const listed = (query: string, order: string) =>
  `(select coalesce(jsonb_agg(to_jsonb(r) order by ${order}), '[]') from (${query}) r)`

export const steps = (schema: string, job: string): string =>
  listed(
    `select ${stepColumns} from ${schema}.workflow_step s where s.job_id = ${job}`,
    "r.sequence, r.name, r.attempt"
  )

export const waits = (schema: string, execution: string, more = ""): string =>
  listed(
    `select ${waitColumns} from ${schema}.workflow_deferred d where d.execution = ${execution}${more}`,
    "r.created_at, r.kind, r.name"
  )

/** Selects the open waits `d` of a suspended execution `j`. */
export const openWait = " and d.waiting and d.completed_at is null and j.status = 'pending'"

/** Whether the end of a job is counted: the job is an execution or a child of one. */
export const isLinked = (job: string): string => `(${job}.woken is not null or ${job}.is_child is true)`

/** Whether the next run of the execution `j` only undoes its steps: it was cancelled, or it has died. */
export const undoes = "(j.cancel_requested_at is not null or j.dying is not null)"

/** A claim reads journals of at most this many steps and waits, and of this many bytes of results. */
const smallest = { rows: 64, bytes: 16_384 }

/**
 * The journal of the execution `j`, for a claim: it saves the run a round trip. Null for the first run, and if the journal
 * is large: the run then reads it when it starts, so that claimed executions that wait for a slot take little memory.
 */
export const withClaim = (schema: string): string => `case when j.woken > 0 and (
      select count(*) <= ${smallest.rows} and coalesce(sum(pg_column_size(exit)), 0) <= ${smallest.bytes}
      from (
        (select exit from ${schema}.workflow_step where job_id = j.id limit ${smallest.rows + 1})
        union all
        (select exit from ${schema}.workflow_deferred where execution = j.dedupe_key limit ${smallest.rows + 1})
      ) part
    ) then jsonb_build_array(${steps(schema, "j.id")}, ${waits(schema, "j.dedupe_key")}) end`
