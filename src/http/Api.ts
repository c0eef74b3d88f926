import * as HttpApi from "@effect/platform/HttpApi"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import * as HttpApiSchema from "@effect/platform/HttpApiSchema"
import * as OpenApi from "@effect/platform/OpenApi"
import { Schema } from "effect"
import { mostLabelCharacters } from "../access/Tokens.js"
import { JobId, TokenId } from "../core/Ids.js"
import { DeadReason, State } from "../core/Job.js"
import { EnqueueRequest } from "./EnqueueRequest.js"
import { Instant } from "./Instant.js"
import { JobView } from "./JobView.js"
import * as Problem from "./Problem.js"
import * as WireText from "./WireText.js"

/** How many jobs a page may hold. */
export const pageLimits = { usual: 50, most: 1000 } as const

const oneOf = (choices: ReadonlyArray<string>) => WireText.said(`must be one of ${choices.join(", ")}`)

const problem = (status: number) => Problem.Body.annotations(HttpApiSchema.annotations({ status }))

const Outcomes = Schema.Struct({
  jobs: Schema.Array(Schema.Struct({ id: JobId, outcome: Schema.Literal("enqueued", "deduplicated") }))
})

/** What `GET /api/v1/jobs` takes. */
export const JobsQuery = Schema.Struct({
  queue: WireText.optional(WireText.Text),
  kind: WireText.optional(WireText.Text),
  state: WireText.optional(State.annotations(oneOf(State.literals))),
  deadReason: WireText.optional(DeadReason.annotations(oneOf(DeadReason.literals))),
  since: WireText.optional(Instant),
  until: WireText.optional(Instant),
  payload: WireText.optional(WireText.JsonText.annotations({ description: "JSON that the payload must contain." })),
  text: WireText.optional(WireText.Text.annotations({ description: "Text in the last error." })),
  limit: WireText.optional(
    Schema.NumberFromString.pipe(Schema.int(), Schema.between(1, pageLimits.most)).annotations({
      ...WireText.said(`must be a whole number from 1 to ${pageLimits.most}`),
      jsonSchema: { type: "integer", minimum: 1, maximum: pageLimits.most }
    })
  ),
  cursor: WireText.optional(WireText.Text)
}).annotations(WireText.strict)

const JobsPage = Schema.Struct({
  jobs: Schema.Array(JobView),
  next: Schema.NullOr(Schema.String),
  total: Schema.Struct({ count: Schema.Int, exact: Schema.Boolean })
})

const path = Schema.Struct({ id: Schema.String })

const act = <const Name extends string>(name: Name, route: `/jobs/:id/${string}`, description: string) =>
  HttpApiEndpoint.post(name, route)
    .setPath(path)
    .addSuccess(JobView)
    .addError(problem(404))
    .addError(problem(409))
    .annotateContext(OpenApi.annotations({ description }))

const jobs = HttpApiGroup.make("jobs")
  .add(
    HttpApiEndpoint.post("enqueue", "/jobs")
      .setPayload(EnqueueRequest)
      .addSuccess(Outcomes, { status: 201 })
      .addError(problem(400))
      .addError(problem(409))
      .addError(problem(413))
      .addError(problem(415))
      .addError(problem(422))
      .annotateContext(OpenApi.annotations({ description: "Store jobs, all or none. Answers in their order." }))
  )
  .add(
    HttpApiEndpoint.get("list", "/jobs")
      .setUrlParams(JobsQuery)
      .addSuccess(JobsPage)
      .addError(problem(400))
      .annotateContext(OpenApi.annotations({ description: "A page of jobs, newest first." }))
  )
  .add(HttpApiEndpoint.get("get", "/jobs/:id").setPath(path).addSuccess(JobView).addError(problem(404)))
  .add(act("cancel", "/jobs/:id/cancel", "Pending: dead at once. Running: its pod is asked to stop it."))
  .add(act("requeue", "/jobs/:id/requeue", "Dead or done: pending again, with its attempts forgotten."))
  .add(act("runNow", "/jobs/:id/run-now", "Pending: due now."))
  .add(
    HttpApiEndpoint.del("remove", "/jobs/:id")
      .setPath(path)
      .addSuccess(JobView)
      .addError(problem(404))
      .addError(problem(409))
      .annotateContext(OpenApi.annotations({ description: "Anything but running: gone. Answers what it was." }))
  )

