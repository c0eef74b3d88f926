import type { AuditEntry } from "../../access/Audit.js"
import type { StoredPod } from "../../cluster/Pods.js"
import { millisOf, shortPod } from "../../core/Ids.js"
import type { SeriesPoint } from "../../history/MinuteBuckets.js"
import type { DeadGroup } from "../../queue/search/JobOverview.js"
import * as RecentActions from "./RecentActions.js"

// What changed in a range of time, and which of it preceded a rise of failures.

export interface Change {
  /** Epoch milliseconds. */
  readonly at: number
  readonly what: "deploy" | "start" | "action" | "error"
  readonly text: string
  /** The operator, for an action. */
  readonly who: string | null
}

/** The first live process of each version is its deploy; others that started later only started. */
export const ofPods = (pods: ReadonlyArray<StoredPod>): ReadonlyArray<Change> => {
  const versions = new Map<string, number>()
  return pods
    .toSorted((a, b) => a.startedAt - b.startedAt)
    .map(({ id, label, startedAt, version }) => {
      const isFirst = !versions.has(version)
      versions.set(version, startedAt)
      const text = isFirst
        ? `version ${version} was deployed, process ${label ?? shortPod(id)}`
        : `process ${label ?? shortPod(id)} started, version ${version}`
      return { at: startedAt, what: isFirst ? "deploy" : "start", text, who: null }
    })
}

/** Processes that have stopped since. Their ids start with the time of their boot. */
export const ofStoppedPods = (
  ids: ReadonlyArray<StoredPod["id"]>,
  live: ReadonlyArray<StoredPod>
): ReadonlyArray<Change> =>
  ids
    .filter((id) => !live.some((pod) => pod.id === id))
    .map((id) => ({
      at: millisOf(id),
      what: "start",
      text: `process ${shortPod(id)} started and has since stopped`,
      who: null
    }))

/** Nouns of audited actions that change what jobs do. */
const effective = new Set(["queue", "jobs", "schedule", "limit", "workflow"])

export const ofActions = (entries: ReadonlyArray<AuditEntry>): ReadonlyArray<Change> =>
  entries
    .filter(({ act }) => effective.has(act.split(".")[0] ?? ""))
    .map((entry) => ({ at: entry.at, what: "action", text: RecentActions.textOf(entry), who: entry.who }))

const errorText = ({ kind, reason, shape }: DeadGroup) =>
  shape === "" ? `${kind} jobs (${reason.replaceAll("_", " ")})` : `${kind}: ${shape}`

export const ofErrors = (groups: ReadonlyArray<DeadGroup>): ReadonlyArray<Change> =>
  groups.map((group) => ({
    at: group.firstAt,
    what: "error",
    text: `new error: ${errorText(group)}`,
    who: null
  }))

export interface Rise {
  /** When it began, in epoch milliseconds. */
  readonly at: number
  /** Failures per minute before and in it. */
  readonly from: number
  readonly to: number
}

/** A rise has at least this many failures in a bucket, and this many times those of the buckets before. */
const least = { failures: 5, factor: 3 }

/** Buckets with which a rise is compared. */
const comparedWith = 10

export const maxRises = 5

/** The last rises of failed attempts, oldest first. A bucket that stays high is no other rise. */
export const risesOf = (points: ReadonlyArray<SeriesPoint>, width: number): ReadonlyArray<Rise> => {
  const minutes = width / 60_000
  const failures = points.map(({ dead, retried }) => dead + retried)
  const meanBefore = (place: number) => {
    const before = failures.slice(Math.max(0, place - comparedWith), place)
    return before.reduce((sum, count) => sum + count, 0) / Math.max(1, before.length)
  }
  const isHigh = (place: number) => {
    const count = failures[place] ?? 0
    return place > 0 && count >= least.failures && count >= least.factor * meanBefore(place)
  }
  return points
    .flatMap(({ at }, place) =>
      isHigh(place) && !isHigh(place - 1)
        ? [{ at, from: meanBefore(place) / minutes, to: (failures[place] ?? 0) / minutes }]
        : []
    )
    .slice(-maxRises)
}

const unitOf = (seconds: number) => {
  if (seconds < 90) return `${Math.round(seconds)} s`
  return seconds < 5_400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3_600)} h`
}

const perMinute = (count: number) => (count < 10 ? Number(count.toFixed(1)) : Math.round(count)).toLocaleString("en")

/** How long before a rise a change may be to count as a possible cause, in milliseconds. */
const suspectedWithin = 30 * 60_000

/** A job that died, and where it ran. */
export interface Death {
  readonly version: string | undefined
}

/** Share of deaths from which an error counts as the main one. */
const mainShare = 0.5

/** The error that most deaths since the rise have, in words. */
const mainError = (
  rise: Rise,
  groups: ReadonlyArray<DeadGroup>,
  deaths: (group: DeadGroup) => ReadonlyArray<Death>
): ReadonlyArray<string> => {
  const recent = groups.filter(({ lastAt }) => lastAt >= rise.at)
  const all = recent.reduce((sum, { count }) => sum + count, 0)
  const [main] = recent.toSorted((a, b) => b.count - a.count)
  if (main === undefined || main.count / all < mainShare) return []
  const isNew = main.firstAt >= rise.at ? "the same new error" : "the same error"
  const versions = new Set(deaths(main).map(({ version }) => version))
  const [only] = versions
  const where = versions.size === 1 && only !== undefined ? `, all in processes of version ${only}` : ""
  return [`${Math.round((100 * main.count) / all)}% of dead jobs have ${isNew}${where}: ${errorText(main)}`]
}

export interface Explained {
  readonly at: number
  readonly text: string
  /** What preceded it, the closest first, in words. */
  readonly preceded: ReadonlyArray<string>
}

/** Lists what preceded a rise. It begins with the first death in its bucket, which may be later than the bucket. */
export const explain = (
  rise: Rise,
  width: number,
  known: {
    readonly changes: ReadonlyArray<Change>
    readonly groups: ReadonlyArray<DeadGroup>
    readonly deaths: (group: DeadGroup) => ReadonlyArray<Death>
  }
): Explained => {
  const first = Math.min(
    ...known.groups.map(({ firstAt }) => firstAt).filter((at) => at >= rise.at && at < rise.at + width)
  )
  const at = Number.isFinite(first) ? first : rise.at
  const before = known.changes
    .filter((change) => change.what !== "error" && change.at <= at && change.at > at - suspectedWithin)
    .toSorted((a, b) => b.at - a.at)
    .map(
      (change) =>
        `${unitOf((at - change.at) / 1000)} before, ${change.text}${change.who === null ? "" : ` (by ${change.who}, see the audit log)`}`
    )
  return {
    at,
    text: `failures rose from ${perMinute(rise.from)} to ${perMinute(rise.to)} per minute`,
    preceded: [...before, ...mainError(rise, known.groups, known.deaths)]
  }
}
