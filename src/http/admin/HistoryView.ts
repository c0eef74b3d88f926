import { Effect, Schema } from "effect"
import { State } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { JobOverview, type ListedJob } from "../../queue/search/JobOverview.js"
import type { ScheduleNotFound } from "../../schedule/ScheduleErrors.js"
import { Schedules } from "../../schedule/Schedules.js"
import { TickOutcome } from "../../schedule/TickOutcome.js"
import * as Instant from "../Instant.js"

const Run = Schema.Struct({
  outcome: Schema.Literal("fired", "caughtUp", "triggered", "skipped", "missed").annotations({
    description:
      "`fired`: on time; `caughtUp`: fired late, after an outage; `triggered`: by an operator; `skipped`: the previous job was still active; `missed`: no leader could fire it, and the schedule does not catch up on it."
  }),
  at: Instant.Moment.annotations({ description: "Time of the tick, of the last of several ticks, or of the trigger." }),
  since: Instant.Moment.annotations({ description: "First of several consecutive ticks that were skipped or missed." }),
  jobId: Schema.NullOr(Schema.String),
  jobState: Schema.NullOr(State).annotations({ description: "Null if there was no job or it has been deleted." }),
  by: Schema.NullOr(Schema.String).annotations({ description: "Who triggered the run, as named in the audit log." })
}).annotations({ identifier: "ScheduleRun" })
export type RunView = typeof Run.Type

/** Recent runs of a schedule. Every field is present; null if it has no value. */
export const HistoryView = Schema.Struct({
  name: Schema.String,
  timezone: Schema.String,
  runs: Schema.Array(Run).annotations({ description: "Newest first." })
}).annotations({ identifier: "ScheduleHistory" })
export type HistoryView = typeof HistoryView.Type

const nameOf = TickOutcome.$match({
  Fired: () => "fired" as const,
  CaughtUp: () => "caughtUp" as const,
  Triggered: () => "triggered" as const,
  Skipped: () => "skipped" as const,
  Missed: () => "missed" as const
})

const runOf =
  (jobs: ReadonlyMap<string, ListedJob>) =>
  (outcome: TickOutcome): RunView => {
    const job = "job" in outcome ? outcome.job : undefined
    return {
      outcome: nameOf(outcome),
      at: Instant.format(outcome.at),
      since: Instant.format("since" in outcome ? outcome.since : outcome.at),
      jobId: job ?? null,
      jobState: job === undefined ? null : (jobs.get(job)?.state ?? null),
      by: "by" in outcome ? outcome.by : null
    }
  }

/** Reads a schedule's recent runs with the current states of their jobs. */
export const read = (
  name: string
): Effect.Effect<HistoryView, ScheduleNotFound | DatabaseError, Schedules | JobOverview> =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const overview = yield* JobOverview
    const { timezone } = yield* schedules.get(name)
    const history = yield* schedules.history(name)
    const ids = history.flatMap((outcome) => ("job" in outcome ? [outcome.job] : []))
    const found = ids.length === 0 ? [] : yield* overview.listed(ids)
    const jobs = new Map(found.map((job): [string, ListedJob] => [job.id, job]))
    return { name, timezone, runs: history.map(runOf(jobs)) }
  })
