import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, Either, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import type { Transactions } from "../../queue/Transactions.js"
import { Overlap } from "../../schedule/Policies.js"
import { defaults, digestOfSubject, expressionOf } from "../../schedule/ScheduleDefinition.js"
import { trigger } from "../../schedule/ScheduledJobs.js"
import { Schedules } from "../../schedule/Schedules.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import { Caller } from "../access/Caller.js"
import * as Masked from "../access/Masked.js"
import * as Body from "../Body.js"
import { about, apiOf, pageLimits, pageQuery } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import * as WireText from "../WireText.js"
import * as HistoryView from "./HistoryView.js"
import * as ScheduleView from "./ScheduleView.js"

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
    ScheduleView.MissedWire.annotations(WireText.withMessage('must be "one", "none" or {"all": 1 to 1000}'))
  ),
  paused: WireText.flag(),
  queue: WireText.optional(TextOrNull),
  attempts: WireText.optional(NumberOrNull),
  force: WireText.flag(
    "Accept a kind that no process has registered, and a payload that does not match its kind's schema."
  )
}

/** A subject's digest as it is stored. */
const isDigest = /^[0-9a-f]{64}$/

const cron = WireText.Text.annotations({
  description:
    "Five fields (minute, hour, day of month, month, day of week), six with seconds first, or a macro such as @daily."
})

/** Body of `POST /api/v1/schedules`. The schedules validate the values. */
const CreateRequest = Schema.Struct({
  name: WireText.Text,
  kind: WireText.Text,
  payload: Schema.Unknown,
  cron,
  subject: WireText.optional(WireText.Subject),
  subjectDigest: WireText.optional(
    Schema.String.pipe(Schema.pattern(isDigest)).annotations({
      ...WireText.withMessage("must be the 64 hexadecimal characters of a SHA-256 digest"),
      jsonSchema: {
        type: "string",
        pattern: isDigest.source,
        description: "Instead of `subject`: its digest, as an undo of a deletion sends it."
      }
    })
  ),
  ...optionalFields
}).annotations(WireText.body("ScheduleToCreate", "must be an object with name, kind, payload and cron"))

/** Body of `PATCH /api/v1/schedules/{name}`. Omitted fields stay unchanged. */
const EditRequest = Schema.Struct({
  kind: WireText.optional(WireText.Text),
  payload: WireText.optional(Schema.Unknown),
  cron: WireText.optional(cron),
  ...optionalFields
}).annotations(WireText.body("ScheduleEdit"))
type EditRequest = typeof EditRequest.Type

const ListQuery = Schema.Struct(pageQuery).annotations(WireText.strict)

