import { Either, Schema } from "effect"
import * as CronDescription from "../../schedule/CronDescription.js"
import { Missed, mostMissed, Overlap } from "../../schedule/Policies.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import { Moment } from "../Contract.js"
import * as Instant from "../Instant.js"

/** Missed runs on the wire. */
export const MissedWire = Missed.annotations({
  description: `What happens to runs whose time passed while nobody could fire them: one for all of them, none, or each up to a limit of at most ${mostMissed}.`
})

/** A schedule as programs outside see it. Every field is always there; null where there is nothing. */
export const ScheduleView = Schema.Struct({
  name: Schema.String,
  kind: Schema.String,
  payload: Schema.Unknown,
  cron: Schema.String,
  timezone: Schema.String,
  words: Schema.NullOr(Schema.String).annotations({
    description: "The expression in English, as in `at 09:30 on weekdays, Europe/Berlin`; null where it cannot be read."
  }),
  overlap: Overlap,
  missed: MissedWire,
  enabled: Schema.Boolean,
  queue: Schema.NullOr(Schema.String).annotations({ description: "Null: the kind's." }),
  maxAttempts: Schema.NullOr(Schema.Int).annotations({ description: "Null: the kind's." }),
  lastFireAt: Schema.NullOr(Moment),
  nextFireAt: Schema.NullOr(Moment).annotations({ description: "Null while it is disabled." }),
  lastSkipAt: Schema.NullOr(Moment).annotations({
    description: "The last tick that was passed over because the job before was not over."
  }),
  lastError: Schema.NullOr(Schema.String).annotations({ description: "Why it was switched off, if it cannot fire." }),
  lastJobId: Schema.NullOr(Schema.String),
  origin: Schema.Literal("code", "operator"),
  edited: Schema.Array(Schema.String).annotations({
    description: "What an operator has changed since code declared it; code leaves that alone."
  }),
  createdAt: Moment,
  updatedAt: Moment
}).annotations({ identifier: "Schedule" })
export type ScheduleView = typeof ScheduleView.Type

const moment = (millis: number | undefined) => (millis === undefined ? null : Instant.format(millis))

/** An expression as a person would say it; null where it cannot be. */
export const wordsOf = (cron: string, timezone: string): string | null =>
  Either.getOrElse(CronDescription.of(cron, timezone), () => null)

/** What is shown of a stored schedule. */
export const of = (schedule: StoredSchedule): ScheduleView => ({
  name: schedule.name,
  kind: schedule.kind,
  payload: schedule.payload,
  cron: schedule.cron,
  timezone: schedule.timezone,
  words: wordsOf(schedule.cron, schedule.timezone),
  overlap: schedule.overlap,
  missed: schedule.missed,
  enabled: schedule.enabled,
  queue: schedule.queue ?? null,
  maxAttempts: schedule.maxAttempts ?? null,
  lastFireAt: moment(schedule.lastFireAt),
  nextFireAt: schedule.enabled ? moment(schedule.nextFireAt) : null,
  lastSkipAt: moment(schedule.lastSkipAt),
  lastError: schedule.lastError ?? null,
  lastJobId: schedule.lastJobId ?? null,
  origin: schedule.origin,
  edited: schedule.edited,
  createdAt: Instant.format(schedule.createdAt),
  updatedAt: Instant.format(schedule.updatedAt)
})
