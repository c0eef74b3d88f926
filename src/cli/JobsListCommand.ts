import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Clock, Console, Effect, Option } from "effect"
import { State, type StoredJob } from "../core/Job.js"
import { pageLimits } from "../http/Contract.js"
import * as JobView from "../http/JobView.js"
import { JobSearch } from "../queue/JobSearch.js"
import * as Age from "./Age.js"
import * as CommonOptions from "./CommonOptions.js"
import { Misused } from "./Misused.js"
import * as QueueLayer from "./QueueLayer.js"
import * as Running from "./Running.js"
import * as Table from "./Table.js"
import { printable } from "./Terminal.js"

const optionalText = (name: string, about: string) =>
  Options.text(name).pipe(Options.withDescription(about), Options.optional)

const options = {
  ...CommonOptions.database,
  queue: optionalText("queue", "Only of this queue."),
  kind: optionalText("kind", "Only of this kind."),
  state: Options.choice("state", State.literals).pipe(Options.withDescription("Only in this state."), Options.optional),
  limit: Options.integer("limit").pipe(
    Options.withDescription(`How many at most, up to ${pageLimits.most} (default ${pageLimits.usual}).`),
    Options.withDefault<number>(pageLimits.usual)
  ),
  cursor: optionalText("cursor", "Where the page before ended."),
  json: CommonOptions.json
}

const rowOf = (now: number) => (job: StoredJob) => [
  job.id,
  job.state,
  printable(job.kind),
  job.queue,
  `${job.attempt}/${job.maxAttempts}`,
  Age.describe(job.createdAt, now),
  job.status === "pending" ? Age.describe(job.runAt, now) : "-"
]

/** `nightshift jobs list` */
export const command = Command.make("list", options, (given) =>
  Effect.gen(function* () {
    if (given.limit < 1 || given.limit > pageLimits.most) {
      return yield* new Misused({ message: `--limit must be from 1 to ${pageLimits.most}, not ${given.limit}.` })
    }
    const filter = {
      queue: Option.getOrUndefined(given.queue),
      kind: Option.getOrUndefined(given.kind),
      state: Option.getOrUndefined(given.state)
    }
    const place = { limit: given.limit, cursor: Option.getOrUndefined(given.cursor) }
    yield* Effect.gen(function* () {
      const search = yield* JobSearch
      const { jobs, next } = yield* search.list(filter, place)
      if (given.json)
        return yield* Console.log(JSON.stringify({ jobs: jobs.map(JobView.of), next: next ?? null }, null, 2))
      if (jobs.length === 0) return yield* Console.log("There are no such jobs.")
      const now = yield* Clock.currentTimeMillis
      yield* Console.log(
        Table.render(["ID", "STATE", "KIND", "QUEUE", "ATTEMPT", "CREATED", "DUE"], jobs.map(rowOf(now)))
      )
      if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
    }).pipe(Effect.provide(QueueLayer.layerForCommand))
  }).pipe(Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List jobs, newest first."))
