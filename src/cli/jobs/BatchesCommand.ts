import * as Args from "@effect/cli/Args"
import * as Command from "@effect/cli/Command"
import * as HelpDoc from "@effect/cli/HelpDoc"
import * as Options from "@effect/cli/Options"
import { Clock, Console, Effect, Option, Schema } from "effect"
import { BatchId } from "../../core/Ids.js"
import { viewOf } from "../../http/jobs/BatchesRoutes.js"
import { type Batch, Batches } from "../../queue/batch/Batches.js"
import * as CommonOptions from "../CommonOptions.js"
import { UsageError } from "../Failure.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Settings from "../Settings.js"
import { age, printable, table } from "../Terminal.js"

const mostListed = 100

const readId = Schema.decode(BatchId)

const id = Args.text({ name: "id" }).pipe(
  Args.withDescription("The batch's id."),
  Args.mapEffect((text) =>
    Effect.mapError(readId(text.toLowerCase()), () =>
      HelpDoc.p(`A batch id must be a UUID, got ${JSON.stringify(text)}.`)
    )
  )
)

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

export const list = Command.make(
  "list",
  {
    ...CommonOptions.database,
    limit: Options.integer("limit").pipe(
      Options.withDescription(`Maximum number of batches, up to ${mostListed} (default 20).`),
      Options.withDefault<number>(20)
    ),
    cursor: Options.text("cursor").pipe(
      Options.withDescription("Cursor returned by the previous page."),
      Options.optional
    ),
    json: CommonOptions.json
  },
  (given) =>
    Effect.gen(function* () {
      if (given.limit < 1 || given.limit > mostListed) {
        return yield* new UsageError({ message: `--limit must be between 1 and ${mostListed}, got ${given.limit}.` })
      }
      yield* Effect.gen(function* () {
        const { list } = yield* Batches
        const { batches, next } = yield* list({ limit: given.limit, cursor: Option.getOrUndefined(given.cursor) })
        if (given.json) {
          return yield* Console.log(JSON.stringify({ batches: batches.map(viewOf), next: next ?? null }, null, 2))
        }
        if (batches.length === 0) return yield* Console.log("No batches.")
        const now = yield* Clock.currentTimeMillis
        yield* Console.log(
          table(
            heading,
            batches.map((batch) => rowOf(batch, now))
          )
        )
        if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
      }).pipe(Effect.provide(QueueLayer.layerForCommand))
    }).pipe(Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List batches and the progress of their jobs, newest first."))

const details = (batch: Batch, now: number): string => {
  const { cancelled, dead, deleted, done, unfinished } = batch.counts
  const followUp =
    batch.followUp === undefined
      ? "none"
      : `${printable(batch.followUp.kind)} ${batch.followUpId ?? "once all jobs have ended"}`
  const facts: ReadonlyArray<readonly [string, string]> = [
    ["id", batch.id],
    ...(batch.name === undefined ? [] : [["name", printable(batch.name)] as const]),
    ["created", age(batch.createdAt, now)],
    ["closed", batch.closedAt === undefined ? "not yet" : age(batch.closedAt, now)],
    [
      "jobs",
      `${batch.total}: ${unfinished} unfinished, ${done} done, ${dead} dead, ${cancelled} cancelled, ${deleted} deleted`
    ],
    ["follow-up", followUp]
  ]
  return facts.map(([name, value]) => `${name.padEnd(14)} ${value}`).join("\n")
}

export const show = Command.make("show", { id, ...CommonOptions.database, json: CommonOptions.json }, (given) =>
  Effect.gen(function* () {
    const { get } = yield* Batches
    const batch = yield* get(given.id)
    const now = yield* Clock.currentTimeMillis
    yield* Console.log(given.json ? JSON.stringify(viewOf(batch), null, 2) : details(batch, now))
  }).pipe(Effect.provide(QueueLayer.layerForCommand), Settings.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("Show a batch and the progress of its jobs."))

export const command = Command.make("batches").pipe(
  Command.withDescription("List and inspect batches of jobs."),
  Command.withSubcommands([list, show])
)
