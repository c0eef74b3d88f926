import * as z from "zod/v4"
import * as Count from "../../core/Count.js"
import * as Incidents from "../../core/Incidents.js"
import { span } from "../../core/SpanText.js"
import { suggestion } from "../../core/Spelling.js"
import type { QueueView } from "../../http/admin/QueueView.js"
import type { SnoozeView } from "../../http/admin/SnoozesRoutes.js"
import type { GroupsView } from "../../http/jobs/GroupsRoutes.js"
import type { JobsPage } from "../../http/jobs/JobsRoutes.js"
import type { JobView } from "../../http/jobs/JobView.js"
import type { LogsView } from "../../http/jobs/LogsRoutes.js"
import type { OperationView } from "../../http/jobs/OperationView.js"
import type { WhyView } from "../../http/jobs/WhyView.js"
import * as Tool from "./Tool.js"
import { type Answer, counted, facts, firstLine, json, line, value, when } from "./ToolText.js"

// The tools that read jobs and queues.

interface Total {
  readonly count: number
  readonly exact: boolean
}

export const totalText = ({ count, exact }: Total): string => `${count}${exact ? "" : " or more"}`

const stateOf = ({ reason, state }: Pick<JobView, "reason" | "state">) =>
  reason === null || reason === "cancelled" ? state : `${state} (${reason})`

/** A job in one line. */
export const jobLine = (job: JobView, now: number): string => {
  const at = job.finishedAt ?? job.startedAt ?? job.runAt
  const error = job.lastError === null ? "" : `, error: ${firstLine(job.lastError)}`
  return `${job.id} ${line(job.kind)} in queue ${line(job.queue)}, ${stateOf(job)}, attempt ${job.attempt}/${job.attempts}, ${when(at, now)}${error}`
}

export const moreAt = (cursor: string | null) =>
  cursor === null ? undefined : `For more, the same call with cursor ${cursor}`

/** What to call about an incident, or what the user can do. */
const stepFor = ({ action, place }: Incidents.Incident): string => {
  if ("filter" in place) return ` Filter: ${json(place.filter)}`
  if (place.page === "retries") return ` Jobs: ${json({ state: "retrying", ...place.query })}`
  if (action === undefined) return ""
  return "copy" in action ? ` Start a worker: ${line(action.copy)}` : ` Fix: resume ${json({ queue: action.resume })}`
}

const incidentLine = (incident: Incidents.Incident, now: number) => {
  const { severity, since, text } = incident
  const began = since === undefined ? "" : ` Began ${when(new Date(since).toISOString(), now)}.`
  return `- ${severity}: ${line(text)}${began}${stepFor(incident)}`
}

/** What Mission Control reads for its list of incidents. */
const incidents = Tool.tool(
  "incidents",
  "List what needs an operator now, most urgent first: failing jobs, queues without a worker, lost processes, paused or full queues, database trouble. Start here.",
  {},
  async (_, { ask, now }) => {
    const get = <A>(path: string) => ask("GET", path) as Promise<A>
    const [live, dead, running, retrying, series, uploads, database, hidden] = await Promise.all([
      get<Pick<Incidents.Known, "queues" | "pods" | "warnings">>("events"),
      get<Pick<Incidents.Known, "groups" | "sampled">>("jobs/groups"),
      get<{ jobs: Incidents.Known["running"] }>("jobs?state=running&sort=when&order=asc&limit=200"),
      get<{ jobs: NonNullable<Incidents.Known["retrying"]> }>(
        `jobs?state=retrying&limit=${Incidents.maxExaminedRetries}`
      ),
      get<Incidents.Known["series"]>("metrics/queues"),
      get<Incidents.Known["uploads"]>("uploads"),
      get<Incidents.Known["database"]>("metrics/database"),
      get<{ snoozes: ReadonlyArray<typeof SnoozeView.Type> }>("snoozes")
    ])
    const known = { ...live, ...dead, running: running.jobs, retrying: retrying.jobs, series, uploads, database }
    const all = Incidents.of({ ...known, nameOf: (pod) => pod }, now())
    const lines = all.map((incident) => {
      const snooze = Incidents.snoozeOf(incident, hidden.snoozes)
      return `${incidentLine(incident, now())}${snooze === undefined ? "" : ` Snoozed until ${snooze.until}: ${line(snooze.reason)}`}`
    })
    return {
      head: all.length === 0 ? "No incidents." : `${counted(all.length, "incident")}, most urgent first.`,
      data: lines.join("\n"),
      next: all.length === 0 ? undefined : "dead_groups for failing jobs, jobs with a filter, why with the id of a job."
    }
  }
)

