import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { WaitReason } from "../../measures/QueueWaits.js"
import { SortField } from "../../queue/search/JobSort.js"
import { idPath, Moment, pageQuery, problem, Total } from "../Contract.js"
import { Instant } from "../Instant.js"
import * as WireText from "../WireText.js"
import { EnqueueRequest } from "./EnqueueRequest.js"
import * as JobsFilter from "./JobsFilter.js"
import { JobView } from "./JobView.js"
import { WhyView } from "./WhyView.js"

const Outcome = Schema.Struct({ id: JobId, outcome: Schema.Literal("enqueued", "deduplicated") })

export const Outcomes = Schema.Struct({ jobs: Schema.Array(Outcome) })

/** Query parameters of `GET /api/v1/jobs`. */
export const JobsQuery = Schema.Struct({
  ...JobsFilter.query,
  sort: WireText.optional(
    SortField.annotations({
      ...WireText.withMessage(`must be one of ${SortField.literals.join(", ")}`),
      description:
        "The column to sort by, `created` by default. `created` covers all matching jobs, as do `due` for scheduled and pending jobs and `finished` for dead and done jobs. Other orders cover only the newest matching jobs; `sortedAmong` is their number."
    })
  ),
  order: WireText.optional(
    Schema.Literal("asc", "desc").annotations({
      ...WireText.withMessage("must be asc or desc"),
      description: "Descending by default."
    })
  ),
  ...pageQuery
}).annotations(WireText.strict)

/** Body of `PATCH /api/v1/jobs/{id}`. */
export const JobEdit = Schema.Struct({
  payload: WireText.optional(Schema.Unknown),
  priority: WireText.optional(Schema.Number.annotations(WireText.withMessage("must be a number"))),
  runAt: WireText.optional(Instant),
  reason: WireText.optional(WireText.Text),
  force: WireText.optional(
    Schema.Boolean.annotations({
      ...WireText.withMessage("must be true or false"),
      description: "Accept a payload that does not match the kind's schema."
    })
  )
}).annotations({
  identifier: "JobEdit",
  message: () => "must be an object with payload, priority or runAt",
  ...WireText.strict
})

export const JobsPage = Schema.Struct({
  jobs: Schema.Array(JobView),
  next: Schema.NullOr(Schema.String),
  total: Total,
  sortedAmong: Schema.NullOr(Schema.Int).annotations({
    description: "How many of the newest jobs the order covers; null if it covers all matching jobs."
  })
})

export const WaitsView = Schema.Struct({
  waits: Schema.Array(Schema.Struct({ reason: WaitReason, since: Moment, until: Schema.NullOr(Moment) })).annotations({
    description: "Oldest first; `until` is null for a wait that has not ended."
  })
}).annotations({ identifier: "JobWaits" })

/** A job after an action. */
export const ActedJob = Schema.Struct({
  ...JobView.fields,
  undo: Schema.NullOr(Schema.String).annotations({
    description:
      "Id to undo the action with, valid for one hour; null if the job cannot be restored, for example because it was running."
  })
}).annotations({ identifier: "ActedJob" })

/** Body of `POST /api/v1/jobs/{id}/undo`. */
export const UndoRequest = Schema.Struct({
  undo: Schema.String.annotations({
    ...WireText.withMessage("must be the undo id that the action returned"),
    description: "The undo id that the action returned."
  })
}).annotations({ identifier: "UndoRequest", message: () => "must be an object with undo", ...WireText.strict })

const act = <const Name extends string>(name: Name, route: `/jobs/:id/${string}`, description: string) =>
  HttpApiEndpoint.post(name, route)
    .setPath(idPath)
    .addSuccess(ActedJob)
    .addError(problem(404))
    .addError(problem(409))
    .annotateContext(OpenApi.annotations({ description }))

/** The header that makes a request safe to retry. */
export const idempotent = Schema.Struct({
  "idempotency-key": WireText.optional(
    Schema.String.annotations({
      description: "Makes the request safe to retry for 24 hours: the same key and body return the same response."
    })
  )
})

export const group = HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.post("enqueue", "/jobs")
      .setPayload(EnqueueRequest)
      .setHeaders(idempotent)
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
            'Enqueue jobs atomically. `{"jobs": [...]}` returns a list in the same order; a single job without a list returns a single result.'
        })
      )
  )
  .add(
    HttpApiEndpoint.get("list", "/jobs")
      .setUrlParams(JobsQuery)
      .addSuccess(JobsPage)
      .addError(problem(400))
      .annotateContext(
        OpenApi.annotations({
          description: "List jobs, newest first or by `sort`. A cursor is valid only for the same sort and order."
        })
      )
  )
  .add(HttpApiEndpoint.get("get", "/jobs/:id").setPath(idPath).addSuccess(JobView).addError(problem(404)))
  .add(
    HttpApiEndpoint.get("why", "/jobs/:id/why")
      .setPath(idPath)
      .addSuccess(WhyView)
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "Explain why a job is not running, or show its state." }))
  )
  .add(
    HttpApiEndpoint.get("waits", "/jobs/:id/waits")
      .setPath(idPath)
      .addSuccess(WaitsView)
      .addError(problem(404))
      .annotateContext(
        OpenApi.annotations({
          description:
            "List the reasons for which due jobs of this job's queue waited, from its enqueue until it ended. Recorded every few seconds, for waits of more than five seconds."
        })
      )
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
      .annotateContext(
        OpenApi.annotations({ description: "Change the payload, priority or start time of a pending job." })
      )
  )
  .add(
    act(
      "cancel",
      "/jobs/:id/cancel",
      "Cancel a job. A pending job becomes cancelled at once; a running job is asked to stop."
    )
  )
  .add(act("requeue", "/jobs/:id/requeue", "Requeue a dead, cancelled or done job with its attempts reset."))
  .add(act("runNow", "/jobs/:id/run-now", "Make a pending job due now."))
  .add(
    HttpApiEndpoint.post("undo", "/jobs/:id/undo")
      .setPath(idPath)
      .setPayload(UndoRequest)
      .addSuccess(JobView)
      .addError(problem(400))
      .addError(problem(404))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(
        OpenApi.annotations({
          description:
            "Undo a cancel, requeue, run-now or delete: restore the job as it was, with its start time, attempts, error and reason. Refused if the job has changed since."
        })
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/jobs/:id")
      .setPath(idPath)
      .addSuccess(ActedJob)
      .addError(problem(404))
      .addError(problem(409))
      .annotateContext(
        OpenApi.annotations({ description: "Delete a job that is not running. Returns the deleted job." })
      )
  )
