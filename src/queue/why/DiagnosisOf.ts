import type { StoredJob } from "../../core/StoredJob.js"
import { attemptsAt, formOf, opensAt, type QueueRow } from "../settings/QueueRow.js"
import { mostAhead, type Standing } from "./JobDiagnosis.js"
import type { KeyHold } from "./KeyHold.js"

export interface Neighbours {
  readonly coolingUntil?: number | undefined
  readonly held?: KeyHold | undefined
  readonly ahead?: number
}

const later = (instant: number | undefined, now: number): number | undefined =>
  instant !== undefined && instant > now ? instant : undefined

/** Derives a job's standing from its queue's row and the other jobs. Expired cool-downs are ignored. */
export const diagnosisOf = (
  job: StoredJob,
  row: QueueRow,
  now: number,
  { ahead = 0, coolingUntil, held }: Neighbours = {}
): Standing => {
  const until = later(row.throttledUntil, now)
  // Only the rate: pauses and cool-downs are reported separately.
  const opens = later(opensAt({ ...row, paused: false, throttledUntil: undefined }, now), now)
  return {
    job,
    now,
    paused: row.paused,
    maxWorkers: row.maxWorkers,
    cooling: until === undefined ? undefined : { until, times: attemptsAt(row, now) },
    keyCoolingUntil: later(coolingUntil, now),
    rated: row.rate === undefined || opens === undefined ? undefined : { rate: row.rate, opensAt: opens },
    held,
    ahead: { count: Math.min(ahead, mostAhead), exact: ahead <= mostAhead },
    keyed: formOf(row, now).keyed
  }
}