const queues = Tool.tool(
  "queues",
  "List queues with the number of their jobs in each state, the age of the oldest due job, and whether they are paused.",
  { queue: z.string().optional().describe("Only this queue.") },
  async ({ queue }, { ask, now }) => {
    const all = (await ask("GET", "queues")) as { queues: ReadonlyArray<QueueView> }
    const found = all.queues.filter(({ name }) => queue === undefined || name === queue)
    if (queue !== undefined && found.length === 0) throw unknownQueue(queue, all.queues)
    return {
      head: `${counted(found.length, "queue")}.`,
      data: found
        .map(({ counts, declared, maxWorkers, name, oldestDueAgeSeconds, paused, throttledUntil, throughput }) => {
          const parts = Object.entries(counts).flatMap(([state, count]) =>
            count.value === 0 ? [] : [`${Count.text(count)} ${state}`]
          )
          const notes = [
            ...(paused ? ["PAUSED"] : []),
            ...(declared ? [] : ["no process has ever served it"]),
            ...(throttledUntil === null ? [] : [`throttled until ${when(throttledUntil, now())}`]),
            ...(oldestDueAgeSeconds === null ? [] : [`oldest due job ${span(oldestDueAgeSeconds)}`]),
            ...(throughput === null ? [] : [`last hour ${throughput.completed} done, ${throughput.dead} dead`])
          ]
          return `${line(name)}: ${parts.join(", ") || "no jobs"}; ${maxWorkers} workers at most; ${notes.join("; ")}`
        })
        .join("\n"),
      next: "jobs with a queue and a state."
    }
  }
)

export const unknownQueue = (queue: string, all: ReadonlyArray<QueueView>): Error => {
  const names = all.map(({ name }) => name)
  return new Error(`There is no queue ${JSON.stringify(queue)}.${suggestion(queue, names)} The tool queues lists them.`)
}

const jobs = Tool.tool(
  "jobs",
  "List and search jobs, newest first.",
  { ...Tool.jobFilter, ...Tool.pageOf },
  async (filter, { ask, now }) => {
    const page = (await ask("GET", Tool.path("jobs", filter))) as typeof JobsPage.Type
    const searched = page.searched === null ? "" : ` Searched ${page.searched} jobs; older ones are on the next page.`
    return {
      head: `${totalText(page.total)} jobs match, ${page.jobs.length} shown, newest first.${searched}`,
      data: page.jobs.map((job) => jobLine(job, now())).join("\n"),
      next: moreAt(page.next) ?? "job or why with an id."
    }
  }
)

const job = Tool.tool(
  "job",
  "Show a job: state, times, attempts, payload, result and errors.",
  { id: Tool.id },
  async ({ id }, { ask, now }) => {
    const job = (await ask("GET", `jobs/${Tool.segment(id)}`)) as JobView
    const at = (instant: string | null) => instant !== null && when(instant, now())
    const shown = (content: unknown) => content !== null && value(content)
    return {
      head: `Job ${job.id} is ${stateOf(job)}, attempt ${job.attempt} of ${job.attempts}.`,
      data: facts([
        ["kind", line(job.kind)],
        ["queue", line(job.queue)],
        ["key", job.key !== null && line(job.key)],
        ["created", at(job.createdAt)],
        ["due", at(job.runAt)],
        ["started", at(job.startedAt)],
        ["finished", at(job.finishedAt)],
        ["process", job.pod],
        ["payload", value(job.payload)],
        ["progress", shown(job.progress)],
        ["result", shown(job.result)],
        ["last error", shown(job.lastError)],
        ...job.history.map(
          ({ attempt, endedAt, message, outcome }) =>
            [
              `attempt ${attempt}`,
              `${outcome} ${when(endedAt, now())}${message === null ? "" : `: ${firstLine(message)}`}`
            ] as const
        )
      ]),
      next: "why for what it waits for, logs for what its handler logged."
    }
  }
)

