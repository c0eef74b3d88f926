import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"

/** What happened to a job of a request. */
export const EnqueueOutcome = Schema.Struct({ id: JobId, outcome: Schema.Literal("enqueued", "deduplicated") })

/** The outcomes of a request's jobs, in their order. */
export const Outcomes = Schema.Struct({ jobs: Schema.Array(EnqueueOutcome) })
