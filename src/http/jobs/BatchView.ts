import { Schema } from "effect"
import { BatchId, JobId } from "../../core/Ids.js"
import type { Batch, DescribedBatch } from "../../queue/batch/Batch.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

/** A batch in API responses. Every field is present; null if it has no value. */
export const BatchView = Schema.Struct({
  id: BatchId,
  name: Schema.NullOr(Schema.String),
  createdAt: Instant.Moment,
  closedAt: Schema.NullOr(Instant.Moment).annotations({ description: "When all jobs had ended." }),
  total: Schema.Int,
  counts: Schema.Struct({
    unfinished: Schema.Int,
    done: Schema.Int,
    dead: Schema.Int,
    cancelled: Schema.Int,
    deleted: Schema.Int.annotations({
      description: "Jobs whose rows no longer exist: an operator deleted them, or their retention expired."
    })
  }),
  followUp: Schema.NullOr(
    Schema.Struct({
      kind: Schema.String,
      queue: Schema.String,
      id: Schema.NullOr(JobId).annotations({ description: "The follow-up's job, once it is enqueued." })
    })
  )
}).annotations({ identifier: "Batch" })
export type BatchView = typeof BatchView.Type

const fieldsOf = ResponseFields.of(BatchView)

export const described = ({ followUp, followUpId, ...batch }: Batch): DescribedBatch => ({
  ...batch,
  /** Job that runs once when all jobs have ended. Its `id` is set when the job is enqueued. */
  followUp:
    followUp === undefined
      ? undefined
      : { kind: followUp.kind, queue: followUp.queue, id: followUpId as JobId | undefined }
})

export const of = (batch: Batch): BatchView => {
  const { followUp, ...fields } = fieldsOf(described(batch))
  return { ...fields, followUp: followUp === null ? null : { ...followUp, id: followUp.id ?? null } }
}
