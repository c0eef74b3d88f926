import { Clock, Console, Duration, Effect, Option } from "effect"
import { Pods } from "../../cluster/Pods.js"
import * as ErrorText from "../../core/ErrorText.js"
import { eventIds } from "../../core/EventMeta.js"
import { isId, type JobId } from "../../core/Ids.js"
import { measured } from "../../core/SpanText.js"
import { showable } from "../../core/Storable.js"
import { isWaiting, type StoredJob } from "../../core/StoredJob.js"
import { erasedAtOf } from "../../core/Subject.js"
import { pageLimits } from "../../http/Contract.js"
import * as Instant from "../../http/Instant.js"
import * as JobView from "../../http/jobs/JobView.js"
import * as LogsRoutes from "../../http/jobs/LogsRoutes.js"
import * as WhyView from "../../http/jobs/WhyView.js"
import { JobLogs } from "../../queue/logs/JobLogs.js"
import { isEmpty } from "../../queue/search/JobFilter.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import type { Why } from "../../queue/why/Why.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import * as ExecutionTrace from "../../telemetry/tracing/ExecutionTrace.js"
import * as TraceParent from "../../telemetry/tracing/TraceParent.js"
import { ClusterConfig } from "../../worker/ClusterConfig.js"
import { explain } from "../../worker/Explain.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as QueueCommand from "../QueueCommand.js"
import {
  age,
  factList,
  print,
  printable,
  printableLines,
  printJson,
  printText,
  type Shown,
  stack,
  stateText
} from "../Terminal.js"
import * as JobActs from "./JobActs.js"
import * as JobFilterOptions from "./JobFilterOptions.js"
import { jobTable } from "./JobsBulk.js"
import * as LogText from "./LogText.js"

const list = QueueCommand.make({
  about: "List jobs, newest first.",
  options: {
    ...JobFilterOptions.options(),
    ...QueueCommand.page("jobs", pageLimits)
  },
  examples: {
    "nightshift jobs list --state dead": "list dead jobs",
    "nightshift jobs list --queue mail --limit 1000 --json": "print JSON"
  },
  run: (given) =>
    Effect.gen(function* () {
      const filter = JobFilterOptions.filterOf(given)
      const search = yield* JobSearch
      const { jobs, next, searched } = yield* search.list(filter, { limit: given.limit, cursor: given.cursor })
      if (given.json) return yield* printJson({ jobs: jobs.map(JobView.ofListed), next: next ?? null })
      const none = isEmpty(filter)
        ? "No jobs yet. Enqueue one with `nightshift enqueue`."
        : "No jobs match this filter."
      if (jobs.length === 0 && next === undefined) return yield* Console.log(none)
      if (jobs.length > 0) yield* printText(jobTable(jobs, yield* Clock.currentTimeMillis))
      const more = searched === undefined ? "More" : `Searched ${searched} jobs. To continue with older ones`
      if (next !== undefined) yield* Console.log(`\n${more}: add --cursor ${next}`)
    })
})

/** The trace of the job's runs, if it was enqueued with tracing. */
const traceOf = (job: StoredJob): string | undefined => {
  const sent = Option.getOrUndefined(TraceParent.ofMeta(job.meta))
  if (sent === undefined || job.execution === undefined) return sent?.traceId
  return ExecutionTrace.of(job.id).traceId
}

/** The events that made the job. */
const eventsText = ([first, ...others]: ReadonlyArray<string>) =>
  others.length === 0 ? first : `${first} and ${others.length} more`

/** What is shown instead of a payload that was erased. */
const erasedText = (meta: unknown): string | undefined => {
  const at = erasedAtOf(meta)
  return at === undefined ? undefined : `erased on ${Instant.format(at)}`
}