const why = Tool.tool(
  "why",
  "Explain why a job is not running, or how it ended, and what to do about it.",
  { id: Tool.id },
  async ({ id }, { ask, now }) => {
    const { detail, reason, until } = (await ask("GET", `jobs/${Tool.segment(id)}/why`)) as WhyView
    return {
      head: `Reason: ${reason}${until === undefined ? "" : `, until ${when(until, now())}`}.`,
      data: value(detail),
      next: reason === "dead" ? "dead_groups for jobs that died of the same cause, logs for this one." : undefined
    }
  }
)

const deadGroups = Tool.tool(
  "dead_groups",
  "Group dead jobs by kind, reason and error, with the filter of each group, for jobs and requeue.",
  { queue: z.string().optional().describe("Only jobs of this queue.") },
  async ({ queue }, { ask, now }) => {
    const found = (await ask("GET", Tool.path("jobs/groups", { queue }))) as GroupsView
    const shown = found.groups.slice(0, 20)
    return {
      head: `${counted(found.groups.length, "group")} among ${counted(found.looked, "dead job")}${found.sampled ? ", older ones not examined" : ""}; ${shown.length} shown.`,
      data: shown
        .map(
          ({ count, filter, firstAt, lastAt, sample }) =>
            `- ${counted(count, "job")}, first ${when(firstAt, now())}, last ${when(lastAt, now())}, as ${sample.id}${sample.error === null ? "" : `: ${firstLine(sample.error)}`}\n  ${filter === null ? "no filter, because NIGHTSHIFT_MASK hides a part of the error" : `filter ${json(filter)}`}`
        )
        .join("\n"),
      next:
        shown.length === 0
          ? undefined
          : "why or logs with the id of a sample. When the cause is fixed, requeue with the filter."
    }
  }
)

const logs = Tool.tool(
  "logs",
  "Show what the handler of a job has logged, by attempt.",
  { id: Tool.id, lines: z.int().min(1).max(200).default(50).describe("How many of the newest lines.") },
  async ({ id, lines: max }, { ask }) => {
    const { attempts } = (await ask("GET", `jobs/${Tool.segment(id)}/logs`)) as typeof LogsView.Type
    const lines = attempts.flatMap(({ attempt, dropped, lines }) => [
      ...(dropped === 0 ? [] : [`attempt ${attempt}: ${dropped} older lines were not stored`]),
      ...lines.map(
        ({ at, error, fields, level, message, step }) =>
          `attempt ${attempt} ${at} ${level}${step === null ? "" : ` [${line(step)}]`} ${line(message)}${fields === null ? "" : ` ${line(json(fields))}`}${error === null ? "" : ` error: ${firstLine(error)}`}`
      )
    ])
    const shown = lines.slice(-max)
    const head =
      lines.length === 0
        ? "The handler has logged nothing that is stored."
        : `${counted(lines.length, "line")}, the newest ${shown.length} shown.`
    return { head, data: shown.join("\n") }
  }
)

export const operationText = ({
  done,
  error,
  failed,
  id,
  rehearsal,
  skipped,
  status,
  total
}: OperationView): Answer => ({
  head: `Operation ${id} is ${status}: ${done} jobs changed${total === null ? "" : ` of ${totalText(total)}`}, ${failed} failed.`,
  data: facts([
    ["skipped", Object.keys(skipped).length > 0 && JSON.stringify(skipped)],
    ["rehearsal", rehearsal !== null && `${rehearsal.succeeded} of ${rehearsal.jobs} succeeded, ${rehearsal.verdict}`],
    ["error", error !== null && line(error)]
  ])
})

const operation = Tool.tool(
  "operation",
  "Show the progress of a requeue or cancel of many jobs.",
  { id: Tool.operationId },
  async ({ id }, { ask }) => operationText((await ask("GET", `operations/${Tool.segment(id)}`)) as OperationView)
)

export const tools: ReadonlyArray<Tool.Tool> = [incidents, queues, jobs, job, why, deadGroups, logs, operation]
