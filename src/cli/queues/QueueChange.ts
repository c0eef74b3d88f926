import { Console, Effect, type Option } from "effect"
import * as Audited from "../../http/access/Audited.js"
import * as QueueView from "../../http/admin/QueueView.js"
import { ThroughputCache } from "../../http/admin/ThroughputCache.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { type QueueSettingsPatch, Queues } from "../../queue/settings/QueueSettings.js"
import * as CommonOptions from "../CommonOptions.js"
import * as Operator from "../Operator.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import * as QueueNameArgument from "./QueueNameArgument.js"

/** Options of commands that change one queue. */
export const options = {
  queue: QueueNameArgument.argument,
  ...CommonOptions.database,
  reason: Operator.reason,
  json: CommonOptions.json
}

interface Given {
  readonly queue: string
  readonly reason: Option.Option<string>
  readonly json: boolean
  readonly embedded: boolean
  readonly directory: Parameters<typeof CommonOptions.databaseFlags>[0]["directory"]
}

/** Changes the queue's settings and prints `said`, or the queue as JSON. */
export const perform = (given: Given, patch: QueueSettingsPatch, said: string) =>
  Effect.gen(function* () {
    const queues = yield* Queues
    const audited = yield* Audited.make
    const { after } = yield* queues.change(given.queue, patch).pipe(
      audited("queue.change", given.queue, ({ after, before }) => ({
        before: QueueView.settingsOf(before),
        after: QueueView.settingsOf(after)
      })),
      Operator.acting(given.reason)
    )
    if (!given.json) return yield* Console.log(said)
    const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
    const counted = counts.find(({ queue }) => queue === given.queue)
    const lately = yield* Effect.flatMap(ThroughputCache, (cache) => cache.sums)
    yield* Console.log(JSON.stringify(QueueView.of(given.queue, counted, after, lately?.of(given.queue)), null, 2))
  }).pipe(
    Effect.provide(ThroughputCache.layer),
    Effect.provide(QueueLayer.layerForCommand),
    Running.configured(CommonOptions.databaseFlags(given))
  )
