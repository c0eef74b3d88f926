import { Effect, ParseResult, Predicate, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { DedupeScope, limits } from "../../core/Job.js"
import { Instant } from "../Instant.js"
import { BadRequest } from "../RequestErrors.js"
import * as RequestFault from "../RequestFault.js"
import * as WireText from "../WireText.js"

const Whole = Schema.Number.annotations(WireText.said("must be a number"))

const Dedupe = Schema.Struct({
  key: WireText.Text,
  scope: DedupeScope.annotations(WireText.said('must be "active" or "retained"'))
}).annotations({ identifier: "Dedupe", message: () => "must be an object with key and scope" })

const JobToEnqueue = Schema.Struct({
  kind: WireText.Text,
  payload: Schema.Unknown,
  queue: WireText.optional(WireText.Text),
  priority: WireText.optional(Whole.annotations({ description: "Lower runs first; 0 when absent." })),
  runAt: WireText.optional(Instant),
  maxAttempts: WireText.optional(Whole),
  dedupe: WireText.optional(Dedupe),
  id: WireText.optional(JobId.annotations(WireText.said("must be a UUID")))
}).annotations({ identifier: "JobToEnqueue", message: () => "must be an object with kind and payload" })

/** What `POST /api/v1/jobs` takes. Ranges are the queue's to check. */
export const EnqueueRequest = Schema.Struct({
  jobs: Schema.Array(JobToEnqueue)
    .annotations({ message: () => "must be a list of jobs" })
    .pipe(Schema.minItems(1), Schema.maxItems(limits.batch)),
  force: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.said("must be true or false"),
      description: "Also kinds that nobody registered."
    })
  )
}).annotations({ identifier: "EnqueueRequest", message: () => "must be an object with jobs", ...WireText.strict })
export type EnqueueRequest = typeof EnqueueRequest.Type

const decodeStrictly = Schema.decodeUnknown(EnqueueRequest)

/** A request of the right form, or what is wrong with the first thing that is. */
export const decode = (body: unknown): Effect.Effect<EnqueueRequest, BadRequest> => {
  // Counted first: looking through a million small jobs only to refuse them would keep everybody waiting.
  if (Predicate.hasProperty(body, "jobs") && Array.isArray(body.jobs)) {
    const count = body.jobs.length
    if (count === 0 || count > limits.batch) {
      return new BadRequest({ message: `jobs must hold 1 to ${limits.batch} jobs, not ${count}.`, field: "jobs" })
    }
  }
  return Effect.mapError(decodeStrictly(body), (error) =>
    RequestFault.ofIssues(ParseResult.ArrayFormatter.formatErrorSync(error))
  )
}
