import * as HttpApiBuilder from "@effect/platform/HttpApiBuilder"
import type * as HttpApiGroup from "@effect/platform/HttpApiGroup"
import { Effect, type Layer } from "effect"
import type { Audit } from "../../access/Audit.js"
import { Queues } from "../../queue/settings/QueueSettings.js"
import type { Transactions } from "../../queue/Transactions.js"
import { Api } from "../Api.js"
import * as Audited from "../access/Audited.js"
import * as Body from "../Body.js"
import * as Instant from "../Instant.js"
import { CountsCache } from "../jobs/CountsCache.js"
import * as Problem from "../Problem.js"
import { QueuePatchRequest, toPatch } from "./QueuePatchRequest.js"
import * as QueueView from "./QueueView.js"
import { type Throughput, ThroughputCache } from "./ThroughputCache.js"

const mostBodyBytes = 64 * 1024

const sum = (counts: ReadonlyArray<number> = []) => counts.reduce((all, count) => all + count, 0)

/** What became of jobs lately, queue by queue. */
const sumsOf = (measures: Throughput | undefined) => {
  if (measures === undefined) return () => undefined
  const seconds = (measures.at - measures.from) / 1000
  const counts = new Map(measures.queues.map((of) => [of.queue, of]))
  return (queue: string): QueueView.Throughput => ({
    seconds,
    completed: sum(counts.get(queue)?.completed),
    dead: sum(counts.get(queue)?.dead)
  })
}

/** Queues: what waits in them and for how long, and what operators want of them. */
export const layer: Layer.Layer<
  HttpApiGroup.ApiGroup<"nightshift", "queues">,
  never,
  CountsCache | ThroughputCache | Queues | Transactions | Audit
> = HttpApiBuilder.group(Api, "queues", (handlers) =>
  Effect.gen(function* () {
    const counts = yield* CountsCache
    const throughput = yield* ThroughputCache
    const queues = yield* Queues
    const audited = yield* Audited.make

    // Worth having, not worth failing for.
    const measured = Effect.catchAll(throughput.read, (error) =>
      Effect.as(Effect.logDebug("the throughput of queues could not be read", error), undefined)
    )

    const list = Effect.gen(function* () {
      const counted = yield* counts.read
      const measures = yield* measured
      return {
        queues: QueueView.ofAll(counted.queues, yield* queues.all, sumsOf(measures)),
        countedAt: Instant.format(counted.at),
        measuredAt: measures === undefined ? null : Instant.format(measures.at)
      }
    })

    return handlers
      .handle("list", () => Problem.answered(list))
      .handleRaw("change", ({ path, request }) =>
        Effect.gen(function* () {
          const patch = yield* Body.decoded(request, QueuePatchRequest, mostBodyBytes)
          const { after } = yield* queues.change(path.name, toPatch(patch)).pipe(
            audited("queue.change", path.name, ({ after, before }) => ({
              before: QueueView.settingsOf(before),
              after: QueueView.settingsOf(after)
            }))
          )
          const counted = (yield* counts.read).queues.find(({ queue }) => queue === path.name)
          return QueueView.of(path.name, counted, after, sumsOf(yield* measured)(path.name))
        }).pipe(Problem.answered)
      )
  })
)
