import { brief } from "./Count.js"
import { growthOf, type Incident } from "./Incident.js"
import * as QueueIncidents from "./QueueIncidents.js"
import { span } from "./SpanText.js"

export type { Incident, Place, SafeAction, Trend } from "./Incident.js"
export { serveCommand } from "./QueueIncidents.js"

// Problems that need an operator. What has one cause is one incident: a hundred queues without a worker are usually one
// process that is not running. Mission Control shows them, and so does `nightshift mcp`.

// What is read of the API's responses.

interface Warning {
  readonly code: string
  readonly message: string
  readonly subject?: string | undefined
}

interface Job {
  readonly kind: string
  readonly pod: string | null
  readonly startedAt: string | null
  readonly createdAt: string
  readonly lastError: string | null
}

/** Dead jobs of one kind with the same reason and shape of error. */
export interface DeadGroup {
  readonly kind: string
  readonly reason: string
  readonly shape: string
  readonly count: number
  readonly firstAt: string
  readonly lastAt: string
  readonly recent: ReadonlyArray<number>
  /** Null if a part of the shape is hidden. */
  readonly filter: Readonly<Record<string, unknown>> | null
}

interface Uploads {
  readonly stuck: ReadonlyArray<{ readonly workspace: string; readonly files: number; readonly waitingSeconds: number }>
}

interface Database {
  readonly now: {
    readonly blockers: ReadonlyArray<{ readonly name: string; readonly what: string; readonly seconds: number | null }>
  }
}

const severities = ["failing", "waiting", "notice"]

/** Most severe first, then by jobs and age. */
const ranked = (incidents: ReadonlyArray<Incident>): ReadonlyArray<Incident> =>
  incidents.toSorted(
    (a, b) => severities.indexOf(a.severity) - severities.indexOf(b.severity) || b.jobs - a.jobs || b.age - a.age
  )

/** Milliseconds. The pod of a job that started later may be missing only because it is new. */
const settled = 15_000

/** A kind counts as failing if a job of it died this recently, in milliseconds. */
const recently = 3_600_000

/** Queues without a worker are described with their jobs, by `QueueIncidents`. */
const unservedOf = (warnings: ReadonlyArray<Warning>) =>
  new Set(
    warnings.flatMap(({ code, subject }) => (code === "unserved_queue" && subject !== undefined ? [subject] : []))
  )

const ofClocks = (warnings: ReadonlyArray<Warning>): ReadonlyArray<Incident> => {
  const off = warnings.filter(({ code }) => code === "clock_offset")
  const [first] = off
  if (first === undefined) return []
  const text = off.length === 1 ? first.message : `The clocks of ${off.length} processes differ from the database's.`
  const place = { page: off.length === 1 ? `pods/${first.subject}` : "pods" }
  return [{ key: "clocks", text, place, severity: "notice", jobs: 0, age: 0 }]
}

const ofEndpoints = (warnings: ReadonlyArray<Warning>): ReadonlyArray<Incident> => {
  const disabled = warnings.filter(({ code }) => code === "endpoint_disabled")
  const [first] = disabled
  if (first === undefined) return []
  const ids = disabled.map(({ subject }) => subject).sort()
  const text = disabled.length === 1 ? first.message : `${disabled.length} endpoints of customers are disabled.`
  const place =
    disabled.length === 1
      ? { page: `endpoints/${first.subject}` }
      : { page: "endpoints", query: { standing: "disabled" } }
  return [{ key: `endpoints ${ids.join(" ")}`, text, place, severity: "notice", jobs: disabled.length, age: 0 }]
}

/** Warnings that are described by the functions above. */
const described = ["unserved_queue", "clock_offset", "endpoint_disabled"]

const ofOthers = (warnings: ReadonlyArray<Warning>): ReadonlyArray<Incident> =>
  warnings
    .filter(({ code }) => !described.includes(code))
    .map(({ code, message }) => ({
      key: `warning ${code}`,
      text: message,
      place: { page: code === "database" || code === "replica_unused" ? "database" : "pods" },
      severity: code === "replica_unused" ? "notice" : "failing",
      jobs: 0,
      age: 0
    }))

/** Jobs that run on pods without a heartbeat. */
const ofLostPods = (
  pods: ReadonlyArray<{ readonly id: string }>,
  running: ReadonlyArray<Job>,
  nameOf: (pod: string) => string,
  now: number
): ReadonlyArray<Incident> => {
  const live = new Set(pods.map(({ id }) => id))
  const lost = new Map<string, number>()
  for (const { pod, startedAt } of running) {
    const isSettled = startedAt !== null && now - Date.parse(startedAt) > settled
    if (isSettled && pod !== null && !live.has(pod)) lost.set(pod, (lost.get(pod) ?? 0) + 1)
  }
  const [first] = lost
  if (first === undefined) return []
  const jobs = [...lost.values()].reduce((sum, count) => sum + count, 0)
  const run = jobs === 1 ? "job runs" : "jobs run"
  const text =
    lost.size === 1
      ? `Process ${nameOf(first[0])} sends no heartbeat, and ${jobs} ${run} in it.`
      : `${lost.size} processes send no heartbeat, and ${jobs} ${run} in them.`
  const key = `silent ${[...lost.keys()].sort().join(" ")}`
  const place = { page: lost.size === 1 ? `pods/${first[0]}` : "pods" }
  return [{ key, text, place, severity: "failing", jobs, age: 0 }]
}

