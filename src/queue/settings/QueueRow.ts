import { Duration } from "effect"
import type { QueueSettings } from "./QueueSettings.js"

/** A queue's row, whole: what operators want of it, and what it has come to since. Instants are epoch milliseconds. */
export interface QueueRow extends Omit<QueueSettings, "throttledUntil" | "throttleAttempts"> {
  readonly throttledUntil: number | undefined
  readonly throttleAttempts: number
  /** When a job was done for the first time after the last cool-down began. */
  readonly calmSince: number | undefined
  /** Some key cools down until then. */
  readonly keysCoolingUntil: number | undefined
  /** What the bucket of the rate limit held, and when; absent while it is full. */
  readonly bucket: { readonly tokens: number; readonly filledAt: number } | undefined
}

/** What a queue has that nobody has changed. */
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
  revision: 1
})

/** Cool-downs that are followed by so long a calm are forgotten. */
export const calmAfter = Duration.toMillis("120 seconds")

/** How many cool-downs by the curve have followed each other, as it counts at this instant. */
export const attemptsAt = ({ calmSince, throttleAttempts }: QueueRow, now: number): number =>
  calmSince !== undefined && now - calmSince >= calmAfter ? 0 : throttleAttempts

/** What is shown of a row. A cool-down that is over is none. */
export const toSettings = (row: QueueRow, now: number): QueueSettings => {
  const { bucket: _, calmSince: __, keysCoolingUntil: ___, ...settings } = row
  return {
    ...settings,
    throttledUntil: row.throttledUntil !== undefined && row.throttledUntil > now ? row.throttledUntil : undefined,
    throttleAttempts: attemptsAt(row, now)
  }
}

/** What a claim must look at, beside whether the queue is open. */
export const formOf = (
  row: QueueRow | undefined,
  now: number
): { readonly keyed: boolean; readonly rated: boolean } => ({
  keyed: row !== undefined && (row.perKey !== undefined || (row.keysCoolingUntil ?? 0) > now),
  rated: row?.rate !== undefined
})

/** What the bucket of the rate limit holds at an instant. A clock that went back fills nothing. */
export const tokensAt = ({ bucket, rate }: QueueRow, now: number): number => {
  if (rate === undefined) return Number.POSITIVE_INFINITY
  if (bucket === undefined) return rate.jobs
  const elapsed = Math.max(0, now - bucket.filledAt)
  return Math.min(rate.jobs, bucket.tokens + (elapsed * rate.jobs) / Duration.toMillis(rate.per))
}

/** Tokens are counted in fractions: so little too little is none. */
export const whole = (tokens: number): number => Math.floor(tokens + 1e-6)

/** When something may be claimed again, so far as the row says; nothing while the queue is paused. */
export const opensAt = (row: QueueRow | undefined, now: number): number | undefined => {
  if (row === undefined) return now
  if (row.paused) return undefined
  const lacking = 1 - tokensAt(row, now)
  const filled =
    row.rate === undefined || lacking <= 1e-6 ? now : now + (lacking * Duration.toMillis(row.rate.per)) / row.rate.jobs
  return Math.max(now, Math.ceil(filled), row.throttledUntil ?? 0)
}