const count = WireText.optional(
  Schema.NumberFromString.pipe(Schema.int(), Schema.between(1, ScheduleView.previewLimits.max)).annotations({
    ...WireText.withMessage(`must be a whole number from 1 to ${ScheduleView.previewLimits.max}`),
    jsonSchema: {
      type: "integer",
      minimum: 1,
      maximum: ScheduleView.previewLimits.max,
      description: `Number of runs. Default ${ScheduleView.previewLimits.default}.`
    }
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
      .addSuccess(
        Schema.Struct({ schedules: Schema.Array(ScheduleView.ScheduleView), next: Schema.NullOr(Schema.String) })
      )
      .annotateContext(about("List schedules by name."))
  )
  .add(
    HttpApiEndpoint.post("create", "/schedules")
      .setPayload(CreateRequest)
      .addSuccess(ScheduleView.ScheduleView, { status: 201 })
      .annotateContext(about("Create a schedule. It first fires at its next time.", 409, 422))
  )
  .add(HttpApiEndpoint.get("get", "/schedules/:name").setPath(path).addSuccess(ScheduleView.ScheduleView))
  .add(
    HttpApiEndpoint.patch("edit", "/schedules/:name")
      .setPath(path)
      .setPayload(EditRequest)
      .addSuccess(ScheduleView.ScheduleView)
      .annotateContext(
        about("Change, pause or resume a schedule. Declarations in code no longer change these fields.", 422)
      )
  )
  .add(
    HttpApiEndpoint.del("remove", "/schedules/:name")
      .setPath(path)
      .addSuccess(ScheduleView.ScheduleView)
      .annotateContext(
        about("Delete a schedule. A declaration in code does not recreate it. Returns the deleted schedule.")
      )
  )
  .add(
    HttpApiEndpoint.post("trigger", "/schedules/:name/trigger")
      .setPath(path)
      .addSuccess(ScheduleView.ScheduleView)
      .annotateContext(about("Enqueue a job of the schedule now. `lastJobId` is its id.", 409))
  )
  .add(
    HttpApiEndpoint.get("next", "/schedules/:name/next")
      .setPath(path)
      .setUrlParams(NextQuery)
      .addSuccess(
        Schema.Struct({
          name: Schema.String,
          timezone: Schema.String,
          words: ScheduleView.ScheduleView.fields.words,
          next: Schema.Array(Schema.String)
        }).annotations({ identifier: "NextRuns" })
      )
      .annotateContext(about("List upcoming runs, even if the schedule is paused."))
  )
  .add(
    HttpApiEndpoint.get("history", "/schedules/:name/history")
      .setPath(path)
      .addSuccess(HistoryView.HistoryView)
      .annotateContext(about("List recent runs and the current states of their jobs."))
  )
  .add(
    HttpApiEndpoint.get("read", "/expressions")
      .setUrlParams(ExpressionQuery)
      .addSuccess(
        Schema.Struct({
          timezone: Schema.String,
          words: ScheduleView.ScheduleView.fields.words,
          next: Schema.Array(Schema.String),
          wrong: Schema.NullOr(Schema.String).annotations({
            description: "Why the expression is invalid; null if it is valid."
          })
        }).annotations({ identifier: "ReadExpression" })
      )
      .annotateContext(about("Explain a cron expression without creating a schedule."))
  )

const maxBodyBytes = 256 * 1024

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "schedules">,
  never,
  Schedules | Queue | Kinds | JobSearch | JobOverview | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "schedules", (handlers) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const kinds = yield* Kinds
    const audited = yield* Audited.make
    const shown = ScheduleView.maskedBy(yield* Masked.make)
    const context = yield* Effect.context<Schedules | Queue | Kinds | JobSearch | JobOverview | Transactions>()

    /** Rejects a mistyped kind or an invalid payload now instead of when the first job becomes dead. */
    const checkJob = (kind: string, payload: unknown) =>
      Effect.flatMap(kinds.find(kind), (registered) => JobRequests.checkPayload(registered, payload))

    /** Checks only what the edit changes. */
    const checkEdit = (name: string, edit: Pick<EditRequest, "kind" | "payload">) =>
      Effect.gen(function* () {
        if (edit.kind === undefined && edit.payload === undefined) return
        const schedule = yield* schedules.get(name)
        const checked = checkJob(
          edit.kind ?? schedule.kind,
          edit.payload === undefined ? schedule.payload : edit.payload
        )
        yield* edit.kind === undefined ? Effect.catchTag(checked, "UnknownKind", () => Effect.void) : checked
      })

    return (
      handlers
        .handle("list", ({ urlParams: { cursor, limit = pageLimits.default } }) =>
          Effect.gen(function* () {
            const found = yield* schedules.list({ limit: limit + 1, after: cursor })
            const page = found.slice(0, limit)
            return {
              schedules: yield* Effect.forEach(page, shown),
              next: found.length > limit ? (page.at(-1)?.name ?? null) : null
            }
          })
        )
        .handleRaw("create", ({ request }) =>
          Effect.gen(function* () {
            const body = yield* Body.decoded(request, CreateRequest, maxBodyBytes)
            const { force, attempts, queue, subject, subjectDigest, ...given } = body
            if (force !== true) yield* checkJob(given.kind, given.payload)
            const made = yield* schedules
              .create({
                ...defaults,
                ...given,
                queue: queue ?? undefined,
                attempts: attempts ?? undefined,
                subject: subject === undefined ? subjectDigest : digestOfSubject(subject)
              })
              .pipe(audited("schedule.create", given.name, (after) => ({ after: ScheduleView.summaryOf(after) })))
            return yield* shown(made)
          }).pipe(Problem.catchErrorsOfOneJob)
        )
        .handle("get", ({ path }) => Effect.flatMap(schedules.get(path.name), shown))
        .handleRaw("edit", ({ path, request }) =>
          Effect.gen(function* () {
            const { force, ...edit } = yield* Body.decoded(request, EditRequest, maxBodyBytes)
            if (force !== true) yield* checkEdit(path.name, edit)
            const { after } = yield* schedules.edit(path.name, edit).pipe(
              audited("schedule.edit", path.name, ({ after, before }) => ({
                before: ScheduleView.summaryOf(before),
                after: ScheduleView.summaryOf(after)
              }))
            )
            return yield* shown(after)
          }).pipe(Problem.catchErrorsOfOneJob)
        )
        .handle("remove", ({ path }) =>
          schedules.remove(path.name).pipe(
            audited("schedule.delete", path.name, (before) => ({ before: ScheduleView.summaryOf(before) })),
            Effect.flatMap(shown)
          )
        )
        .handle("trigger", ({ path }) =>
          Effect.flatMap(Caller, ({ who }) => trigger(path.name, who)).pipe(
            audited("schedule.trigger", path.name, (after) => ({ after: ScheduleView.triggeredSummary(after) })),
            Effect.flatMap(shown),
            Effect.provide(context)
          )
        )
        .handle("next", ({ path, urlParams: { count = ScheduleView.previewLimits.default } }) =>
          Effect.gen(function* () {
            const schedule = yield* schedules.get(path.name)
            const expression = yield* expressionOf(schedule)
            const next = expression.preview(yield* Clock.currentTimeMillis, count)
            const { name, timezone, words } = ScheduleView.of(schedule)
            return { name, timezone, words, next: next.map(Instant.format) }
          })
        )
        // An invalid expression is a normal response: the editor calls this route while the user types.
        .handle(
          "read",
          ({ urlParams: { count = ScheduleView.previewLimits.default, cron = "", timezone = defaults.timezone } }) =>
            Effect.map(Clock.currentTimeMillis, (now) =>
              Either.match(expressionOf({ name: "", cron, timezone }), {
                onLeft: ({ field, reason }) => ({ timezone, words: null, next: [], wrong: `${field} ${reason}` }),
                onRight: (expression) => ({
                  timezone,
                  words: ScheduleView.wordsOf(cron, timezone),
                  next: expression.preview(now, count).map(Instant.format),
                  wrong: null
                })
              })
            )
        )
        .handle("history", ({ path }) => HistoryView.read(path.name).pipe(Effect.provide(context)))
    )
  })
)
