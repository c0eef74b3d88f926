import * as Count from "../../core/Count.js"
import * as JobFilter from "./JobFilter"
import { queueAddress } from "./Links"
import type { Warning } from "./Live"
import { podName } from "./PodNames"
import { span } from "./parts/Time"
import { to } from "./Route"
import {
  brief,
  type DatabaseHealth,
  type DeadGroup,
  type Job,
  type Pod,
  type Queue,
  type UploadsOverview
} from "./Views"

// Problems that need an operator. What has one cause is one incident: a hundred queues without a worker are usually one
// process that is not running. Each links to the page where it can be fixed.

export interface Incident {
  readonly text: string
  readonly href: string
  /** Jobs fail or are refused, jobs wait, or nothing is late yet. */
  readonly severity: "failing" | "waiting" | "notice"
  /** How many jobs it concerns, and since when, in seconds. */
  readonly jobs: number
  readonly age: number
}

const severities = ["failing", "waiting", "notice"]

/** Most severe first, then by jobs and age. */
export const ranked = (incidents: ReadonlyArray<Incident>): ReadonlyArray<Incident> =>
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

/** One incident for all queues with the same problem. */
const ofSome = (
  queues: ReadonlyArray<Queue>,
  severity: Incident["severity"],
  counted: (queue: Queue) => ReadonlyArray<Count.Count>,
  textOf: (names: string, verb: "has" | "have" | "is" | "are", jobs: string, oldest: string) => string,
  verbs: readonly ["has", "have"] | readonly ["is", "are"]
): ReadonlyArray<Incident> => {
  const [first] = queues
  if (first === undefined) return []
  const jobs = countOf(queues.flatMap(counted))
  const age = oldestOf(queues)
  const isOne = queues.length === 1
  return [
    {
      text: textOf(
        isOne ? `Queue ${first.name}` : `${queues.length} queues`,
        isOne ? verbs[0] : verbs[1],
        jobsText(jobs),
        age === 0 ? "" : `, oldest ${span(age)}`
      ),
      href: isOne ? queueAddress(first.name) : to("queues", { sort: "oldest", order: "desc" }),
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

const ofQueues = (queues: ReadonlyArray<Queue>, unserved: ReadonlySet<string>): ReadonlyArray<Incident> => {
  const full = queues.filter(isFull)
  const paused = queues.filter((queue) => queue.paused && queue.counts.pending.value > 0)
  const idle = queues.filter(({ name }) => unserved.has(name))
  return [
    ...ofSome(full, "failing", waitingOf, (names, verb, jobs) => `${names} ${verb} full: ${jobs} waiting.`, [
      "is",
      "are"
    ]),
    ...ofSome(
      idle,
      "waiting",
      dueOf,
      (names, verb, jobs, oldest) => `${names} ${verb} no worker: ${jobs} due${oldest}.`,
      ["has", "have"]
    ),
    ...ofSome(
      paused,
      "notice",
      dueOf,
      (names, verb, jobs, oldest) => `${names} ${verb} paused: ${jobs} due${oldest}.`,
      ["is", "are"]
    )
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
  const href = to(off.length === 1 ? `pods/${first.subject}` : "pods")
  return [{ text, href, severity: "notice", jobs: 0, age: 0 }]
}

const ofOthers = (warnings: ReadonlyArray<Warning>): ReadonlyArray<Incident> =>
  warnings
    .filter(({ code }) => code !== "unserved_queue" && code !== "clock_offset")
    .map(({ code, message }) => ({
      text: message,
      href: to(code === "database" ? "database" : "pods"),
      severity: "failing",
      jobs: 0,
      age: 0
    }))

/** Jobs that run on pods without a heartbeat. */
const ofLostPods = (pods: ReadonlyArray<Pod>, running: ReadonlyArray<Job>, now: number): ReadonlyArray<Incident> => {
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
      ? `Process ${podName(first[0])} sends no heartbeat, and ${jobs} ${run} in it.`
      : `${lost.size} processes send no heartbeat, and ${jobs} ${run} in them.`
  return [{ text, href: to(lost.size === 1 ? `pods/${first[0]}` : "pods"), severity: "failing", jobs, age: 0 }]
}

const ofGroups = (groups: ReadonlyArray<DeadGroup>, now: number): ReadonlyArray<Incident> => {
  const recent = groups.filter(({ lastAt }) => now - Date.parse(lastAt) < recently)
  return recent.slice(0, 5).map(({ count, reason, filter, kind, shape }) => {
    const { state: _, ...rest } = JobFilter.ofJson(filter)
    const crashed = `crashed ${count === 1 ? "its process" : "their processes"}`
    const how = reason === "poison" ? crashed : `died (${reason.replace("_", " ")})`
    return {
      text: `${brief(count)} ${kind} ${count === 1 ? "job" : "jobs"} ${how}${shape === "" ? "." : `: ${shape}`}`,
      href: JobFilter.address("dead", rest),
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
        text: `${jobs.length}${more} ${kind} jobs failed and are waiting for a retry${line === "" ? "." : `: ${line}`}`,
        href: to("retries", { kind }),
        severity: "failing",
        jobs: jobs.length,
        age: 0
      }
    ]
  })
}

const ofUploads = ({ stuck }: UploadsOverview): ReadonlyArray<Incident> =>
  stuck.map(({ files, waitingSeconds, workspace }) => ({
    text: `${files} ${files === 1 ? "file" : "files"} of workspace ${workspace} ${files === 1 ? "has" : "have"} been waiting to be fetched for ${span(waitingSeconds)}.`,
    href: to("uploads"),
    severity: "notice",
    jobs: files,
    age: waitingSeconds
  }))

/** Seconds. Every transaction blocks vacuum for a moment. */
const longBlock = 60

const ofDatabase = ({ now }: DatabaseHealth): ReadonlyArray<Incident> => {
  const blockers = now.blockers.filter(({ seconds }) => seconds === null || seconds >= longBlock)
  return blockers.map(({ name, seconds, what }) => ({
    text: `Vacuum is blocked by ${what.replaceAll("_", " ")} ${name}${seconds === null ? "" : `, for ${span(seconds)}`}.`,
    href: to("database"),
    severity: "notice",
    jobs: 0,
    age: seconds ?? 0
  }))
}

/** What the page knows. Parts that are still loading are undefined. */
export interface Known {
  readonly queues: ReadonlyArray<Queue> | undefined
  readonly warnings: ReadonlyArray<Warning> | undefined
  readonly pods: ReadonlyArray<Pod> | undefined
  readonly running: ReadonlyArray<Job> | undefined
  readonly groups: ReadonlyArray<DeadGroup> | undefined
  readonly retrying: ReadonlyArray<Job> | undefined
  readonly uploads: UploadsOverview | undefined
  readonly database: DatabaseHealth | undefined
}

/** Returns the incidents, the most urgent first. */
export const of = (known: Known, now: number): ReadonlyArray<Incident> => {
  const { database, groups = [], pods, queues = [], retrying = [], running = [], uploads, warnings = [] } = known
  return ranked([
    ...ofOthers(warnings),
    ...ofClocks(warnings),
    ...(pods === undefined ? [] : ofLostPods(pods, running, now)),
    ...ofQueues(queues, unservedOf(warnings)),
    ...ofGroups(groups, now),
    ...ofRetries(retrying),
    ...(uploads === undefined ? [] : ofUploads(uploads)),
    ...(database === undefined ? [] : ofDatabase(database))
  ])
}
