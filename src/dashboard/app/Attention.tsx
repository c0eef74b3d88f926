import { useState } from "preact/hooks"
import * as Count from "../../core/Count.js"
import * as Api from "./Api"
import * as JobFilter from "./JobFilter"
import { queueAddress } from "./Links"
import { troubleWords, useLiveUpdates, type Warning } from "./Live"
import { podName } from "./PodNames"
import { runningPath } from "./pages/Pods"
import { span } from "./parts/Time"
import { slowPoll, useResource } from "./Resource"
import { to } from "./Route"
import {
  brief,
  type DatabaseHealth,
  type DeadGroup,
  type Job,
  type JobPage,
  type Pod,
  type Queue,
  type UploadsOverview
} from "./Views"

// Problems that need an operator, most urgent first. Each line links to the page where it can be fixed.

interface Item {
  readonly text: string
  readonly href: string
}

/** Milliseconds. The pod of a job that started later may be missing only because it is new. */
const settled = 15_000

/** A kind counts as failing if a job of it died this recently, in milliseconds. */
const recently = 3_600_000

const pageOf = ({ code, subject }: Warning): string => {
  if (code === "unserved_queue" && subject !== undefined) return queueAddress(subject)
  if (code === "clock_offset" && subject !== undefined) return to(`pods/${subject}`)
  return to(code === "database" ? "database" : "pods")
}

const ofWarnings = (warnings: ReadonlyArray<Warning>): ReadonlyArray<Item> =>
  warnings.map((warning) => ({ text: warning.message, href: pageOf(warning) }))

/** Jobs that run on pods without a heartbeat. */
const ofLostPods = (pods: ReadonlyArray<Pod>, running: ReadonlyArray<Job>): ReadonlyArray<Item> => {
  const live = new Set(pods.map(({ id }) => id))
  const lost = new Map<string, number>()
  for (const { pod, startedAt } of running) {
    const isSettled = startedAt !== null && Date.now() - Date.parse(startedAt) > settled
    if (isSettled && pod !== null && !live.has(pod)) lost.set(pod, (lost.get(pod) ?? 0) + 1)
  }
  return [...lost].map(([pod, count]) => ({
    text: `Process ${podName(pod)} sends no heartbeat, and ${count} ${count === 1 ? "job runs" : "jobs run"} in it.`,
    href: to(`pods/${pod}`)
  }))
}

/** A lower bound below the limit says nothing, so the queue may be full or not. */
const ofQueues = (queues: ReadonlyArray<Queue>): ReadonlyArray<Item> =>
  queues.flatMap(({ counts, limits: { depthCap }, name, paused }) => {
    const waiting = Count.sum([counts.pending, counts.scheduled, counts.retrying])
    const full = waiting.kind === "estimate" ? "is probably full" : "is full"
    return [
      ...(depthCap !== null && waiting.value >= depthCap
        ? [
            {
              text: `Queue ${name} ${full}: ${Count.text(waiting, brief)} jobs are waiting, the limit is ${brief(depthCap)}.`,
              href: queueAddress(name)
            }
          ]
        : []),
      ...(paused && counts.pending.value > 0
        ? [
            {
              text: `Queue ${name} is paused, and ${Count.text(counts.pending, brief)} of its jobs are due.`,
              href: queueAddress(name)
            }
          ]
        : [])
    ]
  })

const ofGroups = (groups: ReadonlyArray<DeadGroup>, now: number): ReadonlyArray<Item> => {
  const recent = groups.filter(({ lastAt }) => now - Date.parse(lastAt) < recently)
  return recent.slice(0, 5).map(({ count, reason, filter, kind, shape }) => {
    const { state: _, ...rest } = JobFilter.ofJson(filter)
    const crashed = `crashed ${count === 1 ? "its process" : "their processes"}`
    const how = reason === "poison" ? crashed : `died (${reason.replace("_", " ")})`
    return {
      text: `${brief(count)} ${kind} ${count === 1 ? "job" : "jobs"} ${how}${shape === "" ? "." : `: ${shape}`}`,
      href: JobFilter.address("dead", rest)
    }
  })
}

/** Number of retrying jobs from which a kind counts as failing. */
const manyRetries = 10

