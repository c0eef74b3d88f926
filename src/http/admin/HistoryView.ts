import { Effect, Schema } from "effect"
import { State } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { type JobGlimpse, JobOverview } from "../../queue/search/JobOverview.js"
import type { ScheduleNotFound } from "../../schedule/ScheduleErrors.js"
import { Schedules } from "../../schedule/Schedules.js"
import { TickOutcome } from "../../schedule/TickOutcome.js"
import { Moment } from "../Contract.js"
import * as Instant from "../Instant.js"

const Run = Schema.Struct({
  outcome: Schema.Literal("fired", "caughtUp", "triggered", "skipped", "missed").annotations({
    description:
      "`fired` at its time; `caughtUp`: fired long after it; `triggered` by somebody; `skipped`: the job before was not over; `missed`: nobody could fire, and it is not made up for."
  }),
  at: Moment.annotations({ description: "The tick, the last of several, or when somebody wanted a job." }),
  since: Moment.annotations({ description: "The first of several ticks that were skipped or missed in a row." }),
  jobId: Schema.NullOr(Schema.String),
  jobState: Schema.NullOr(State).annotations({ description: "Null where there was no job, or it is gone by now." }),
  by: Schema.NullOr(Schema.String).annotations({ description: "Who triggered it, as in the audit." })
}).annotations({ identifier: "ScheduleRun" })
export type RunView = typeof Run.Type

/** What a schedule did lately. Every field is always there; null where there is nothing. */
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
  (jobs: ReadonlyMap<string, JobGlimpse>) =>
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

/** What a schedule did lately, with how its jobs stand now. */
export const read = (
  name: string
): Effect.Effect<HistoryView, ScheduleNotFound | DatabaseError, Schedules | JobOverview> =>
  Effect.gen(function* () {
    const schedules = yield* Schedules
    const overview = yield* JobOverview
    const { timezone } = yield* schedules.get(name)
    const history = yield* schedules.history(name)
    const ids = history.flatMap((outcome) => ("job" in outcome ? [outcome.job] : []))
    const found = ids.length === 0 ? [] : yield* overview.glimpses(ids)
    const jobs = new Map(found.map((glimpse): [string, JobGlimpse] => [glimpse.id, glimpse]))
    return { name, timezone, runs: history.map(runOf(jobs)) }
  })
