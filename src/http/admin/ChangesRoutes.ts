import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Duration, Effect, type Layer, Schema } from "effect"
import { Audit } from "../../access/Audit.js"
import { Pods } from "../../cluster/Pods.js"
import { MinuteBuckets } from "../../history/MinuteBuckets.js"
import { PodSamples } from "../../history/PodSamples.js"
import * as TimeGrid from "../../history/TimeGrid.js"
import type { DeadGroup } from "../../queue/search/JobOverview.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import type { AccessConfig } from "../access/AccessConfig.js"
import * as Masked from "../access/Masked.js"
import { about, apiOf, pageLimits } from "../Contract.js"
import * as Instant from "../Instant.js"
import { ListCache } from "../jobs/ListCache.js"
import * as WireText from "../WireText.js"
import * as Changes from "./Changes.js"
import { rangeOf } from "./MetricsRoutes.js"

const ChangesQuery = Schema.Struct({
  ...Instant.range,
  queue: WireText.optional(WireText.Text.annotations({ description: "Only errors and rises of this queue." })),
  kind: WireText.optional(WireText.Text.annotations({ description: "Only errors and rises of this kind." }))
}).annotations(WireText.strict)

export const ChangesView = Schema.Struct({
  changes: Schema.Array(
    Schema.Struct({
      at: Instant.Moment,
      what: Schema.Literal("deploy", "start", "action", "error").annotations({
        description:
          "The first live process of a version, the start of another process, an operator's action, or the first dead job with a new error."
      }),
      text: Schema.String,
      who: Schema.NullOr(Schema.String)
    })
  ).annotations({ description: `Oldest first, the newest ${pageLimits.max} at most.` }),
  rises: Schema.Array(
    Schema.Struct({
      at: Instant.Moment,
      text: Schema.String,
      preceded: Schema.Array(Schema.String).annotations({
        description: "What preceded it, the closest first, in words."
      })
    })
  ).annotations({ description: `The last ${Changes.maxRises} rises of failed attempts, oldest first.` })
}).annotations({ identifier: "Changes" })

export const group = HttpApiGroup.make("changes").add(
  HttpApiEndpoint.get("list", "/changes")
    .setUrlParams(ChangesQuery)
    .addSuccess(ChangesView)
    .annotateContext(
      about(
        "List what changed in a time range: deploys, process starts, operator actions and new errors. Explains each rise in failures by the changes before it."
      )
    )
)

/** The changes as viewers may see them: texts quote errors. */
const hidden = ({ changes, rises }: typeof ChangesView.Type, { text }: Masked.Mask): typeof ChangesView.Type => {
  const shown = (words: string) => text(words, undefined) ?? ""
  return {
    changes: changes.map((change) => ({ ...change, text: shown(change.text) })),
    rises: rises.map((rise) => ({ ...rise, preceded: rise.preceded.map(shown) }))
  }
}

/** Deaths whose processes are compared, per error. */
const comparedDeaths = 50

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "changes">,
  never,
  Audit | Pods | PodSamples | MinuteBuckets | ClusterConfig | ListCache | JobSearch | AccessConfig
> = HttpApiBuilder.group(apiOf(group), "changes", (handlers) =>
  Effect.gen(function* () {
    const audit = yield* Audit
    const pods = yield* Pods
    const samples = yield* PodSamples
    const buckets = yield* MinuteBuckets
    const { lease } = yield* ClusterConfig
    const lists = yield* ListCache
    const search = yield* JobSearch
    const masked = yield* Masked.make

    /** Versions of the processes in which the newest jobs of a group ran. */
    const deathsOf = (group: DeadGroup, queue: string | undefined, versions: ReadonlyMap<string, string>) => {
      const { kind, reason, shape } = group
      return search.list({ state: ["dead"], kind, reason, shape, queue }, { limit: comparedDeaths }).pipe(
        Effect.map(({ jobs }) =>
          jobs.map(({ history }) => {
            const pod = history.at(-1)?.pod
            return { version: pod === undefined ? undefined : versions.get(pod) }
          })
        ),
        // Where they ran is left out if it cannot be read in time.
        Effect.catchTag("SearchTooSlow", () => Effect.succeed<ReadonlyArray<Changes.Death>>([]))
      )
    }

    return handlers.handle("list", ({ urlParams: { kind, queue, ...range } }) =>
      Effect.gen(function* () {
        const { from, to } = yield* rangeOf(range)
        const width = TimeGrid.defaultWidth({ from, to })
        const live = yield* pods.live(lease)
        const sampled = yield* samples.series({ from, to, width })
        const { entries } = yield* audit.list({ since: from, until: to }, { limit: pageLimits.max })
        const { groups } = yield* lists.deadGroups(queue)
        const own = groups.filter((group) => kind === undefined || group.kind === kind)
        const changes = [
          ...Changes.ofPods(live),
          ...Changes.ofStoppedPods(
            sampled.map(({ pod }) => pod),
            live
          ),
          ...Changes.ofActions(entries),
          ...Changes.ofErrors(own)
        ]
          .filter(({ at }) => at >= from && at < to)
          .sort((a, b) => a.at - b.at)
          .slice(-pageLimits.max)
        const points = yield* buckets.series({ from, to, width, queue, kind })
        const rises = Changes.risesOf(points, Duration.toMillis(width))
        const versions = new Map<string, string>(live.map(({ id, version }) => [id, version]))
        const largest = rises.length === 0 ? [] : own.slice(0, 5)
        const deaths = new Map(
          yield* Effect.forEach(largest, (group) =>
            Effect.map(deathsOf(group, queue, versions), (found) => [group, found] as const)
          )
        )
        const known = { changes, groups: own, deaths: (group: DeadGroup) => deaths.get(group) ?? [] }
        const view = {
          changes: changes.map((change) => ({ ...change, at: Instant.format(change.at) })),
          rises: rises
            .map((rise) => Changes.explain(rise, Duration.toMillis(width), known))
            .map((rise) => ({ ...rise, at: Instant.format(rise.at) }))
        }
        return yield* masked.view(view, hidden)
      })
    )
  })
)
