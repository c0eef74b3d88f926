import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import { Console, Effect, type Option } from "effect"
import * as Audited from "../../http/access/Audited.js"
import * as QueueView from "../../http/admin/QueueView.js"
import { ThroughputCache } from "../../http/admin/ThroughputCache.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { mostWorkers } from "../../queue/settings/QueuePatch.js"
import { type QueueSettingsPatch, Queues } from "../../queue/settings/QueueSettings.js"
import * as CommonOptions from "../CommonOptions.js"
import { UsageError } from "../Failure.js"
import * as Operator from "../Operator.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Settings from "../Settings.js"
import { printable, table } from "../Terminal.js"

export const queue = Args.text({ name: "queue" }).pipe(Args.withDescription("The queue's name."))

/** Options of commands that change one queue. */
export const options = {
  queue: queue,
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

/** Changes the queue's settings and prints `message`, or the queue as JSON. */
export const change = (given: Given, patch: QueueSettingsPatch, message: string) =>
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
    if (!given.json) return yield* Console.log(message)
    const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
    const counted = counts.find(({ queue }) => queue === given.queue)
    const lately = yield* Effect.flatMap(ThroughputCache, (cache) => cache.sums)
    yield* Console.log(JSON.stringify(QueueView.of(given.queue, counted, after, lately?.of(given.queue)), null, 2))
  }).pipe(
    Effect.provide(ThroughputCache.layer),
    Effect.provide(QueueLayer.layerForCommand),
    Settings.configured(CommonOptions.databaseFlags(given))
  )

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

export const list = Command.make("list", { ...CommonOptions.database, json: CommonOptions.json }, (given) =>
  Effect.gen(function* () {
    const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
    const settings = yield* Effect.flatMap(Queues, (queues) => queues.all)
    const lately = yield* Effect.flatMap(ThroughputCache, (cache) => cache.sums)
    const queues = QueueView.ofAll(counts, settings, lately?.of)
    if (given.json) return yield* Console.log(JSON.stringify({ queues }, null, 2))
    if (queues.length === 0)
      return yield* Console.log("No queues yet. `nightshift serve` declares them when it starts.")
    yield* Console.log(table(heading, queues.map(rowOf)))
  }).pipe(
    Effect.provide(ThroughputCache.layer),
    Effect.provide(QueueLayer.layerForCommand),
    Settings.configured(CommonOptions.databaseFlags(given))
  )
).pipe(Command.withDescription("List queues with their counts and settings."))

const pause = Command.make("pause", options, (given) =>
  change(given, { paused: true }, `paused ${given.queue}: no new jobs start; running jobs finish`)
).pipe(Command.withDescription("Pause a queue: none of its jobs start until you resume it."))

const resume = Command.make("resume", options, (given) =>
  change(given, { paused: false, throttledUntil: null }, `resumed ${given.queue}`)
).pipe(Command.withDescription("Resume a paused queue and end its cool-down."))

const workers = Args.integer({ name: "workers" }).pipe(
  Args.withDescription("Maximum number of jobs of the queue that the cluster runs at a time.")
)

const scale = Command.make("scale", { ...options, workers }, (given) =>
  Effect.gen(function* () {
    const { queue, workers } = given
    if (workers < 0 || workers > mostWorkers) {
      return yield* new UsageError({ message: `<workers> must be from 0 to ${mostWorkers}, got ${workers}.` })
    }
    yield* change(given, { maxWorkers: workers }, `scaled ${queue} to ${workers} workers`)
  })
).pipe(Command.withDescription("Set how many jobs of a queue the cluster runs at a time."))

export const command = Command.make("queues").pipe(
  Command.withDescription("List, pause, resume and scale queues."),
  Command.withSubcommands([list, pause, resume, scale])
)
