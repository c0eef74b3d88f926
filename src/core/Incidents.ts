import * as Count from "./Count.js"
import { brief } from "./Count.js"
import * as DurationMillis from "./DurationMillis.js"
import { span } from "./SpanText.js"

// Problems that need an operator. What has one cause is one incident: a hundred queues without a worker are usually one
// process that is not running. Mission Control shows them, and so does `nightshift mcp`.

// What is read of the API's responses.

interface Queue {
  readonly name: string
  readonly counts: Readonly<Record<"pending" | "scheduled" | "retrying", Count.Count>>
  readonly oldestDueAgeSeconds: number | null
  readonly limits: { readonly depthCap: number | null }
  readonly paused: boolean
}

interface Warning {
  readonly code: string
  readonly message: string
  readonly subject?: string | undefined
}

interface QueueSeries {
  readonly since: string
  readonly bucket: string
  readonly queues: ReadonlyArray<
    { readonly queue: string } & Readonly<Record<"enqueued" | "completed" | "dead", ReadonlyArray<number>>>
  >
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
  readonly filter: Readonly<Record<string, unknown>>
}

interface Uploads {
  readonly stuck: ReadonlyArray<{ readonly workspace: string; readonly files: number; readonly waitingSeconds: number }>
}

interface Database {
  readonly now: {
    readonly blockers: ReadonlyArray<{ readonly name: string; readonly what: string; readonly seconds: number | null }>
  }
}

/** Where an incident can be fixed: a page of Mission Control, or the list of the jobs that match a filter. */
export type Place =
  | { readonly page: string; readonly query?: Readonly<Record<string, string>> }
  | { readonly filter: unknown }

/** What can be done about an incident at once, without harm. */
export type SafeAction = { readonly resume: string } | { readonly copy: string }

export interface Incident {
  /** Names the incident, however many jobs it concerns. */
  readonly key: string
  readonly text: string
  readonly place: Place
  /** Jobs fail or are refused, jobs wait, or nothing is late yet. */
  readonly severity: "failing" | "waiting" | "notice"
  /** How many jobs it concerns, and since when, in seconds. */
  readonly jobs: number
  readonly age: number
  /** When it began, if the text does not say how long it lasts, in epoch milliseconds. */
  readonly since?: number | undefined
  readonly trend?: Trend | undefined
  readonly action?: SafeAction | undefined
}

/** The last hour of an incident, oldest first. */
export interface Trend {
  readonly label: string
  readonly values: ReadonlyArray<number>
  /** Jobs per minute that were added lately; negative if they become fewer. */
  readonly growth: number
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

const countOf = (counts: ReadonlyArray<Count.Count>) => Count.sum(counts)
const jobsText = (count: Count.Count) => `${Count.text(count, brief)} ${count.value === 1 ? "job" : "jobs"}`
const oldestOf = (queues: ReadonlyArray<Queue>) =>
  Math.max(0, ...queues.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0))

type IncidentText = (names: string, verb: "has" | "have" | "is" | "are", jobs: string, oldest: string) => string

const sumOf = (values: ReadonlyArray<number>) => values.reduce((sum, value) => sum + value, 0)

/** Points of a trend over which its growth is measured. */
const growthPoints = 5

/** Jobs per minute in the last points, the newest of which is incomplete. */
const growthOf = (changes: ReadonlyArray<number>, width: number, newestLasted: number): number => {
  const minutes = ((growthPoints - 1) * width + newestLasted) / 60
  return Math.round(sumOf(changes.slice(-growthPoints)) / Math.max(1, minutes))
}

/** The backlog of these queues in the last hour: the current one, minus what was added since. */
const backlogOf = (
  queues: ReadonlyArray<Queue>,
  jobs: number,
  series: QueueSeries | undefined,
  now: number
): Trend | undefined => {
  if (series === undefined) return undefined
  const names = new Set(queues.map(({ name }) => name))
  const own = series.queues.filter(({ queue }) => names.has(queue))
  const [first] = own
  if (first === undefined) return undefined
  const changes = first.enqueued.map((_, at) =>
    sumOf(own.map(({ completed, dead, enqueued }) => (enqueued[at] ?? 0) - (completed[at] ?? 0) - (dead[at] ?? 0)))
  )
  const values = changes.map((_, at) => Math.max(0, jobs - sumOf(changes.slice(at + 1))))
  const width = (DurationMillis.parse(series.bucket) ?? 120_000) / 1000
  const lasted = (now - Date.parse(series.since)) / 1000 - (changes.length - 1) * width
  return { label: "Waiting jobs", values, growth: growthOf(changes, width, Math.min(width, Math.max(0, lasted))) }
}

