import { Schema } from "effect"
import * as ErrorText from "../../core/ErrorText.js"
import { JobId } from "../../core/Ids.js"
import { showable } from "../../core/Storable.js"
import { DeadReason, DedupeScope, type HistoryEntry, State, Status, type StoredJob } from "../../core/StoredJob.js"
import type { Mask, Masked } from "../access/Masked.js"
import { Moment } from "../Contract.js"
import * as Instant from "../Instant.js"

/** A job in API responses. Every field is present; null if it has no value. */
export const JobView = Schema.Struct({
  id: JobId,
  kind: Schema.String,
  queue: Schema.String,
  state: State,
  status: Status,
  payload: Schema.Unknown,
  attempt: Schema.Int,
  attempts: Schema.Int,
  priority: Schema.Int,
  runAt: Moment,
  createdAt: Moment,
  startedAt: Schema.NullOr(Moment),
  finishedAt: Schema.NullOr(Moment),
  cancelRequestedAt: Schema.NullOr(Moment).annotations({
    description: "When a running job was asked to stop. It becomes `cancelled` when it stops."
  }),
  lastError: Schema.NullOr(Schema.String).annotations({
    description: "The message of the last error. A stack trace follows it, except in lists."
  }),
  errors: Schema.Array(
    Schema.Struct({
      attempt: Schema.Int,
      pod: Schema.String,
      startedAt: Moment,
      endedAt: Moment,
      outcome: Schema.String,
      message: Schema.NullOr(Schema.String)
    })
  ).annotations({ description: "The last attempts that did not succeed, oldest first." }),
  deadReason: Schema.NullOr(DeadReason),
  result: Schema.Unknown,
  progress: Schema.Unknown,
  key: Schema.NullOr(Schema.String),
  dedupe: Schema.NullOr(Schema.Struct({ key: Schema.String, scope: DedupeScope })),
  pod: Schema.NullOr(Schema.String),
  meta: Schema.Unknown,
  batch: Schema.NullOr(Schema.String).annotations({ description: "Id of the job's batch." })
}).annotations({ identifier: "Job" })
export type JobView = typeof JobView.Type

const errorOf = ({ attempt, endedAt, message, outcome, pod, startedAt }: HistoryEntry) => ({
  attempt,
  pod,
  startedAt: Instant.format(startedAt),
  endedAt: Instant.format(endedAt),
  outcome,
  message: message ?? null
})

export const of = (job: StoredJob): JobView => ({
  id: job.id,
  kind: job.kind,
  queue: job.queue,
  state: job.state,
  status: job.status,
  payload: showable(job.payload),
  attempt: job.attempt,
  attempts: job.attempts,
  priority: job.priority,
  runAt: Instant.format(job.runAt),
  createdAt: Instant.format(job.createdAt),
  startedAt: Instant.formatOrNull(job.startedAt),
  finishedAt: Instant.formatOrNull(job.finishedAt),
  cancelRequestedAt: Instant.formatOrNull(job.cancelRequestedAt),
  lastError: job.lastError ?? null,
  errors: job.history.map(errorOf),
  deadReason: job.deadReason ?? null,
  result: showable(job.result ?? null),
  progress: showable(job.progress ?? null),
  key: job.key ?? null,
  dedupe: job.dedupe === undefined ? null : { key: job.dedupe.key, scope: job.dedupe.scope },
  pod: job.pod ?? null,
  meta: showable(job.meta ?? null),
  batch: job.batch ?? null
})

/** The job in a list: errors without their stack traces. */
export const ofListed = (job: StoredJob): JobView => {
  const view = of(job)
  if (job.lastError === undefined && job.history.length === 0) return view
  const shortOf = (text: string | null) => (text === null ? null : ErrorText.withoutTrace(text))
  const errors = view.errors.map((error) => ({ ...error, message: shortOf(error.message) }))
  return { ...view, lastError: shortOf(view.lastError), errors }
}

const hidden = (view: JobView, { json, text }: Mask): JobView => ({
  ...view,
  payload: json(view.payload),
  result: json(view.result),
  progress: json(view.progress),
  meta: json(view.meta),
  // New errors are stored masked. Errors stored before NIGHTSHIFT_MASK was set are not, so mask them here.
  lastError: text(view.lastError, view.payload),
  errors: view.errors.map((error) => ({ ...error, message: text(error.message, view.payload) }))
})

/** The job as its caller may see it: whole, and in a list. */
export const maskedBy = ({ view }: Masked) => ({
  job: (job: StoredJob) => view(of(job), hidden),
  listed: (job: StoredJob) => view(ofListed(job), hidden)
})
