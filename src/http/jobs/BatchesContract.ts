import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { BatchId, JobId } from "../../core/Ids.js"
import { mostJobs } from "../../queue/batch/Batches.js"
import { about, idPath, Moment, pageQuery, problem } from "../Contract.js"
import * as WireText from "../WireText.js"
import { JobToEnqueue } from "./EnqueueRequest.js"
import { idempotent } from "./JobsContract.js"

const jobs = Schema.Array(JobToEnqueue).annotations({
  message: () => "must be a list of jobs",
  description: `Up to ${mostJobs} jobs of any kinds.`
})

const force = WireText.optional(
  Schema.Boolean.annotations({
    ...WireText.withMessage("must be true or false"),
    description: "Accept kinds that no pod has registered and payloads that do not match their kind's schema."
  })
)

/** Body of `POST /api/v1/batches`. */
export const NewBatchRequest = Schema.Struct({
  jobs,
  followUp: WireText.optional(
    JobToEnqueue.pick("kind", "payload", "queue", "maxAttempts").annotations({
      message: () => "must be an object with kind and payload",
      description:
        "Enqueued once when all jobs have ended, whatever their result. Its `meta.batch` has the batch's id and counts."
    })
  ),
  name: WireText.optional(WireText.Text),
  id: WireText.optional(
    BatchId.annotations({
      ...WireText.withMessage("must be a UUID"),
      description: "Makes the request safe to retry: if the batch exists, nothing is stored."
    })
  ),
  force
}).annotations({
  identifier: "NewBatchRequest",
  message: () => "must be an object with the field jobs",
  ...WireText.strict
})
export type NewBatchRequest = typeof NewBatchRequest.Type

/** Body of `POST /api/v1/batches/{id}/jobs`. */
export const AddJobsRequest = Schema.Struct({ jobs, force }).annotations({
  identifier: "AddJobsRequest",
  message: () => "must be an object with the field jobs",
  ...WireText.strict
})

export const BatchView = Schema.Struct({
  id: BatchId,
  name: Schema.NullOr(Schema.String),
  createdAt: Moment,
  closedAt: Schema.NullOr(Moment).annotations({ description: "When all jobs had ended." }),
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

const Outcomes = Schema.Array(Schema.Struct({ id: JobId, outcome: Schema.Literal("enqueued", "deduplicated") }))

const Created = Schema.Struct({
  batch: BatchView,
  jobs: Outcomes.annotations({
    description: "In the order of the request; empty if the batch existed. Deduplicated jobs are not part of the batch."
  })
}).annotations({ identifier: "CreatedBatch" })

export const group = HttpApiGroup.make("batches")
  .add(
    HttpApiEndpoint.post("create", "/batches")
      .setPayload(NewBatchRequest)
      .setHeaders(idempotent)
      .addSuccess(Created, { status: 201 })
      .addError(problem(400))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .addError(problem(422))
      .annotateContext(
        about("Enqueue jobs as a batch, all or none, with one follow-up that runs when all of them have ended.")
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/batches")
      .setUrlParams(Schema.Struct(pageQuery).annotations(WireText.strict))
      .addSuccess(Schema.Struct({ batches: Schema.Array(BatchView), next: Schema.NullOr(Schema.String) }))
      .addError(problem(400))
      .annotateContext(about("List batches, newest first."))
  )
  .add(
    HttpApiEndpoint.get("get", "/batches/:id")
      .setPath(idPath)
      .addSuccess(BatchView)
      .addError(problem(404))
      .annotateContext(about("Show a batch and the progress of its jobs. List its jobs with /jobs?batch=<id>."))
  )
  .add(
    HttpApiEndpoint.post("add", "/batches/:id/jobs")
      .setPath(idPath)
      .setPayload(AddJobsRequest)
      .setHeaders(idempotent)
      .addSuccess(Schema.Struct({ jobs: Outcomes }), { status: 201 })
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .addError(problem(422))
      .annotateContext(about("Add jobs to an open batch, all or none. Fails if the batch is closed."))
  )
