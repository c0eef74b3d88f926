import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import type { Enqueued } from "../../queue/Queue.js"

/** What happened to a job of a request. */
export const EnqueueOutcome = Schema.Struct({ id: JobId, outcome: Schema.Literal("enqueued", "deduplicated") })
export type EnqueueOutcome = typeof EnqueueOutcome.Type

/** The outcomes of a request's jobs, in their order. */
export const Outcomes = Schema.Struct({ jobs: Schema.Array(EnqueueOutcome) })

export const of = ({ _tag, id }: Enqueued): EnqueueOutcome => ({
  id,
  outcome: _tag === "Enqueued" ? "enqueued" : "deduplicated"
})
