import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Schema } from "effect"
import { JobId } from "../../core/Ids.js"
import { DeadReason } from "../../core/StoredJob.js"
import { reading } from "../../database/Replica.js"
import type { DeadGroup } from "../../queue/search/JobOverview.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import type { Mask } from "../access/Masked.js"
import * as Masked from "../access/Masked.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"
import * as WireText from "../WireText.js"
import { ListCache } from "./ListCache.js"

export const GroupView = Schema.Struct({
  kind: Schema.String,
  reason: DeadReason,
  shape: Schema.String.annotations({ description: "First line of the errors, with numbers and ids replaced by #." }),
  count: Schema.Int,
  firstAt: Instant.Moment,
  lastAt: Instant.Moment,
  recent: Schema.Array(Schema.Int).annotations({
    description: "Deaths per two-minute interval of the last hour, oldest first."
  }),
  sample: Schema.Struct({ id: JobId, error: Schema.NullOr(Schema.String) }),
  filter: Schema.Unknown.annotations({
    description:
      "Filter that matches these jobs, for a list or a bulk action; null for callers from whom `NIGHTSHIFT_MASK` hides a part of the shape."
  })
}).annotations({ identifier: "DeadGroup" })

type GroupView = typeof GroupView.Type

const GroupsView = Schema.Struct({
  groups: Schema.Array(GroupView),
  looked: Schema.Int.annotations({ description: "Number of jobs examined, newest first." }),
  sampled: Schema.Boolean.annotations({ description: "Whether older dead jobs were not examined." })
})
export type GroupsView = typeof GroupsView.Type

export const group = HttpApiGroup.make("groups").add(
  HttpApiEndpoint.get("dead", "/jobs/groups")
    .setUrlParams(
      Schema.Struct({
        state: WireText.optional(
          Schema.Literal("dead").annotations({
            ...WireText.withMessage("must be dead: only dead jobs are grouped"),
            description: "The only state whose jobs are grouped; may be omitted."
          })
        ),
        queue: WireText.optional(WireText.Text.annotations({ description: "Only jobs of this queue." }))
      }).annotations(WireText.strict)
    )
    .addSuccess(GroupsView)
    .annotateContext(about("Group dead jobs by kind, reason and error shape."))
)

const fieldsOf = ResponseFields.of(GroupView)

export const viewOf =
  (queue?: string) =>
  (dead: DeadGroup): GroupView => {
    const { reason, kind, sample, shape } = dead
    return {
      ...fieldsOf(dead),
      sample: { id: sample.id, error: sample.error ?? null },
      filter: { ...(queue === undefined ? {} : { queue }), kind, state: "dead", reason, shape }
    }
  }

/** The group as viewers may see it. A filter with a masked shape would match no job, and one without it too many. */
export const hidden = (view: GroupView, { text }: Mask): GroupView => {
  const shape = text(view.shape, undefined) ?? ""
  const sample = { ...view.sample, error: text(view.sample.error, undefined) }
  return { ...view, shape, sample, filter: shape === view.shape ? view.filter : null }
}

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "groups">,
  never,
  ListCache | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "groups", (handlers) =>
  Effect.gen(function* () {
    const lists = yield* ListCache
    const masked = yield* Masked.make
    return handlers.handle("dead", ({ urlParams: { queue } }) =>
      Effect.gen(function* () {
        const { groups, looked, sampled } = yield* reading(lists.deadGroups(queue))
        const shown = yield* Effect.forEach(groups, (group) => masked.view(viewOf(queue)(group), hidden))
        return { groups: shown, looked, sampled }
      })
    )
  })
)