/** Kinds with many failed jobs that will be retried and are not dead yet. */
const ofRetries = (retrying: ReadonlyArray<Job>): ReadonlyArray<Item> => {
  const kinds = [...new Set(retrying.map(({ kind }) => kind))]
  return kinds.flatMap((kind) => {
    const jobs = retrying.filter((job) => job.kind === kind)
    if (jobs.length < manyRetries) return []
    const [line = ""] = (jobs.find(({ lastError }) => lastError !== null)?.lastError ?? "").split("\n")
    const more = retrying.length >= maxExaminedRetries ? "+" : ""
    return [
      {
        text: `${jobs.length}${more} ${kind} jobs failed and are waiting for a retry${line === "" ? "." : `: ${line}`}`,
        href: to("retries", { kind })
      }
    ]
  })
}

const ofUploads = ({ stuck }: UploadsOverview): ReadonlyArray<Item> =>
  stuck.map(({ files, waitingSeconds, workspace }) => ({
    text: `${files} ${files === 1 ? "file" : "files"} of workspace ${workspace} ${files === 1 ? "has" : "have"} been waiting to be fetched for ${span(waitingSeconds)}.`,
    href: to("uploads")
  }))

/** Seconds. Every transaction blocks vacuum for a moment. */
const longBlock = 60

const ofDatabase = ({ now }: DatabaseHealth): ReadonlyArray<Item> => {
  const blockers = now.blockers.filter(({ seconds }) => seconds === null || seconds >= longBlock)
  return blockers.map(({ name, seconds, what }) => ({
    text: `Vacuum is blocked by ${what.replaceAll("_", " ")} ${name}${seconds === null ? "" : `, for ${span(seconds)}`}.`,
    href: to("database")
  }))
}

const remembered = "attention"

/** Lines that are always shown. */
const alwaysShown = 3

/** Number of newest retrying jobs to examine. */
const maxExaminedRetries = 100

/** Lists problems; the first lines are always shown. */
export const Attention = ({ queues }: { readonly queues: ReadonlyArray<Queue> | undefined }) => {
  const { pods, trouble, warnings } = useLiveUpdates()
  const [open, setOpen] = useState(() => localStorage.getItem(remembered) === "open")
  const groups = useResource<{ groups: ReadonlyArray<DeadGroup> }>("jobs/groups", { every: slowPoll })
  const uploads = useResource<UploadsOverview>("uploads", { every: slowPoll })
  const database = useResource<DatabaseHealth>("metrics/database", { every: slowPoll })
  const running = useResource<JobPage>(runningPath(), { every: 10_000 })
  const retrying = (queues ?? []).reduce((sum, { counts }) => sum + counts.retrying.value, 0)
  const retries = useResource<JobPage>(
    retrying < manyRetries ? undefined : `jobs${Api.query({ state: "retrying", limit: maxExaminedRetries })}`,
    { every: slowPoll }
  )
  const items = [
    ...ofWarnings(warnings ?? []),
    ...(pods === undefined || running.data === undefined ? [] : ofLostPods(pods, running.data.jobs)),
    ...ofQueues(queues ?? []),
    ...ofGroups(groups.data?.groups ?? [], Date.now()),
    ...(retrying < manyRetries ? [] : ofRetries(retries.data?.jobs ?? [])),
    ...(uploads.data === undefined ? [] : ofUploads(uploads.data)),
    ...(database.data === undefined ? [] : ofDatabase(database.data))
  ]
  const turn = () => {
    localStorage.setItem(remembered, open ? "closed" : "open")
    setOpen(!open)
  }
  if (items.length === 0 || trouble !== undefined) {
    const words = trouble === undefined ? "Loading warnings…" : `${troubleWords[trouble]}: warnings are unknown`
    const isKnown = trouble === undefined && warnings !== undefined && queues !== undefined && groups.data !== undefined
    return (
      <div class="notice" role="status">
        {isKnown ? <span class="state done">No warnings</span> : words}
      </div>
    )
  }
  const shown = open ? items : items.slice(0, alwaysShown)
  const hidden = items.length - alwaysShown
  return (
    <section class="notice warning" aria-label="Needs attention">
      <ul class="attention">
        {shown.map(({ href, text }) => (
          <li key={text}>
            <a class={open ? "" : "cut"} href={href} title={text}>
              {text}
            </a>
          </li>
        ))}
      </ul>
      {hidden <= 0 ? null : (
        <button type="button" class="link" aria-expanded={open} onClick={turn}>
          {open ? "Show less" : `Show ${hidden} more`}
        </button>
      )}
    </section>
  )
}
