import { Clock, Console, Effect } from "effect"
import * as BatchView from "../../http/jobs/BatchView.js"
import { type Batch, Batches, maxBatchPage } from "../../queue/batch/Batches.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as QueueCommand from "../QueueCommand.js"
import { age, factList, print, printable, printJson, printText, type Shown, table } from "../Terminal.js"
import { batchId } from "./JobFilterOptions.js"

const heading = ["BATCH", "NAME", "STATE", "JOBS", "DONE", "DEAD", "CANCELLED", "CREATED"]

const rowOf = (batch: Batch, now: number) => [
  batch.id,
  printable(batch.name ?? "-"),
  batch.closedAt === undefined ? `${batch.counts.unfinished} unfinished` : "closed",
  String(batch.total),
  String(batch.counts.done),
  String(batch.counts.dead),
  String(batch.counts.cancelled),
  age(batch.createdAt, now)
]

const list = QueueCommand.make({
  about: "List batches and the progress of their jobs, newest first.",
  options: QueueCommand.page("batches", { max: maxBatchPage, default: 20 }),
  examples: { "nightshift batches list": "list batches and their progress" },
  run: (given) =>
    Effect.gen(function* () {
      const { list } = yield* Batches
      const { batches, next } = yield* list({ limit: given.limit, cursor: given.cursor })
      if (given.json) {
        return yield* printJson({ batches: batches.map(BatchView.of), next: next ?? null })
      }
      if (batches.length === 0) return yield* Console.log("No batches.")
      const now = yield* Clock.currentTimeMillis
      const rows = batches.map((batch) => rowOf(batch, now))
      yield* printText(table(heading, rows))
      if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
    })
})

const details = (batch: Batch, now: number): Shown => {
  const { cancelled, dead, deleted, done, unfinished } = batch.counts
  const followUp =
    batch.followUp === undefined ? "none" : `${batch.followUp.kind} ${batch.followUpId ?? "once all jobs have ended"}`
  return factList([
    ["id", batch.id],
    ["name", batch.name],
    ["created", age(batch.createdAt, now)],
    ["closed", batch.closedAt === undefined ? "not yet" : age(batch.closedAt, now)],
    [
      "jobs",
      `${batch.total}: ${unfinished} unfinished, ${done} done, ${dead} dead, ${cancelled} cancelled, ${deleted} deleted`
    ],
    ["follow-up", followUp]
  ])
}

const show = QueueCommand.make({
  about: "Show a batch and the progress of its jobs.",
  args: { id: Input.required(batchId, "The batch's id.") },
  examples: { "nightshift batches show <id>": "show a batch and its progress" },
  run: ({ id, json }) =>
    Effect.gen(function* () {
      const { get } = yield* Batches
      const batch = yield* get(id)
      const now = yield* Clock.currentTimeMillis
      yield* print(json, BatchView.of(batch), details(batch, now))
    })
})

export const command = Command.group("List and inspect batches of jobs.", { list, show })
