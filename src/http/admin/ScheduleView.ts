import { Either, Schema } from "effect"
import { subjectMeta } from "../../core/Subject.js"
import * as CronDescription from "../../schedule/CronDescription.js"
import { Missed, maxMissedRuns, Overlap } from "../../schedule/Policies.js"
import type { StoredSchedule } from "../../schedule/StoredSchedule.js"
import type { Masked } from "../access/Masked.js"
import * as Instant from "../Instant.js"
import * as ResponseFields from "../ResponseFields.js"

/** Default and maximum number of upcoming runs. */
export const previewLimits = { default: 10, max: 100 } as const

/** The policy for missed runs in the API's format. */
export const MissedWire = Missed.annotations({
  description: `What to do about runs missed during an outage: fire one for all of them, none, or each up to a limit of at most ${maxMissedRuns}.`
})

/** A schedule in API responses. Every field is present; null if it has no value. */
export const ScheduleView = Schema.Struct({
  name: Schema.String,
  kind: Schema.String,
  payload: Schema.Unknown,
  cron: Schema.String,
  timezone: Schema.String,
  words: Schema.NullOr(Schema.String).annotations({
    description: "The expression in English, such as `at 09:30 on weekdays, Europe/Berlin`; null if it is invalid."
  }),
  overlap: Overlap,
  missed: MissedWire,
  paused: Schema.Boolean,
  queue: Schema.NullOr(Schema.String).annotations({ description: "Null uses the kind's." }),
  attempts: Schema.NullOr(Schema.Int).annotations({ description: "Null uses the kind's." }),
  lastFireAt: Schema.NullOr(Instant.Moment),
  nextFireAt: Schema.NullOr(Instant.Moment).annotations({ description: "Null while paused." }),
  lastSkipAt: Schema.NullOr(Instant.Moment).annotations({
    description: "The last tick that was skipped because the previous job was still active."
  }),
  lastError: Schema.NullOr(Schema.String).annotations({
    description: "Why the schedule was paused, if it cannot fire."
  }),
  lastJobId: Schema.NullOr(Schema.String),
  origin: Schema.Literal("code", "operator"),
  edited: Schema.Array(Schema.String).annotations({
    description: "Fields changed by an operator. Declarations in code no longer change them."
  }),
  createdAt: Instant.Moment,
  updatedAt: Instant.Moment
}).annotations({ identifier: "Schedule" })
export type ScheduleView = typeof ScheduleView.Type

/** Describes a cron expression in English, or null if it is invalid. */
export const wordsOf = (cron: string, timezone: string): string | null =>
  Either.getOrElse(CronDescription.of(cron, timezone), () => null)

const fieldsOf = ResponseFields.of(ScheduleView)

/** A schedule with what callers see and no row has: its expression in words. A paused schedule has no next time. */
export const described = (schedule: StoredSchedule) => ({
  ...schedule,
  /** The expression in words, such as `Every day at 06:30`. Undefined if it is invalid. */
  words: wordsOf(schedule.cron, schedule.timezone) ?? undefined,
  /** When the schedule fires next. Undefined while it is paused. */
  nextFireAt: schedule.paused ? undefined : schedule.nextFireAt
})

export const of = (schedule: StoredSchedule): ScheduleView => fieldsOf(described(schedule))

/** A schedule as stored in the audit log: the fields that operators set. */
export const summaryOf = (schedule: StoredSchedule) => ({
  kind: schedule.kind,
  cron: schedule.cron,
  timezone: schedule.timezone,
  paused: schedule.paused,
  overlap: schedule.overlap,
  missed: schedule.missed,
  queue: schedule.queue ?? null,
  attempts: schedule.attempts ?? null,
  payload: schedule.payload,
  ...subjectMeta(schedule.subject)
})

/** A triggered run as stored in the audit log. */
export const triggeredSummary = ({ lastJobId }: StoredSchedule) => ({ job: lastJobId ?? null })

/** The schedule as its caller may see it. */
export const maskedBy =
  ({ view }: Masked) =>
  (schedule: StoredSchedule) =>
    view(of(schedule), (whole, { json, text }) => ({
      ...whole,
      payload: json(whole.payload),
      lastError: text(whole.lastError, whole.payload)
    }))
