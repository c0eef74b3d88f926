import { Duration } from "effect"
import type { QueueField, QueueSettings } from "./QueueSettings.js"

/** A queue's row: its settings and its runtime state. Times are epoch milliseconds. */
export interface QueueRow extends Omit<QueueSettings, "throttledUntil" | "throttleAttempts"> {
  readonly throttledUntil: number | undefined
  readonly throttleAttempts: number
  /** When a job first succeeded after the last cool-down. */
  readonly calmSince: number | undefined
  /** Until when at least one key is cooling down. */
  readonly keysCoolingUntil: number | undefined
  /** Tokens of the rate limit's bucket and when they were counted; undefined while it is full. */
  readonly bucket: { readonly tokens: number; readonly filledAt: number } | undefined
  /** The last value that a worker declared, as text, by field. */
  readonly declared: Readonly<Partial<Record<QueueField, string>>>
}

/** Defaults of a queue without a row. */
export const fresh = (name: string): QueueRow => ({
  name,
  maxWorkers: 10,
  paused: false,
  retainDone: undefined,
  retainDead: undefined,
  backoff: { enabled: false, base: Duration.seconds(60), max: Duration.minutes(30) },
  rate: undefined,
  perKey: undefined,
  depthCap: undefined,
  throttledUntil: undefined,
  throttleAttempts: 0,
  calmSince: undefined,
  keysCoolingUntil: undefined,
  bucket: undefined,
  declared: {},
  revision: 1
})

/** A copy of a row with the layout of all others, like that of a job's row (see JobRowMemory). */
export const uniform = (row: QueueRow): QueueRow => ({
  name: row.name,
  maxWorkers: row.maxWorkers,
  paused: row.paused,
  retainDone: row.retainDone,
  retainDead: row.retainDead,
  backoff: row.backoff,
  rate: row.rate,
  perKey: row.perKey,
  depthCap: row.depthCap,
  throttledUntil: row.throttledUntil,
  throttleAttempts: row.throttleAttempts,
  calmSince: row.calmSince,
  keysCoolingUntil: row.keysCoolingUntil,
  bucket: row.bucket,
  declared: row.declared,
  revision: row.revision
})

/** After a calm period this long, in milliseconds, the count of cool-downs resets. */
export const coolDownResetAfter = Duration.toMillis("120 seconds")

/** Number of successive cool-downs without a delay from the upstream, after the reset. */
export const attemptsAt = ({ calmSince, throttleAttempts }: QueueRow, now: number): number =>
  calmSince !== undefined && now - calmSince >= coolDownResetAfter ? 0 : throttleAttempts

/** Converts a row to the public settings. Expired cool-downs are omitted. */
export const toSettings = (row: QueueRow, now: number): QueueSettings => {
  const { bucket: _, calmSince: __, declared: ___, keysCoolingUntil: ____, ...settings } = row
  return {
    ...settings,
    throttledUntil: row.throttledUntil !== undefined && row.throttledUntil > now ? row.throttledUntil : undefined,
    throttleAttempts: attemptsAt(row, now)
  }
}

/** Which claim statement the queue needs. */
export const formOf = (
  row: QueueRow | undefined,
  now: number
): { readonly keyed: boolean; readonly rated: boolean } => ({
  keyed: row !== undefined && (row.perKey !== undefined || (row.keysCoolingUntil ?? 0) > now),
  rated: row?.rate !== undefined
})

/** Tokens in the rate limit's bucket at a time. A clock that is set back adds none. */
export const tokensAt = ({ bucket, rate }: QueueRow, now: number): number => {
  if (rate === undefined) return Number.POSITIVE_INFINITY
  if (bucket === undefined) return rate.jobs
  const elapsed = Math.max(0, now - bucket.filledAt)
  return Math.min(rate.jobs, bucket.tokens + (elapsed * rate.jobs) / Duration.toMillis(rate.per))
}

/** Rounds down to whole tokens, with a tolerance for rounding errors. */
export const whole = (tokens: number): number => Math.floor(tokens + 1e-6)

/** Returns when the row allows the next claim; undefined while the queue is paused. */
export const opensAt = (row: QueueRow | undefined, now: number): number | undefined => {
  if (row === undefined) return now
  if (row.paused) return undefined
  const lacking = 1 - tokensAt(row, now)
  const filled =
    row.rate === undefined || lacking <= 1e-6 ? now : now + (lacking * Duration.toMillis(row.rate.per)) / row.rate.jobs
  return Math.max(now, Math.ceil(filled), row.throttledUntil ?? 0)
}
