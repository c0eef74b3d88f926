import { Schema } from "effect"
import * as ErrorText from "../../core/ErrorText.js"
import { JobId } from "../../core/Ids.js"
import { showable } from "../../core/Storable.js"
import { DeadReason, DedupeScope, State, type StoredJob } from "../../core/StoredJob.js"
import type { Mask, Masked } from "../access/Masked.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

export const AttemptView = Schema.Struct({
  attempt: Schema.Int,
  pod: Schema.String,
  startedAt: Instant.Moment,
  endedAt: Instant.Moment,
  outcome: Schema.String,
  message: Schema.NullOr(Schema.String)
})

/** A job in API responses. Every field is present; null if it has no value. */
export const JobView = Schema.Struct({
  id: JobId,
  kind: Schema.String,
  version: Schema.Int.annotations({ description: "Version of the payload." }),
  queue: Schema.String,
  state: State,
  payload: Schema.Unknown,
  attempt: Schema.Int,
  attempts: Schema.Int,
  priority: Schema.Int,
  runAt: Instant.Moment,
  createdAt: Instant.Moment,
  startedAt: Schema.NullOr(Instant.Moment),
  finishedAt: Schema.NullOr(Instant.Moment),
  cancelRequestedAt: Schema.NullOr(Instant.Moment).annotations({
    description: "When a running job was asked to stop. It becomes `cancelled` when it stops."
  }),
  lastError: Schema.NullOr(Schema.String).annotations({
    description: "The message of the last error. A stack trace follows it, except in lists."
  }),
  history: Schema.Array(AttemptView).annotations({
    description: "The last attempts that did not succeed, oldest first."
  }),
  reason: Schema.NullOr(DeadReason),
  result: Schema.Unknown,
  progress: Schema.Unknown,
  key: Schema.NullOr(Schema.String),
  dedupe: Schema.NullOr(Schema.Struct({ key: Schema.String, scope: DedupeScope })),
  pod: Schema.NullOr(Schema.String),
  meta: Schema.Unknown,
  batch: Schema.NullOr(Schema.String).annotations({ description: "Id of the job's batch." })
}).annotations({ identifier: "Job" })
export type JobView = typeof JobView.Type

const fieldsOf = ResponseFields.of(JobView)
const attemptOf = ResponseFields.of(AttemptView)

export const of = (job: StoredJob): JobView => {
  const fields = fieldsOf(job)
  return {
    ...fields,
    payload: showable(fields.payload),
    result: showable(fields.result),
    progress: showable(fields.progress),
    meta: showable(fields.meta),
    history: job.history.map(attemptOf)
  }
}

/** The job in a list: errors without their stack traces. */
export const ofListed = (job: StoredJob): JobView => {
  const view = of(job)
  if (job.lastError === undefined && job.history.length === 0) return view
  const shortOf = (text: string | null) => (text === null ? null : ErrorText.withoutTrace(text))
  const history = view.history.map((attempt) => ({ ...attempt, message: shortOf(attempt.message) }))
  return { ...view, lastError: shortOf(view.lastError), history }
}

const hidden = (view: JobView, { json, text }: Mask): JobView => ({
  ...view,
  payload: json(view.payload),
  result: json(view.result),
  progress: json(view.progress),
  meta: json(view.meta),
  // New errors are stored masked. Errors stored before NIGHTSHIFT_MASK was set are not, so mask them here.
  lastError: text(view.lastError, view.payload),
  history: view.history.map((attempt) => ({ ...attempt, message: text(attempt.message, view.payload) }))
})

/** The job as its caller may see it: whole, and in a list. */
export const maskedBy = ({ view }: Masked) => ({
  job: (job: StoredJob) => view(of(job), hidden),
  listed: (job: StoredJob) => view(ofListed(job), hidden)
})