const ofGroups = (groups: ReadonlyArray<DeadGroup>, isFloor: boolean, now: number): ReadonlyArray<Incident> => {
  const recent = groups.filter(({ lastAt }) => now - Date.parse(lastAt) < recently)
  return recent.slice(0, 5).map(({ count, firstAt, reason, filter, kind, recent, shape }) => {
    const crashed = `crashed ${count === 1 ? "its process" : "their processes"}`
    const how = reason === "poison" ? crashed : `died (${reason.replace("_", " ")})`
    return {
      key: `dead ${kind} ${reason} ${shape}`,
      since: Date.parse(firstAt),
      // Each point of `recent` ends now or two minutes later than the next.
      trend: { label: "Deaths", values: recent, growth: growthOf(recent, 120, 120) },
      text: `${brief(count)}${isFloor ? "+" : ""} ${kind} ${count === 1 ? "job" : "jobs"} ${how}${shape === "" ? "." : `: ${shape}`}`,
      place: filter === null ? { page: "dead", query: { kind } } : { filter },
      severity: "failing",
      jobs: count,
      age: 0
    }
  })
}

/** Number of retrying jobs from which a kind counts as failing. */
export const manyRetries = 10

/** Number of newest retrying jobs to examine. */
export const maxExaminedRetries = 100

/** Kinds with many failed jobs that will be retried and are not dead yet. */
const ofRetries = (retrying: ReadonlyArray<Job>): ReadonlyArray<Incident> => {
  const kinds = [...new Set(retrying.map(({ kind }) => kind))]
  return kinds.flatMap((kind) => {
    const jobs = retrying.filter((job) => job.kind === kind)
    if (jobs.length < manyRetries) return []
    const [line = ""] = (jobs.find(({ lastError }) => lastError !== null)?.lastError ?? "").split("\n")
    const more = retrying.length >= maxExaminedRetries ? "+" : ""
    return [
      {
        key: `retrying ${kind}`,
        since: Math.min(...jobs.map(({ createdAt }) => Date.parse(createdAt))),
        text: `${jobs.length}${more} ${kind} jobs failed and are waiting for a retry${line === "" ? "." : `: ${line}`}`,
        place: { page: "retries", query: { kind } },
        severity: "failing",
        jobs: jobs.length,
        age: 0
      }
    ]
  })
}

const ofUploads = ({ stuck }: Uploads): ReadonlyArray<Incident> =>
  stuck.map(({ files, waitingSeconds, workspace }) => ({
    key: `files ${workspace}`,
    text: `${files} ${files === 1 ? "file" : "files"} of workspace ${workspace} ${files === 1 ? "has" : "have"} been waiting to be fetched for ${span(waitingSeconds)}.`,
    place: { page: "uploads" },
    severity: "notice",
    jobs: files,
    age: waitingSeconds
  }))

/** Seconds. Every transaction blocks vacuum for a moment. */
const longBlock = 60

const ofDatabase = ({ now }: Database): ReadonlyArray<Incident> => {
  const blockers = now.blockers.filter(({ seconds }) => seconds === null || seconds >= longBlock)
  return blockers.map(({ name, seconds, what }) => ({
    key: `vacuum ${name}`,
    text: `Vacuum is blocked by ${what.replaceAll("_", " ")} ${name}${seconds === null ? "" : `, for ${span(seconds)}`}.`,
    place: { page: "database" },
    severity: "notice",
    jobs: 0,
    age: seconds ?? 0
  }))
}

/** What is known. Parts that are still loading are undefined. */
export interface Known {
  readonly queues: ReadonlyArray<QueueIncidents.Queue> | undefined
  /** The last hour of all queues, for trends. */
  readonly series: QueueIncidents.QueueSeries | undefined
  readonly warnings: ReadonlyArray<Warning> | undefined
  readonly pods: ReadonlyArray<{ readonly id: string }> | undefined
  /** The name of a process. */
  readonly nameOf: (pod: string) => string
  readonly running: ReadonlyArray<Job> | undefined
  readonly groups: ReadonlyArray<DeadGroup> | undefined
  /** Whether the groups leave out jobs, so that their counts are lower bounds. */
  readonly sampled?: boolean | undefined
  readonly retrying: ReadonlyArray<Job> | undefined
  readonly uploads: Uploads | undefined
  readonly database: Database | undefined
}

/** Returns the incidents, the most urgent first. */
export const of = (known: Known, now: number): ReadonlyArray<Incident> => {
  const {
    database,
    groups = [],
    nameOf,
    pods,
    queues = [],
    retrying = [],
    running = [],
    sampled = false,
    series,
    uploads,
    warnings = []
  } = known
  return ranked([
    ...ofOthers(warnings),
    ...ofClocks(warnings),
    ...ofEndpoints(warnings),
    ...(pods === undefined ? [] : ofLostPods(pods, running, nameOf, now)),
    ...QueueIncidents.of(queues, unservedOf(warnings), series, now),
    ...ofGroups(groups, sampled, now),
    ...ofRetries(retrying),
    ...(uploads === undefined ? [] : ofUploads(uploads)),
    ...(database === undefined ? [] : ofDatabase(database))
  ])
}

/** The snooze of an incident, unless it has become much worse since. */
export const snoozeOf = <Snooze extends { readonly incident: string; readonly jobs: number }>(
  { jobs, key }: Pick<Incident, "jobs" | "key">,
  snoozes: ReadonlyArray<Snooze>
): Snooze | undefined => snoozes.find((snooze) => snooze.incident === keptKey(key) && jobs <= 2 * snooze.jobs + 10)

/** The key as the server keeps it. */
export const keptKey = (key: string): string => key.slice(0, 500)
