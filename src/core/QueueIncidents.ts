import * as Count from "./Count.js"
import { brief } from "./Count.js"
import * as DurationMillis from "./DurationMillis.js"
import { growthOf, type Incident, sumOf, type Trend } from "./Incident.js"
import { span } from "./SpanText.js"

// Incidents of queues: full, without a worker, or paused. All queues with the same problem are one incident.

export interface Queue {
  readonly name: string
  readonly counts: Readonly<Record<"pending" | "scheduled" | "retrying", Count.Count>>
  readonly oldestDueAgeSeconds: number | null
  readonly limits: { readonly depthCap: number | null }
  readonly paused: boolean
}

export interface QueueSeries {
  readonly since: string
  readonly bucket: string
  readonly queues: ReadonlyArray<
    { readonly queue: string } & Readonly<Record<"enqueued" | "completed" | "dead", ReadonlyArray<number>>>
  >
}

const countOf = (counts: ReadonlyArray<Count.Count>) => Count.sum(counts)
const jobsText = (count: Count.Count) => `${Count.text(count, brief)} ${count.value === 1 ? "job" : "jobs"}`
const oldestOf = (queues: ReadonlyArray<Queue>) =>
  Math.max(0, ...queues.map(({ oldestDueAgeSeconds }) => oldestDueAgeSeconds ?? 0))

type IncidentText = (names: string, verb: "has" | "have" | "is" | "are", jobs: string, oldest: string) => string

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

/** The incidents of queues. `unserved` are those without a worker. */
export const of = (
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
