import * as Command from "@effect/cli/Command"
import * as Options from "@effect/cli/Options"
import { Clock, Console, Effect, Option } from "effect"
import { pageLimits } from "../../http/Contract.js"
import * as JobView from "../../http/jobs/JobView.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import * as CommonOptions from "../CommonOptions.js"
import * as QueueLayer from "../QueueLayer.js"
import * as Running from "../Running.js"
import { UsageError } from "../UsageError.js"
import * as JobFilterOptions from "./JobFilterOptions.js"
import * as JobTable from "./JobTable.js"

const options = {
  ...CommonOptions.database,
  ...JobFilterOptions.options,
  limit: Options.integer("limit").pipe(
    Options.withDescription(`Maximum number of jobs, up to ${pageLimits.most} (default ${pageLimits.usual}).`),
    Options.withDefault<number>(pageLimits.usual)
  ),
  cursor: Options.text("cursor").pipe(
    Options.withDescription("Cursor returned by the previous page."),
    Options.optional
  ),
  json: CommonOptions.json
}

export const command = Command.make("list", options, (given) =>
  Effect.gen(function* () {
    if (given.limit < 1 || given.limit > pageLimits.most) {
      return yield* new UsageError({ message: `--limit must be between 1 and ${pageLimits.most}, got ${given.limit}.` })
    }
    const filter = JobFilterOptions.filterOf(given)
    const place = { limit: given.limit, cursor: Option.getOrUndefined(given.cursor) }
    yield* Effect.gen(function* () {
      const search = yield* JobSearch
      const { jobs, next } = yield* search.list(filter, place)
      if (given.json)
        return yield* Console.log(JSON.stringify({ jobs: jobs.map(JobView.of), next: next ?? null }, null, 2))
      if (jobs.length === 0) return yield* Console.log("No jobs match this filter.")
      const now = yield* Clock.currentTimeMillis
      yield* Console.log(JobTable.render(jobs, now))
      if (next !== undefined) yield* Console.log(`\nMore: add --cursor ${next}`)
    }).pipe(Effect.provide(QueueLayer.layerForCommand))
  }).pipe(Running.configured(CommonOptions.databaseFlags(given)))
).pipe(Command.withDescription("List jobs, newest first."))