/** One incident for all queues with the same problem. */
const ofSome = (
  key: string,
  queues: ReadonlyArray<Queue>,
  trendOf: (queues: ReadonlyArray<Queue>, jobs: number) => Trend | undefined,
  severity: Incident["severity"],
  counted: (queue: Queue) => ReadonlyArray<Count.Count>,
  textOf: IncidentText,
  verbs: readonly ["has", "have"] | readonly ["is", "are"]
): ReadonlyArray<Incident> => {
  const [first] = queues
  if (first === undefined) return []
  const jobs = countOf(queues.flatMap(counted))
  const age = oldestOf(queues)
  const isOne = queues.length === 1
  return [
    {
      key,
      trend: trendOf(queues, jobs.value),
      text: textOf(
        isOne ? `Queue ${first.name}` : `${queues.length} queues`,
        isOne ? verbs[0] : verbs[1],
        jobsText(jobs),
        age === 0 ? "" : `, oldest ${span(age)}`
      ),
      place: isOne
        ? { page: `queues/${encodeURIComponent(first.name)}` }
        : { page: "queues", query: { sort: "oldest", order: "desc" } },
      severity,
      jobs: jobs.value,
      age
    }
  ]
}

const waitingOf = ({ counts }: Queue) => [counts.pending, counts.scheduled, counts.retrying]
const dueOf = ({ counts }: Queue) => [counts.pending]

/** A lower bound below the limit says nothing, so the queue may be full or not. */
const isFull = (queue: Queue) =>
  queue.limits.depthCap !== null && Count.sum(waitingOf(queue)).value >= queue.limits.depthCap

/** Starts a process for these queues. */
export const serveCommand = (queues: ReadonlyArray<Pick<Queue, "name">>): string =>
  `NIGHTSHIFT_QUEUES=${queues.map(({ name }) => name).join(",")} nightshift serve`

const ofQueues = (
  queues: ReadonlyArray<Queue>,
  unserved: ReadonlySet<string>,
  series: QueueSeries | undefined,
  now: number
): ReadonlyArray<Incident> => {
  const full = queues.filter(isFull)
  const paused = queues.filter((queue) => queue.paused && queue.counts.pending.value > 0)
  const idle = queues.filter(({ name }) => unserved.has(name))
  const trendOf = (some: ReadonlyArray<Queue>, jobs: number) => backlogOf(some, jobs, series, now)
  const fullText: IncidentText = (names, verb, jobs) => `${names} ${verb} full: ${jobs} waiting.`
  const idleText: IncidentText = (names, verb, jobs, oldest) => `${names} ${verb} no worker: ${jobs} due${oldest}.`
  const pausedText: IncidentText = (names, verb, jobs, oldest) => `${names} ${verb} paused: ${jobs} due${oldest}.`
  const [onlyPaused] = paused
  return [
    ...ofSome("full", full, trendOf, "failing", waitingOf, fullText, ["is", "are"]),
    ...ofSome("unserved", idle, trendOf, "waiting", dueOf, idleText, ["has", "have"]).map((incident) => ({
      ...incident,
      action: { copy: serveCommand(idle) }
    })),
    ...ofSome("paused", paused, trendOf, "notice", dueOf, pausedText, ["is", "are"]).map((incident) => ({
      ...incident,
      // Several queues may be paused for different reasons.
      action: paused.length === 1 && onlyPaused !== undefined ? { resume: onlyPaused.name } : undefined
    }))
  ]
}

/** Queues without a worker are described with their jobs, by `ofQueues`. */
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
      place: { filter },
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
  readonly queues: ReadonlyArray<Queue> | undefined
  /** The last hour of all queues, for trends. */
  readonly series: QueueSeries | undefined
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
    ...ofQueues(queues, unservedOf(warnings), series, now),
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
