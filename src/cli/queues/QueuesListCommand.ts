import * as Command from "@effect/cli/Command"
import { Console, Effect } from "effect"
import * as QueueView from "../../http/admin/QueueView.js"
import { ThroughputCache } from "../../http/admin/ThroughputCache.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { Queues } from "../../queue/settings/QueueSettings.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import * as Table from "../Table.js"
import { printable } from "../Terminal.js"

const stateOf = ({ declared, paused, throttledUntil }: QueueView.QueueView): string => {
  if (paused) return "paused"
  if (throttledUntil !== null) return `cooling down until ${throttledUntil}`
  return declared ? "open" : "undeclared"
}

const rowOf = (queue: QueueView.QueueView) => [
  printable(queue.name),
  stateOf(queue),
  String(queue.maxWorkers),
  String(queue.counts.pending),
  String(queue.counts.running),
  String(queue.counts.scheduled),
  String(queue.counts.retrying),
  String(queue.counts.done),
  String(queue.counts.dead),
  String(queue.counts.cancelled),
  queue.oldestDueAgeSeconds === null ? "-" : `${Math.round(queue.oldestDueAgeSeconds)}s`,
  queue.throughput === null ? "-" : String(queue.throughput.completed)
]

const heading = [
  "QUEUE",
  "STATE",
  "WORKERS",
  "PENDING",
  "RUNNING",
  "SCHEDULED",
  "RETRYING",
  "DONE",
  "DEAD",
  "CANCELLED",
  "OLDEST DUE",
  "DONE LAST HOUR"
]

export const command = Command.make("list", { ...CommonOptions.database, json: CommonOptions.json }, (given) =>
  Effect.gen(function* () {
    const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
    const settings = yield* Effect.flatMap(Queues, (queues) => queues.all)
    const lately = yield* Effect.flatMap(ThroughputCache, (cache) => cache.sums)
    const queues = QueueView.ofAll(counts, settings, lately?.of)
    if (given.json) return yield* Console.log(JSON.stringify({ queues }, null, 2))
    if (queues.length === 0)
      return yield* Console.log("No queues yet. `nightshift serve` declares them when it starts.")
    yield* Console.log(Table.render(heading, queues.map(rowOf)))
  }).pipe(
    Effect.provide(ThroughputCache.layer),
    Effect.provide(QueueLayer.layerForCommand),
    Running.configured(CommonOptions.databaseFlags(given))
  )
).pipe(Command.withDescription("List queues with their counts and settings."))
