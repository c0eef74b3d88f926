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

/** How many cool-downs have followed each other, as it counts at this instant. */
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
