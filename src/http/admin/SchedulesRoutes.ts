import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Effect, Either, type Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import { trigger } from "../../crew/loops/ScheduledJobs.js"
import * as JobRequests from "../../queue/enqueue/JobRequests.js"
import { Kinds } from "../../queue/Kinds.js"
import type { Queue } from "../../queue/Queue.js"
import type { JobOverview } from "../../queue/search/JobOverview.js"
import type { JobSearch } from "../../queue/search/JobSearch.js"
import type { Transactions } from "../../queue/Transactions.js"
import { defaults, expressionOf } from "../../schedule/ScheduleDefinition.js"
import { Schedules } from "../../schedule/Schedules.js"
import { Api } from "../Api.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Audited from "../access/Audited.js"
import { Caller } from "../access/Caller.js"
import * as Body from "../Body.js"
import { pageLimits } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as Problem from "../Problem.js"
import * as Views from "../Views.js"
import * as HistoryView from "./HistoryView.js"
import { CreateRequest, EditRequest, previewLimits } from "./SchedulesContract.js"
import * as ScheduleView from "./ScheduleView.js"

const mostBodyBytes = 256 * 1024

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "schedules">,
  never,
  Schedules | Queue | Kinds | JobSearch | JobOverview | Transactions | Audit | AccessConfig
> = HttpApiBuilder.group(Api, "schedules", (handlers) =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const kinds = yield* Kinds
    const audited = yield* Audited.make
    const views = yield* Views.make
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
              schedules: yield* Effect.forEach(page, views.schedule),
              next: found.length > limit ? (page.at(-1)?.name ?? null) : null
            }
          }).pipe(Problem.catchErrors)
        )
        .handleRaw("create", ({ request }) =>
          Effect.gen(function* () {
            const { force, maxAttempts, queue, ...given } = yield* Body.decoded(request, CreateRequest, mostBodyBytes)
            if (force !== true) yield* checkJob(given.kind, given.payload)
            const made = yield* schedules
              .create({
                ...defaults,
                ...given,
                queue: queue ?? undefined,
                maxAttempts: maxAttempts ?? undefined
              })
              .pipe(audited("schedule.create", given.name, (after) => ({ after: ScheduleView.summaryOf(after) })))
            return yield* views.schedule(made)
          }).pipe(Problem.catchErrorsOfOneJob)
        )
        .handle("get", ({ path }) => Problem.catchErrors(Effect.flatMap(schedules.get(path.name), views.schedule)))
        .handleRaw("edit", ({ path, request }) =>
          Effect.gen(function* () {
            const { force, ...edit } = yield* Body.decoded(request, EditRequest, mostBodyBytes)
            if (force !== true) yield* checkEdit(path.name, edit)
            const { after } = yield* schedules.edit(path.name, edit).pipe(
              audited("schedule.edit", path.name, ({ after, before }) => ({
                before: ScheduleView.summaryOf(before),
                after: ScheduleView.summaryOf(after)
              }))
            )
            return yield* views.schedule(after)
          }).pipe(Problem.catchErrorsOfOneJob)
        )
        .handle("remove", ({ path }) =>
          schedules.remove(path.name).pipe(
            audited("schedule.delete", path.name, (before) => ({ before: ScheduleView.summaryOf(before) })),
            Effect.flatMap(views.schedule),
            Problem.catchErrors
          )
        )
        .handle("trigger", ({ path }) =>
          Effect.flatMap(Caller, ({ who }) => trigger(path.name, who)).pipe(
            audited("schedule.trigger", path.name, (after) => ({ after: ScheduleView.triggeredSummary(after) })),
            Effect.flatMap(views.schedule),
            Effect.provide(context),
            Problem.catchErrors
          )
        )
        .handle("next", ({ path, urlParams: { count = previewLimits.default } }) =>
          Effect.gen(function* () {
            const schedule = yield* schedules.get(path.name)
            const expression = yield* expressionOf(schedule)
            const next = expression.preview(yield* Clock.currentTimeMillis, count)
            const { name, timezone, words } = ScheduleView.of(schedule)
            return { name, timezone, words, next: next.map(Instant.format) }
          }).pipe(Problem.catchErrors)
        )
        // An invalid expression is a normal response: the editor calls this route while the user types.
        .handle("read", ({ urlParams: { count = previewLimits.default, cron = "", timezone = defaults.timezone } }) =>
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
        .handle("history", ({ path }) => HistoryView.read(path.name).pipe(Effect.provide(context), Problem.catchErrors))
    )
  })
)