const Counts = Schema.Struct({
  scheduled: Schema.Int,
  retrying: Schema.Int,
  pending: Schema.Int,
  running: Schema.Int,
  done: Schema.Int,
  dead: Schema.Int
})

const QueueView = Schema.Struct({
  name: Schema.String,
  counts: Counts,
  oldestDueAgeSeconds: Schema.NullOr(Schema.Number)
}).annotations({ identifier: "Queue" })

const queues = HttpApiGroup.make("queues").add(
  HttpApiEndpoint.get("list", "/queues").addSuccess(Schema.Struct({ queues: Schema.Array(QueueView) }))
)

/** What `POST /api/v1/workspaces/{workspace}/tokens` takes; no body is the same as an empty one. */
export const TokenRequest = Schema.Struct({
  label: WireText.optional(
    WireText.Text.pipe(
      Schema.maxLength(mostLabelCharacters, WireText.said(`must be at most ${mostLabelCharacters} characters long`))
    ).annotations({ description: "What people are to recognize the token by." })
  )
}).annotations({ identifier: "TokenRequest", message: () => "must be an object", ...WireText.strict })

const TokenView = Schema.Struct({
  id: TokenId,
  prefix: Schema.String.annotations({ description: "The token's first characters." }),
  label: Schema.String,
  createdAt: Schema.String.annotations({ jsonSchema: { type: "string", format: "date-time" } })
}).annotations({ identifier: "Token" })

const UploadsView = Schema.Struct({
  counts: Schema.Struct({
    waiting: Schema.Int,
    fetched: Schema.Int,
    acked: Schema.Int,
    expired: Schema.Int
  }).annotations({ description: "Each counted up to a hundred thousand." }),
  stuck: Schema.Array(
    Schema.Struct({
      workspace: Schema.String,
      files: Schema.Int,
      bytes: Schema.Int,
      waitingSeconds: Schema.Number
    })
  ).annotations({ description: "Workspaces whose files have waited for an hour or longer, the longest first." })
}).annotations({ identifier: "Uploads" })

const uploads = HttpApiGroup.make("uploads").add(
  HttpApiEndpoint.get("overview", "/uploads")
    .addSuccess(UploadsView)
    .annotateContext(OpenApi.annotations({ description: "How many files there are, and who does not fetch theirs." }))
)

const workspacePath = Schema.Struct({ workspace: Schema.String })

const tokens = HttpApiGroup.make("tokens")
  .add(
    HttpApiEndpoint.post("create", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .setPayload(TokenRequest)
      .addSuccess(Schema.Struct({ id: TokenId, token: Schema.String }), { status: 201 })
      .addError(problem(400))
      .addError(problem(413))
      .addError(problem(415))
      .annotateContext(OpenApi.annotations({ description: "Make a token for a workspace. It is shown this once." }))
  )
  .add(
    HttpApiEndpoint.get("list", "/workspaces/:workspace/tokens")
      .setPath(workspacePath)
      .addSuccess(Schema.Struct({ tokens: Schema.Array(TokenView) }))
      .addError(problem(400))
      .annotateContext(
        OpenApi.annotations({ description: "A workspace's tokens without their secrets, oldest first." })
      )
  )
  .add(
    HttpApiEndpoint.del("revoke", "/workspaces/:workspace/tokens/:id")
      .setPath(Schema.Struct({ workspace: Schema.String, id: Schema.String }))
      .addSuccess(TokenView)
      .addError(problem(400))
      .addError(problem(404))
      .annotateContext(OpenApi.annotations({ description: "From now on it lets nobody in. Answers what it was." }))
  )

/** The contract of the doors: what goes in, what comes out, and nothing of how. */
export const Api = HttpApi.make("nightshift")
  .add(jobs)
  .add(queues)
  .add(uploads)
  .add(tokens)
  .prefix("/api/v1")
  .addError(problem(401))
  .addError(problem(403))
  .addError(problem(503))
  .annotateContext(
    OpenApi.annotations({
      title: "Nightshift",
      version: "v1",
      description: "Instants are RFC 3339, durations are seconds.",
      transform: (specification) => ({
        ...specification,
        components: {
          ...specification.components,
          securitySchemes: { token: { type: "http", scheme: "bearer" } }
        },
        security: [{ token: [] }]
      })
    })
  )
