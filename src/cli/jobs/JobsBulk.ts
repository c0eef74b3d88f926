import { Clock, Console, Effect } from "effect"
import * as ErrorText from "../../core/ErrorText.js"
import { isWaiting, type StoredJob } from "../../core/StoredJob.js"
import * as Audited from "../../http/access/Audited.js"
import { Caller } from "../../http/access/Caller.js"
import * as JobsFilter from "../../http/jobs/JobsFilter.js"
import * as JobView from "../../http/jobs/JobView.js"
import { runToEnd } from "../../queue/admin/OperationRunner.js"
import { previewOf, resolve } from "../../queue/admin/OperationScope.js"
import { type Action, type Operation, Operations } from "../../queue/admin/Operations.js"
import type { JobFilter } from "../../queue/search/JobFilter.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { SomeFailed, UsageError } from "../Failure.js"
import * as ProgressBar from "../ProgressBar.js"
import { age, print, printable, printJson, printText, type Shown, stack, table } from "../Terminal.js"

const jobRow = (now: number) => (job: StoredJob) => [
  job.id,
  job.state,
  printable(job.kind),
  job.queue,
  `${job.attempt}/${job.attempts}`,
  age(job.createdAt, now),
  isWaiting(job.state) ? age(job.runAt, now) : "-"
]

const longestError = 80

/** The first line of the last error, shortened. */
const errorOf = ({ lastError }: StoredJob): string => {
  if (lastError === undefined) return "-"
  const line = printable(ErrorText.headline(lastError))
  return line.length > longestError ? `${line.slice(0, longestError - 1)}…` : line
}

/** Renders jobs as a table, one line per job. If one of them has failed, the last column has the last error. */
export const jobTable = (jobs: ReadonlyArray<StoredJob>, now: number): Shown => {
  const hasErrors = jobs.some(({ lastError }) => lastError !== undefined)
  const rows = jobs.map((job) => [...jobRow(now)(job), ...(hasErrors ? [errorOf(job)] : [])])
  return table(
    ["ID", "STATE", "KIND", "QUEUE", "ATTEMPT", "CREATED", "DUE", ...(hasErrors ? ["LAST ERROR"] : [])],
    rows
  )
}

const pastTense: Readonly<Record<Action, string>> = {
  cancel: "cancelled",
  requeue: "requeued",
  "run-now": "made due",
  delete: "deleted"
}

/** Prints the number of matching jobs and a sample of them (--dry-run). */
const preview = (action: Action, filter: JobFilter, json: boolean) =>
  Effect.gen(function* () {
    const { filter: bound, matched, sample: jobs } = yield* previewOf(yield* JobSearch, action, filter)
    if (json) return yield* printJson({ matched, filter: JobsFilter.view(bound), sample: jobs.map(JobView.ofListed) })
    const now = yield* Clock.currentTimeMillis
    yield* Console.log(
      `${action} matches ${matched.exact ? "" : "at least "}${matched.count} ${matched.count === 1 ? "job" : "jobs"}.`
    )
    if (jobs.length > 0) yield* printText(stack("", jobTable(jobs, now)))
  })

const view = ({ action, done, error, failed, id, rehearsal, skipped, status, total }: Operation) => ({
  operation: id,
  action,
  status,
  total: total ?? null,
  done,
  skipped,
  failed,
  rehearsal: rehearsal ?? null,
  error: error ?? null
})

/** Completes the filter of an action, or refuses it with the name of the option. */
export const scopeOf = (action: Action, filter: JobFilter) =>
  Effect.mapError(resolve(action, filter), ({ message }) => {
    const named = message.replace(/^filter\.payload/, "--containing").replace(/^filter\./, "--")
    return new UsageError({ message: named })
  })

/** Runs an action on all jobs that match a filter of `scopeOf`, in batches. If this process exits, a pod continues the operation. */
export const perform = (given: {
  readonly action: Action
  readonly filter: JobFilter
  readonly dryRun: boolean
  /** Number of jobs to requeue first. */
  readonly rehearse: number | undefined
  readonly json: boolean
}) =>
  Effect.gen(function* () {
    const { action, dryRun, filter, json, rehearse } = given
    if (dryRun) return yield* preview(action, filter, json)
    const operations = yield* Operations
    const audited = yield* Audited.make
    const { reason, who } = yield* Caller
    const begun = yield* operations.begin({ action, target: { filter }, who, reason, rehearse }).pipe(
      audited(
        `jobs.${action}`,
        ({ id }) => id,
        ({ total }) => ({
          after: { filter: JobsFilter.view(filter), total, ...(rehearse === undefined ? {} : { rehearse }) }
        })
      )
    )
    const ended = yield* runToEnd(begun.id, ProgressBar.show).pipe(
      Effect.onInterrupt(() =>
        Console.error(`nightshift: Interrupted. A running process completes operation ${begun.id}.`)
      )
    )
    yield* print(json, view(ended), `${pastTense[action]} ${ended.done} ${ended.done === 1 ? "job" : "jobs"}`)
    const reasons = [
      ...Object.entries(ended.skipped).map(([why, count]) => `${count} skipped: ${why.replaceAll("_", " ")}.`),
      ...(ended.failed > 0 ? [`${ended.failed} failed.`] : []),
      ...(ended.status === "done" ? [] : [`Operation ${ended.id} is ${ended.status}. ${ended.error ?? ""}`.trim()])
    ]
    if (reasons.length > 0) return yield* new SomeFailed({ reasons })
  })
