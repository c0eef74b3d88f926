import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Schema } from "effect"
import { Overlap } from "../../schedule/Policies.js"
import { about, pageQuery, problem, problems } from "../Contract.js"
import * as WireText from "../WireText.js"
import { HistoryView } from "./HistoryView.js"
import { MissedWire, ScheduleView } from "./ScheduleView.js"

/** Default and maximum number of upcoming runs. */
export const previewLimits = { default: 10, most: 100 } as const

const Flag = Schema.Boolean.annotations(WireText.withMessage("must be true or false"))
const TextOrNull = Schema.NullOr(WireText.Text).annotations({
  ...WireText.withMessage("must be text, or null to use the kind's"),
  jsonSchema: { type: ["string", "null"] }
})
const NumberOrNull = Schema.NullOr(Schema.Number).annotations({
  ...WireText.withMessage("must be a number, or null to use the kind's"),
  jsonSchema: { type: ["integer", "null"] }
})

const optionalFields = {
  timezone: WireText.optional(WireText.Text.annotations({ description: "IANA name. Defaults to UTC." })),
  overlap: WireText.optional(Overlap.annotations(WireText.withMessage('must be "allow" or "skip"'))),
  missed: WireText.optional(
    MissedWire.annotations(WireText.withMessage('must be "one", "none" or {"all": 1 to 1000}'))
  ),
  paused: WireText.optional(Flag),
  queue: WireText.optional(TextOrNull),
  maxAttempts: WireText.optional(NumberOrNull),
  force: WireText.optional(
    Flag.annotations({
      description: "Accept a kind that no pod has registered, and a payload that does not match its kind's schema."
    })
  )
}

const cron = WireText.Text.annotations({
  description:
    "Five fields (minute, hour, day of month, month, day of week), six with seconds first, or a macro such as @daily."
})

/** Body of `POST /api/v1/schedules`. The schedules validate the values. */
export const CreateRequest = Schema.Struct({
  name: WireText.Text,
  kind: WireText.Text,
  payload: Schema.Unknown,
  cron,
  ...optionalFields
}).annotations({
  identifier: "ScheduleToCreate",
  message: () => "must be an object with name, kind, payload and cron",
  ...WireText.strict
})

/** Body of `PATCH /api/v1/schedules/{name}`. Omitted fields stay unchanged. */
export const EditRequest = Schema.Struct({
  kind: WireText.optional(WireText.Text),
  payload: WireText.optional(Schema.Unknown),
  cron: WireText.optional(cron),
  ...optionalFields
}).annotations({ identifier: "ScheduleEdit", message: () => "must be an object", ...WireText.strict })
export type EditRequest = typeof EditRequest.Type

const ListQuery = Schema.Struct(pageQuery).annotations(WireText.strict)

const count = WireText.optional(
  Schema.NumberFromString.pipe(Schema.int(), Schema.between(1, previewLimits.most)).annotations({
    ...WireText.withMessage(`must be a whole number from 1 to ${previewLimits.most}`),
    jsonSchema: { type: "integer", minimum: 1, maximum: previewLimits.most }
  })
)

const NextQuery = Schema.Struct({ count }).annotations(WireText.strict)

const ExpressionQuery = Schema.Struct({
  cron: WireText.optional(cron),
  timezone: optionalFields.timezone,
  count
}).annotations(WireText.strict)

const path = Schema.Struct({ name: Schema.String })

export const group = HttpApiGroup.make("schedules")
  .add(
    HttpApiEndpoint.get("list", "/schedules")
      .setUrlParams(ListQuery)
      .addSuccess(Schema.Struct({ schedules: Schema.Array(ScheduleView), next: Schema.NullOr(Schema.String) }))
      .addError(problem(400))
      .annotateContext(about("List schedules by name."))
  )
  .add(
    HttpApiEndpoint.post("create", "/schedules")
      .setPayload(CreateRequest)
      .addSuccess(ScheduleView, { status: 201 })
      .addError(problems(400, 409, 413, 415, 422))
      .annotateContext(about("Create a schedule. It first fires at its next time."))
  )
  .add(HttpApiEndpoint.get("get", "/schedules/:name").setPath(path).addSuccess(ScheduleView).addError(problem(404)))
  .add(
    HttpApiEndpoint.patch("edit", "/schedules/:name")
      .setPath(path)
      .setPayload(EditRequest)
      .addSuccess(ScheduleView)
      .addError(problems(400, 404, 413, 415, 422))
      .annotateContext(about("Change, pause or resume a schedule. Declarations in code no longer change these fields."))
  )
  .add(
    HttpApiEndpoint.del("remove", "/schedules/:name")
      .setPath(path)
      .addSuccess(ScheduleView)
      .addError(problem(404))
      .annotateContext(
        about("Delete a schedule. A declaration in code does not recreate it. Returns the deleted schedule.")
      )
  )
  .add(
    HttpApiEndpoint.post("trigger", "/schedules/:name/trigger")
      .setPath(path)
      .addSuccess(ScheduleView)
      .addError(problems(404, 409))
      .annotateContext(about("Enqueue a job of the schedule now. `lastJobId` is its id."))
  )
  .add(
    HttpApiEndpoint.get("next", "/schedules/:name/next")
      .setPath(path)
      .setUrlParams(NextQuery)
      .addSuccess(
        Schema.Struct({
          name: Schema.String,
          timezone: Schema.String,
          words: ScheduleView.fields.words,
          next: Schema.Array(Schema.String)
        }).annotations({ identifier: "NextRuns" })
      )
      .addError(problems(400, 404))
      .annotateContext(about("List upcoming runs, even if the schedule is paused."))
  )
  .add(
    HttpApiEndpoint.get("history", "/schedules/:name/history")
      .setPath(path)
      .addSuccess(HistoryView)
      .addError(problem(404))
      .annotateContext(about("List recent runs and the current states of their jobs."))
  )
  .add(
    HttpApiEndpoint.get("read", "/expressions")
      .setUrlParams(ExpressionQuery)
      .addSuccess(
        Schema.Struct({
          timezone: Schema.String,
          words: ScheduleView.fields.words,
          next: Schema.Array(Schema.String),
          wrong: Schema.NullOr(Schema.String).annotations({
            description: "Why the expression is invalid; null if it is valid."
          })
        }).annotations({ identifier: "ReadExpression" })
      )
      .addError(problem(400))
      .annotateContext(about("Explain a cron expression without creating a schedule."))
  )
