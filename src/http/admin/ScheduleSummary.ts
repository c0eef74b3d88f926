import type { StoredSchedule } from "../../schedule/StoredSchedule.js"

/** A schedule as stored in the audit log: the fields that operators set. */
export const of = (schedule: StoredSchedule) => ({
  kind: schedule.kind,
  cron: schedule.cron,
  timezone: schedule.timezone,
  enabled: schedule.enabled,
  overlap: schedule.overlap,
  missed: schedule.missed,
  queue: schedule.queue ?? null,
  maxAttempts: schedule.maxAttempts ?? null,
  payload: schedule.payload
})

/** A triggered run as stored in the audit log. */
export const triggered = ({ lastJobId }: StoredSchedule) => ({ job: lastJobId ?? null })
