import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import * as HttpApiEndpoint from "@effect/platform/HttpApiEndpoint"
import * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer, Schema } from "effect"
import type { Audit } from "../../access/Audit.js"
import { InvalidSetting, Queues } from "../../queue/settings/QueueSettings.js"
import type { Transactions } from "../../queue/Transactions.js"
import * as Audited from "../access/Audited.js"
import * as Body from "../Body.js"
import { about, apiOf } from "../Contract.js"
import * as Instant from "../Instant.js"
import { CountsCache } from "../jobs/CountsCache.js"
import { fieldOf, QueuePatchRequest, toPatch } from "./QueuePatchRequest.js"
import * as QueueView from "./QueueView.js"
import { ThroughputCache } from "./ThroughputCache.js"

export const group = HttpApiGroup.make("queues")
  .add(
    HttpApiEndpoint.get("list", "/queues").addSuccess(
      Schema.Struct({
        queues: Schema.Array(QueueView.QueueView),
        countedAt: Instant.Moment.annotations({
          description: "When the jobs were counted; counts are cached between requests."
        }),
        measuredAt: Schema.NullOr(Instant.Moment).annotations({
          description: "When `throughput` was measured; null if the query failed."
        })
      })
    )
  )
  .add(
    HttpApiEndpoint.patch("change", "/queues/:name")
      .setPath(Schema.Struct({ name: Schema.String }))
      .setPayload(QueuePatchRequest)
      .addSuccess(QueueView.QueueView)
      .annotateContext(
        about(
          "Change the given settings atomically. Once a pause is acknowledged, no job of the queue is claimed. A queue that no process has declared can be paused before its first job; other changes to it return 404. In a fleet, limits are those of this cell: of a rate for a queue that several cells have, set the share of the cell."
        )
      )
  )

const maxBodyBytes = 64 * 1024

export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "queues">,
  never,
  CountsCache | ThroughputCache | Queues | Transactions | Audit
> = HttpApiBuilder.group(apiOf(group), "queues", (handlers) =>
  Effect.gen(function* () {
    const counts = yield* CountsCache
    const throughput = yield* ThroughputCache
    const queues = yield* Queues
    const audited = yield* Audited.make

    const list = Effect.gen(function* () {
      const counted = yield* counts.read
      const lately = yield* throughput.sums
      return {
        queues: QueueView.ofAll(counted.queues, yield* queues.all, lately?.of),
        countedAt: Instant.format(counted.at),
        measuredAt: lately === undefined ? null : Instant.format(lately.at)
      }
    })

    return handlers
      .handle("list", () => list)
      .handleRaw("change", ({ path, request }) =>
        Effect.gen(function* () {
          const patch = yield* Body.decoded(request, QueuePatchRequest, maxBodyBytes)
          const { after } = yield* queues.change(path.name, toPatch(patch)).pipe(
            Effect.catchTag(
              "InvalidSetting",
              ({ field, reason }) => new InvalidSetting({ field: fieldOf(field), reason })
            ),
            audited("queue.change", path.name, ({ after, before }) => ({
              before: QueueView.settingsOf(before),
              after: QueueView.settingsOf(after)
            }))
          )
          // The change is committed: a failure to count must not report that it was not made.
          const counted = yield* Effect.match(counts.read, {
            onFailure: () => QueueView.unknownCounts(path.name),
            onSuccess: ({ queues }) => queues.find(({ queue }) => queue === path.name)
          })
          return QueueView.of(path.name, counted, after, (yield* throughput.sums)?.of(path.name))
        })
      )
  })
)
