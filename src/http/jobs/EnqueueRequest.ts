import { Effect, Predicate, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { DedupeScope, limits } from "../../core/StoredJob.js"
import { decodedJson } from "../Body.js"
import { Instant } from "../Instant.js"
import { BadRequest, jobsIn } from "../RequestErrors.js"
import * as WireDuration from "../WireDuration.js"
import * as WireText from "../WireText.js"

const Whole = Schema.Number.annotations(WireText.withMessage("must be a number"))

const Delay = WireDuration.field(
  "Delay before the job is due: 90s, 5m, 1h30m, or milliseconds. Cannot be combined with runAt."
)

const Dedupe = Schema.Struct({
  key: WireText.Text,
  scope: WireText.optional(
    DedupeScope.annotations({
      ...WireText.withMessage('must be "active" or "retained"'),
      description:
        "How long the key is held: until the job ends (active) or as long as its row exists (retained). Defaults to retained with a window, otherwise to active."
    })
  ),
  window: WireText.optional(
    WireDuration.field("How long a retained key is held after the job was stored: 1h, 7d, or milliseconds.")
  ),
  replace: WireText.flag(
    "If the job that has the key is pending and of the same kind, give it this payload, start time and priority."
  )
}).annotations({ identifier: "Dedupe", message: () => "must be an object with key" })

const job = {
  kind: WireText.Text,
  payload: Schema.Unknown,
  queue: WireText.optional(WireText.Text),
  priority: WireText.optional(Whole.annotations({ description: "Lower runs first. Defaults to the kind's." })),
  runAt: WireText.optional(Instant),
  delay: WireText.optional(Delay),
  attempts: WireText.optional(Whole),
  key: WireText.optional(
    WireText.Text.annotations({ description: "Jobs that share a key can be limited and ordered together." })
  ),
  dedupe: WireText.optional(Dedupe),
  meta: WireText.optional(
    WireText.keyed(
      Schema.Record({ key: Schema.String, value: Schema.Unknown }).annotations({
        ...WireText.withMessage("must be an object"),
        description: "Metadata stored with the job and passed to its handler; at most 64 KiB."
      })
    )
  ),
  subject: WireText.optional(WireText.Subject),
  id: WireText.optional(JobId.annotations(WireText.withMessage("must be a UUID")))
}

/** Whether to skip the checks of kinds and payloads. */
export const force = WireText.flag(
  "Accept kinds that no process has registered and payloads that do not match their kind's schema."
)

export const JobToEnqueue = Schema.Struct(job).annotations({
  identifier: "JobToEnqueue",
  message: () => "must be an object with kind and payload"
})
export type JobToEnqueue = typeof JobToEnqueue.Type

/** Several jobs. The queue checks the ranges of values. */
const ManyJobs = Schema.Struct({
  jobs: Schema.Array(JobToEnqueue)
    .annotations({ message: () => "must be a list of jobs" })
    .pipe(Schema.minItems(1), Schema.maxItems(limits.batch)),
  force
}).annotations(WireText.body("EnqueueRequest", "must be an object with jobs"))

const OneJob = Schema.Struct({ ...job, force }).annotations(
  WireText.body("EnqueueOneRequest", "must be an object with kind and payload, or with jobs")
)

/** Body of `POST /api/v1/jobs`. */
export const EnqueueRequest = Schema.Union(ManyJobs, OneJob)

export interface Decoded {
  readonly jobs: ReadonlyArray<JobToEnqueue>
  readonly force: boolean
  /** Whether the request has a single job without a list. The response then has none either. */
  readonly single: boolean
}

/** Decodes a request, or fails with its first invalid field. */
export const decode = (body: unknown): Effect.Effect<Decoded, BadRequest> => {
  // Check the count first: decoding a million small jobs only to reject them would block the event loop.
  const count = jobsIn(body)
  if (count === 0 || (count !== undefined && count > limits.batch)) {
    return new BadRequest({ message: `jobs must have 1 to ${limits.batch} entries, got ${count}.`, field: "jobs" })
  }
  return Predicate.hasProperty(body, "kind") && !Predicate.hasProperty(body, "jobs")
    ? Effect.map(decodedJson(body, OneJob), ({ force = false, ...job }) => ({ jobs: [job], force, single: true }))
    : Effect.map(decodedJson(body, ManyJobs), ({ force = false, jobs }) => ({ jobs, force, single: false }))
}
