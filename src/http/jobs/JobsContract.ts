import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { idPath, pageQuery, problem, Total } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireText from "../WireText.js"
import { EnqueueRequest } from "./EnqueueRequest.js"
import * as JobsFilter from "./JobsFilter.js"
import { JobView } from "./JobView.js"
import { WhyView } from "./WhyView.js"

const Outcome = Schema.Struct({ id: JobId, outcome: Schema.Literal("enqueued", "deduplicated") })

export const Outcomes = Schema.Struct({ jobs: Schema.Array(Outcome) })

/** What `GET /api/v1/jobs` takes. */
export const JobsQuery = Schema.Struct({ ...JobsFilter.query, ...pageQuery }).annotations(WireText.strict)

/** What `PATCH /api/v1/jobs/{id}` takes. */
export const JobEdit = Schema.Struct({
  payload: WireText.optional(Schema.Unknown),
  priority: WireText.optional(Schema.Number.annotations(WireText.said("must be a number"))),
  runAt: WireText.optional(Instant),
  reason: WireText.optional(WireText.Text),
  force: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.said("must be true or false"),
      description: "Accept a payload that does not fit the job's kind."
    })
  )
}).annotations({
  identifier: "JobEdit",
  message: () => "must be an object with payload, priority or runAt",
  ...WireText.strict
})

const JobsPage = Schema.Struct({
  jobs: Schema.Array(JobView),
  next: Schema.NullOr(Schema.String),
  total: Total
})

const act = <const Name extends string>(name: Name, route: `/jobs/:id/${string}`, description: string) =>
  HttpApiEndpoint.post(name, route)
    .setPath(idPath)
    .addSuccess(JobView)
    .addError(problem(404))
    .addError(problem(409))
    .annotateContext(OpenApi.annotations({ description }))

/** Jobs: store, find, act on. */
export const group = HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.post("enqueue", "/jobs")
      .setPayload(EnqueueRequest)
      .setHeaders(
        Schema.Struct({
          "idempotency-key": WireText.optional(
            Schema.String.annotations({
              description: "Makes the request safe to repeat for 24 hours: the same key and body give the same answer."
            })
          )
        })
      )
      .addSuccess(Outcomes, { status: 201 })
      .addSuccess(Outcome, { status: 201 })
      .addError(problem(400))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .addError(problem(422))
      .annotateContext(
        OpenApi.annotations({
          description:
            'Store jobs, all or none: `{"jobs": [...]}`, answered in their order, or one job by itself, answered by itself.'
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/jobs")
      .setUrlParams(JobsQuery)
      .addSuccess(JobsPage)
      .addError(problem(400))
      .annotateContext(OpenApi.annotations({ description: "A page of jobs, newest first." }))
  )
  .add(HttpApiEndpoint.get("get", "/jobs/:id").setPath(idPath).addSuccess(JobView).addError(problem(404)))
  .add(
    HttpApiEndpoint.get("why", "/jobs/:id/why")
      .setPath(idPath)
      .addSuccess(WhyView)
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "Why it does not run, or how it stands if it does or has." }))
  )
  .add(
    HttpApiEndpoint.patch("edit", "/jobs/:id")
      .setPath(idPath)
      .setPayload(JobEdit)
      .addSuccess(JobView)
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(OpenApi.annotations({ description: "Pending: with another payload, priority or start." }))
  )
  .add(act("cancel", "/jobs/:id/cancel", "Pending: dead at once. Running: its pod is asked to stop it."))
  .add(act("requeue", "/jobs/:id/requeue", "Dead or done: pending again, with its attempts forgotten."))
  .add(act("runNow", "/jobs/:id/run-now", "Pending: due now."))
  .add(
    HttpApiEndpoint.del("remove", "/jobs/:id")
      .setPath(idPath)
      .addSuccess(JobView)
      .addError(problem(404))
      .addError(problem(409))
      .annotateContext(OpenApi.annotations({ description: "Anything but running: gone. Answers what it was." }))
  )
