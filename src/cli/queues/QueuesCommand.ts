import { Console, Effect, Option } from "effect"
import * as Count from "../../core/Count.js"
import { span } from "../../core/SpanText.js"
import { suggestion } from "../../core/Spelling.js"
import { isPlainName, plainNameRule } from "../../core/Storable.js"
import * as Audited from "../../http/access/Audited.js"
import * as QueueView from "../../http/admin/QueueView.js"
import { ThroughputCache } from "../../http/admin/ThroughputCache.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { maxQueueWorkers } from "../../queue/settings/QueuePatch.js"
import { type QueueSettingsPatch, Queues } from "../../queue/settings/QueueSettings.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import * as QueueCommand from "../QueueCommand.js"
import { printable, printJson, printText, table } from "../Terminal.js"

const queue = Input.required(
  { ...Input.parsed(Option.liftPredicate(isPlainName), plainNameRule), subject: "A queue's name" },
  "The queue's name."
)

interface Given {
  readonly queue: string
  readonly reason: string | undefined
  readonly json: boolean
}

/** Changes the queue's settings in the name of the operator, and records it in the audit log. */
export const changed = (queue: string, patch: QueueSettingsPatch, reason: string | undefined) =>
  Effect.gen(function* () {
    const queues = yield* Queues
    const audited = yield* Audited.make
    return yield* queues.change(queue, patch).pipe(
      audited("queue.change", queue, ({ after, before }) => ({
        before: QueueView.settingsOf(before),
        after: QueueView.settingsOf(after)
      })),
      Operator.acting(reason)
    )
  })

/** Changes the queue's settings and prints `message`, or the queue as JSON. */
const change = (given: Given, patch: QueueSettingsPatch, message: string) =>
  Effect.gen(function* () {
    const { after } = yield* changed(given.queue, patch, given.reason)
    if (!given.json) return yield* Console.log(message)
    const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
    const counted = counts.find(({ queue }) => queue === given.queue)
    const lately = yield* Effect.flatMap(ThroughputCache, (cache) => cache.sums)
    yield* printJson(QueueView.of(given.queue, counted, after, lately?.of(given.queue)))
  }).pipe(Effect.provide(ThroughputCache.layer))

const stateOf = ({ declared, paused, throttledUntil }: QueueView.QueueView): string => {
  if (paused) return "paused"
  if (throttledUntil !== null) return `cooling down until ${throttledUntil}`
  return declared ? "open" : "undeclared"
}

const rowOf = (queue: QueueView.QueueView) => [
  printable(queue.name),
  stateOf(queue),
  String(queue.maxWorkers),
  Count.text(queue.counts.pending),
  Count.text(queue.counts.running),
  Count.text(queue.counts.scheduled),
  Count.text(queue.counts.retrying),
  Count.text(queue.counts.done),
  Count.text(queue.counts.dead),
  Count.text(queue.counts.cancelled),
  queue.oldestDueAgeSeconds === null ? "-" : span(queue.oldestDueAgeSeconds),
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

const list = QueueCommand.make({
  about: "List queues with their counts and settings.",
  examples: { "nightshift queues list": "list queues with counts and settings" },
  run: ({ json }) =>
    Effect.gen(function* () {
      const counts = yield* Effect.flatMap(JobSearch, (search) => search.counts)
      const settings = yield* Effect.flatMap(Queues, (queues) => queues.all)
      const lately = yield* Effect.flatMap(ThroughputCache, (cache) => cache.sums)
      const queues = QueueView.ofAll(counts, settings, lately?.of)
      if (json) return yield* printJson({ queues })
      if (queues.length === 0)
        return yield* Console.log("No queues yet. `nightshift serve` declares them when it starts.")
      yield* printText(table(heading, queues.map(rowOf)))
    }).pipe(Effect.provide(ThroughputCache.layer))
})

const pause = QueueCommand.make({
  about: "Pause a queue: none of its jobs start until you resume it.",
  args: { queue },
  options: { reason: Operator.reason },
  examples: { "nightshift queues pause mail": "start no more jobs of this queue" },
  run: (given) =>
    Effect.gen(function* () {
      const names = (yield* Effect.flatMap(Queues, (queues) => queues.all)).map(({ name }) => name)
      const unserved = names.includes(given.queue)
        ? ""
        : `. No process has served this queue yet.${suggestion(given.queue, names)}`
      yield* change(given, { paused: true }, `paused ${given.queue}: no new jobs start; running jobs finish${unserved}`)
    })
})

const resume = QueueCommand.make({
  about: "Resume a paused queue and end its cool-down.",
  args: { queue },
  options: { reason: Operator.reason },
  examples: { "nightshift queues resume mail": "start jobs again" },
  run: (given) => change(given, { paused: false, throttledUntil: null }, `resumed ${given.queue}`)
})

const scale = QueueCommand.make({
  about: "Set how many jobs of a queue the cluster runs at a time.",
  args: {
    queue,
    workers: Input.required(
      Input.integer({ min: 0, max: maxQueueWorkers }),
      "Maximum number of jobs of the queue that the cluster runs at a time."
    )
  },
  options: { reason: Operator.reason },
  examples: { "nightshift queues scale mail 40": "run up to 40 jobs at a time in the cluster" },
  run: (given) => change(given, { maxWorkers: given.workers }, `scaled ${given.queue} to ${given.workers} workers`)
})

export const command = Command.group("List, pause, resume and scale queues.", { list, pause, resume, scale })