const details = (job: StoredJob, now: number, podName: (id: string) => string): Shown => {
  const when = (millis: number | undefined) =>
    millis === undefined ? undefined : `${Instant.format(millis)} (${age(millis, now)})`
  const facts = factList([
    ["id", job.id],
    ["state", stateText(job)],
    ["kind", `${job.kind}, version ${job.version}`],
    ["queue", job.queue],
    ["key", job.key],
    ["dedupe", job.dedupe && `${job.dedupe.key} (${job.dedupe.scope})`],
    ["attempt", `${job.attempt} of ${job.attempts}`],
    ["priority", String(job.priority)],
    ["created", when(job.createdAt)],
    ["due", isWaiting(job.state) ? when(job.runAt) : undefined],
    ["started", when(job.startedAt)],
    ["cancelling", when(job.cancelRequestedAt)],
    ["finished", when(job.finishedAt)],
    ["process", job.pod && podName(job.pod)],
    ["trace", traceOf(job)],
    ["event", eventsText(eventIds(job.meta))],
    ["payload", erasedText(job.meta) ?? JSON.stringify(showable(job.payload))],
    ["progress", JSON.stringify(job.progress)],
    ["result", JSON.stringify(job.result)],
    ["last error", job.lastError]
  ])
  // The stack trace of the last attempt is part of the last error.
  const messageText = (message: string) =>
    printableLines(message === job.lastError ? ErrorText.withoutTrace(message) : message, 4)
  const history = job.history.map(
    ({ attempt, endedAt, message, outcome, pod, startedAt }) =>
      `  attempt ${attempt}: ${outcome} after ${measured((endedAt - startedAt) / 1000)} on ${podName(pod)}, ${when(endedAt)}${message === undefined ? "" : `: ${messageText(message)}`}`
  )
  return stack(facts, ...(history.length === 0 ? [] : ["history"]), ...history)
}

/** Names of processes: the label with the id, or the id of one that has no label or is no longer known. */
const podNames = Effect.gen(function* () {
  const pods = yield* Effect.flatMap(Pods, ({ present }) => present(Duration.days(1)))
  const labels = new Map<string, string | undefined>(pods.map(({ id, label }) => [id, label]))
  return (id: string) => {
    const label = labels.get(id)
    return label === undefined ? id : `${label} (${id})`
  }
})

const show = QueueCommand.make({
  about: "Show all details of a job.",
  args: { id: Input.required(JobFilterOptions.jobId, "The job's id.") },
  options: { logs: Input.flag("Also show what the handler has logged, by attempt.") },
  examples: {
    "nightshift jobs show <id>": "show all details of a job",
    "nightshift jobs show <id> --logs": "show all details and what the handler has logged",
    "nightshift jobs show <id> --json": "print JSON as in the HTTP API"
  },
  run: ({ id, json, logs }) =>
    Effect.gen(function* () {
      const search = yield* JobSearch
      const job = yield* search.get(id)
      const now = yield* Clock.currentTimeMillis
      const text = details(job, now, yield* podNames)
      if (!logs) return yield* print(json, JobView.of(job), text)
      const stored = yield* Effect.flatMap(JobLogs, (logs) => logs.read(id))
      const view = { ...JobView.of(job), logs: LogsRoutes.of(stored).attempts }
      yield* print(json, view, stack(text, LogText.of(stored)))
    })
})

const explanation = ({ detail, reason, until }: Why, now: number): string => {
  const when = until === undefined ? "" : `, until ${Instant.format(until)} (${age(until, now)})`
  return `${reason}${when}\n${printable(detail)}`
}

const jobIdOf = (given: string) =>
  isId(given)
    ? Effect.succeed(given as JobId)
    : Effect.flatMap(Workflows, (workflows) => Effect.map(workflows.show(given), ({ id }) => id))

const why = QueueCommand.make({
  about: "Explain why a job is not running and how to fix it.",
  args: {
    id: Input.required(
      JobFilterOptions.idOrExecution,
      "The job's id, or the id of a workflow execution, as in order/A-17."
    )
  },
  examples: {
    "nightshift jobs why <id>": "explain why a job is not running",
    "nightshift jobs why <id> --json": "print JSON"
  },
  run: ({ id, json }) =>
    Effect.gen(function* () {
      const why = yield* explain(yield* jobIdOf(id))
      const now = yield* Clock.currentTimeMillis
      yield* print(json, WhyView.of(why), explanation(why, now))
    }).pipe(Effect.provide(ClusterConfig.layer))
})

export const command = Command.group("List, inspect and manage jobs.", {
  list,
  show,
  why,
  run: JobActs.runNow,
  cancel: JobActs.cancel,
  requeue: JobActs.requeue,
  delete: JobActs.remove
})
