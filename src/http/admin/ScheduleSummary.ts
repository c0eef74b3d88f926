import type { StoredSchedule } from "../../schedule/StoredSchedule.js"

/** What the audit keeps of a schedule: what operators decide. */
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

/** What it keeps of a run that somebody asked for. */
export const triggered = ({ lastJobId }: StoredSchedule) => ({ job: lastJobId ?? null })
