import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Clock, Duration, Effect, type Layer, Schema } from "effect"
import { Audit } from "../../access/Audit.js"
import { Operations } from "../../queue/admin/Operations.js"
import { JobAdmin, undoFor } from "../../queue/JobAdmin.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import { Caller, seesAll } from "../access/Caller.js"
import * as Masked from "../access/Masked.js"
import { about, apiOf, pageLimits, pageQuery } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as WireText from "../WireText.js"
import * as RecentActions from "./RecentActions.js"

const Request = Schema.Struct({
  method: Schema.Literal("POST", "PATCH", "DELETE"),
  path: Schema.String.annotations({ description: "Relative to `/api/v1/`." }),
  body: Schema.Unknown.annotations({ description: "Null if the request has none." })
}).annotations({ identifier: "UndoCall" })

export const ActionView = Schema.Struct({
  id: Schema.String.annotations({ description: "The id of the audit entry." }),
  at: Instant.Moment,
  who: Schema.String,
  act: Schema.String,
  target: Schema.String,
  text: Schema.String.annotations({ description: "The action in words, such as `12 jobs requeued`." }),
  reason: Schema.NullOr(Schema.String),
  jobs: Schema.NullOr(Schema.Int).annotations({
    description: "Number of jobs changed so far; null if the action does not change jobs."
  }),
  error: Schema.NullOr(Schema.String).annotations({
    description: "Why a bulk action stopped before it had reached all jobs; null if it did not."
  }),
  running: Schema.Boolean.annotations({ description: "Whether a bulk action is still running." }),
  undone: Schema.Boolean,
  undo: Schema.NullOr(
    Schema.Struct({
      until: Instant.Moment,
      request: Schema.NullOr(Request).annotations({
        description:
          "The request that undoes the action; null for callers who may not send it, or who do not see hidden fields."
      })
    })
  ).annotations({ description: "Null if the action cannot be undone or can no longer be undone." })
}).annotations({ identifier: "RecentAction" })

export const group = HttpApiGroup.make("actions").add(
  HttpApiEndpoint.get("list", "/actions")
    .setUrlParams(Schema.Struct({ limit: pageQuery.limit }).annotations(WireText.strict))
    .addSuccess(Schema.Struct({ actions: Schema.Array(ActionView) }))
    .annotateContext(
      about("List what operators did in the last hour, newest first, with what is needed to undo each action.")
    )
)

/** The action as viewers may see it: an incident or a bulk action may quote the error of a job. */
const hidden = (action: typeof ActionView.Type, { text }: Masked.Mask): typeof ActionView.Type => ({
  ...action,
  text: text(action.text, undefined) ?? "",
  error: text(action.error, undefined)
})

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "actions">,
  never,
  Audit | Operations | JobAdmin | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "actions", (handlers) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const operations = yield* Operations
    const jobAdmin = yield* JobAdmin
    const masked = yield* Masked.make

    return handlers.handle("list", ({ urlParams: { limit = pageLimits.default } }) =>
      Effect.gen(function* () {
        const now = yield* Clock.currentTimeMillis
        const since = now - Duration.toMillis(undoFor)
        const page = yield* operations.list({ limit: pageLimits.max })
        const recent = page.operations.filter(({ finishedAt = now }) => finishedAt >= since)
        // A bulk action takes long. It counts from its end.
        const first = Math.min(since, ...recent.map(({ createdAt }) => createdAt))
        const { entries } = yield* audit.list({ since: first }, { limit: pageLimits.max })
        const singles = entries.filter(RecentActions.isOfOneJob).map(({ id }) => id)
        const known = {
          now,
          entries,
          operations: new Map(page.operations.map((operation) => [operation.id, operation])),
          undoneOperations: new Set(
            page.operations.flatMap(({ status, undoes }) =>
              undoes !== undefined && (status === "running" || status === "done") ? [undoes] : []
            )
          ),
          undoable: singles.length === 0 ? new Set<string>() : yield* jobAdmin.undoable(singles)
        }
        const isShown = seesAll(yield* Caller)
        const shown = entries
          .filter((entry) => RecentActions.isShown(entry) && RecentActions.endOf(entry, known) >= since)
          .slice(0, limit)
        const actions = yield* Effect.forEach(shown, (entry) => {
          const { undo, ...action } = RecentActions.of(entry, known)
          const until = Instant.format(RecentActions.endOf(entry, known) + Duration.toMillis(undoFor))
          const undoing = undo === undefined ? null : { until, request: isShown ? undo : null }
          return masked.view({ ...action, undo: undoing }, hidden)
        })
        return { actions }
      })
    )
  })
)
