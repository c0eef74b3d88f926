import { Duration } from "effect"
import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { History } from "../History.js"
import { type Change, isClaim } from "../HistoryEntry.js"
import type { Finding, Invariant } from "../Invariant.js"

/** Applies a rule to every claimed row. */
const atClaim =
  (rule: (row: JobRow, change: Change, history: History) => string | undefined) =>
  (change: Change, history: History) => {
    const row = change.before ?? change.after
    return isClaim(change) && row !== undefined ? rule(row, change, history) : undefined
  }

const seconds = (millis: number) => `${(millis / 1000).toFixed(3)} s`

export const notEarly: Invariant = {
  name: "not early",
  promise: "no job is claimed before it is due, except an execution that was left to the release of the pod",
  onChange: atClaim(({ id, runAt }, { call }, history) => {
    if (history.parked.has(id)) return undefined
    const early = runAt - (call?.local ?? runAt)
    return early > 0 ? `${call?.who} claimed ${history.nameOf(id)} ${seconds(early)} before it was due` : undefined
  })
}

export const pauseHolds: Invariant = {
  name: "pause",
  promise: "no job is claimed from a queue after its pause was acknowledged",
  onChange: atClaim(({ id, queue }, { call }, history) =>
    history.settings.get(queue)?.paused === true
      ? `${call?.who} claimed ${history.nameOf(id)} from queue "${queue}", which is paused`
      : undefined
  )
}

export const cancelHolds: Invariant = {
  name: "cancel",
  promise: "no job is claimed after its cancel was acknowledged, except an execution, which undoes its steps",
  onChange: atClaim(({ id, woken }, { call }, history) =>
    history.cancelled.has(id) && woken === undefined
      ? `${call?.who} claimed ${history.nameOf(id)}, which was cancelled`
      : undefined
  )
}

const ofKey = (history: History, { id, key, queue }: JobRow): ReadonlyArray<JobRow> =>
  key === undefined
    ? []
    : [...history.rows.values()].filter((row) => row.queue === queue && row.key === key && row.id !== id)

export const keyLimit: Invariant = {
  name: "key limit",
  promise: "jobs with the same key never exceed the queue's concurrency per key",
  onChange: atClaim((row, _, history) => {
    const most = history.settings.get(row.queue)?.perKey?.concurrency
    const running = ofKey(history, row).filter(({ status }) => status === "running")
    return most !== undefined && running.length >= most
      ? `${history.nameOf(row.id)} was claimed while ${running.map(({ id }) => history.nameOf(id)).join(", ")} with the same key were running`
      : undefined
  })
}

const isBefore = (a: JobRow, b: JobRow) =>
  a.priority < b.priority || (a.priority === b.priority && (a.runAt < b.runAt || (a.runAt === b.runAt && a.id < b.id)))

export const keyOrder: Invariant = {
  name: "key order",
  promise: "jobs with the same key start in order, and with strict order never before one that waits for its retry",
  onChange: atClaim((row, { call }, history) => {
    const order = history.settings.get(row.queue)?.perKey?.order ?? "none"
    if (order === "none" || row.startedAt !== undefined) return undefined
    const others = ofKey(history, row).filter(({ status }) => status === "pending")
    const begun = others.find(
      ({ startedAt, runAt }) => startedAt !== undefined && (order === "strict" || runAt <= (call?.local ?? 0))
    )
    if (begun !== undefined)
      return `${history.nameOf(row.id)} was claimed before ${history.nameOf(begun.id)} with the same key, which has started and waits for a retry`
    const earlier = others.find(
      (other) => other.startedAt === undefined && other.runAt <= (call?.local ?? 0) && isBefore(other, row)
    )
    return earlier === undefined
      ? undefined
      : `${history.nameOf(row.id)} was claimed before ${history.nameOf(earlier.id)} with the same key`
  })
}

/**
 * Maximum difference between two clocks of a cluster in milliseconds: twice the maximum skew, and what a slow clock lags
 * between two comparisons.
 */
const clockSpread = 2_000

/**
 * Describes the first interval in which more tokens were taken than the bucket allows. Adds the clock spread, because
 * each pod uses its own clock.
 */
export const overflow = (
  instants: ReadonlyArray<number>,
  bucket: { readonly capacity: number; readonly perMilli: number }
): string | undefined => {
  for (const [first, from] of instants.entries()) {
    for (let last = first; last < instants.length; last += 1) {
      const span = (instants[last] ?? from) - from
      const most = bucket.capacity + bucket.perMilli * (span + clockSpread) + 1e-6
      if (last - first + 1 > most) return `${last - first + 1} in ${seconds(span)}, limit ${Math.floor(most)}`
    }
  }
  return undefined
}

/** Each clock step may refill the bucket once. */
export const rateLimit: Invariant = {
  name: "rate limit",
  promise: "jobs of a queue never start faster than its rate limit",
  atEnd: ({ claims, clockSteps, settings }) =>
    [...settings].flatMap(([queue, { rate }]): ReadonlyArray<Finding> => {
      if (rate === undefined) return []
      const instants = claims.filter((claim) => claim.queue === queue).map(({ at }) => at)
      const bucket = { capacity: rate.jobs * (1 + clockSteps), perMilli: rate.jobs / Duration.toMillis(rate.per) }
      const found = overflow(instants, bucket)
      return found === undefined ? [] : [{ found: `claims from queue "${queue}": ${found}` }]
    })
}
