import { Duration } from "effect"
import type { JobRow } from "../../../queue/JobRowMemory.js"
import type { Change, History } from "../History.js"
import type { Finding, Invariant } from "../Invariant.js"

const isClaim = ({ call, after, before }: Change) =>
  call?.call === "Queue.claim" && before !== undefined && after?.status === "running"

/** A rule for rows that are claimed. */
const atClaim =
  (rule: (row: JobRow, change: Change, history: History) => string | undefined) => (change: Change, history: History) =>
    isClaim(change) && change.before !== undefined ? rule(change.before, change, history) : undefined

const seconds = (millis: number) => `${(millis / 1000).toFixed(3)} s`

/** 6 */
export const notEarly: Invariant = {
  name: "not early",
  promise: "a job is not begun before its time",
  onChange: atClaim(({ id, runAt }, { call }, history) => {
    const early = runAt - (call?.local ?? runAt)
    return early > 0 ? `${call?.who} claimed ${history.nameOf(id)} ${seconds(early)} before its time` : undefined
  })
}

/** 9 */
export const pauseHolds: Invariant = {
  name: "pause",
  promise: "nothing is claimed from a queue after its pause was answered",
  onChange: atClaim(({ id, queue }, { call }, history) =>
    history.settings.get(queue)?.paused === true
      ? `${call?.who} claimed ${history.nameOf(id)} from queue "${queue}", which is paused`
      : undefined
  )
}

export const cancelHolds: Invariant = {
  name: "cancel",
  promise: "a job is not begun anew after its cancel was answered",
  onChange: atClaim(({ id }, { call }, history) =>
    history.cancelled.has(id) ? `${call?.who} claimed ${history.nameOf(id)}, which was cancelled` : undefined
  )
}

const ofKey = (history: History, { id, key, queue }: JobRow): ReadonlyArray<JobRow> =>
  key === undefined
    ? []
    : [...history.rows.values()].filter((row) => row.queue === queue && row.key === key && row.id !== id)

/** 8 */
export const keyLimit: Invariant = {
  name: "key limit",
  promise: "no more jobs of a key run at a time than its queue allows",
  onChange: atClaim((row, _, history) => {
    const most = history.settings.get(row.queue)?.perKey?.concurrency
    const running = ofKey(history, row).filter(({ status }) => status === "running")
    return most !== undefined && running.length >= most
      ? `${history.nameOf(row.id)} was claimed while ${running.map(({ id }) => history.nameOf(id)).join(", ")} of the same key ran`
      : undefined
  })
}

const isBefore = (a: JobRow, b: JobRow) =>
  a.priority < b.priority || (a.priority === b.priority && (a.runAt < b.runAt || (a.runAt === b.runAt && a.id < b.id)))

/** 11 */
export const keyOrder: Invariant = {
  name: "key order",
  promise: "jobs of a key begin in their order, and where it is strict never past one that waits for its retry",
  onChange: atClaim((row, { call }, history) => {
    const order = history.settings.get(row.queue)?.perKey?.order ?? "none"
    if (order === "none" || row.startedAt !== undefined) return undefined
    const others = ofKey(history, row).filter(({ status }) => status === "pending")
    const begun = others.find(
      ({ startedAt, runAt }) => startedAt !== undefined && (order === "strict" || runAt <= (call?.local ?? 0))
    )
    if (begun !== undefined)
      return `${history.nameOf(row.id)} was claimed past ${history.nameOf(begun.id)} of its key, which has begun and waits`
    const earlier = others.find(
      (other) => other.startedAt === undefined && other.runAt <= (call?.local ?? 0) && isBefore(other, row)
    )
    return earlier === undefined
      ? undefined
      : `${history.nameOf(row.id)} was claimed before ${history.nameOf(earlier.id)} of its key`
  })
}

/** How far clocks of a cluster may be apart: twice what one may be off. */
export const clockSpread = 1_000

/**
 * Whether more came in some span than a bucket of this size and rate can have held. Pods go by their own clocks, which is
 * worth a little more in the whole.
 */
export const overflow = (
  instants: ReadonlyArray<number>,
  bucket: { readonly capacity: number; readonly perMilli: number }
): string | undefined => {
  for (const [first, from] of instants.entries()) {
    for (let last = first; last < instants.length; last += 1) {
      const span = (instants[last] ?? from) - from
      const most = bucket.capacity + bucket.perMilli * (span + clockSpread) + 1e-6
      if (last - first + 1 > most)
        return `${last - first + 1} in ${seconds(span)}, where ${Math.floor(most)} are allowed`
    }
  }
  return undefined
}

/** 8. A bucket that is measured by a clock is full once more when that clock jumps. */
export const rateLimit: Invariant = {
  name: "rate limit",
  promise: "no more jobs of a queue begin in a time than its rate allows",
  atEnd: ({ claims, clockSteps, settings }) =>
    [...settings].flatMap(([queue, { rate }]): ReadonlyArray<Finding> => {
      if (rate === undefined) return []
      const instants = claims.filter((claim) => claim.queue === queue).map(({ at }) => at)
      const bucket = { capacity: rate.jobs * (1 + clockSteps), perMilli: rate.jobs / Duration.toMillis(rate.per) }
      const found = overflow(instants, bucket)
      return found === undefined ? [] : [{ found: `queue "${queue}" was claimed from ${found}` }]
    })
}
