import { Clock, Effect } from "effect"
import { type JobId, makeGenerator } from "../../core/Ids.js"
import type { StoredJob } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import * as Audited from "../../http/access/Audited.js"
import * as JobSummary from "../../http/jobs/JobSummary.js"
import * as JobView from "../../http/jobs/JobView.js"
import { allowedStates } from "../../queue/admin/OperationScope.js"
import type { Action } from "../../queue/admin/Operations.js"
import { rehearsalLimits } from "../../queue/admin/Rehearsal.js"
import { type JobActions, JobAdmin } from "../../queue/JobAdmin.js"
import type { DedupeKeyHeld, JobNotFound, JobNotInState } from "../../queue/JobErrors.js"
import { isEmpty } from "../../queue/search/JobFilter.js"
import { JobSearch } from "../../queue/search/JobSearch.js"
import { actOnEach } from "../ActOnEach.js"
import * as CommonOptions from "../CommonOptions.js"
import { UsageError } from "../Failure.js"
import * as Command from "../kit/Command.js"
import * as Input from "../kit/Input.js"
import * as Operator from "../Operator.js"
import { onDatabase } from "../QueueCommand.js"
import * as JobFilterOptions from "./JobFilterOptions.js"
import * as JobsBulk from "./JobsBulk.js"

type Refusal = JobNotFound | JobNotInState | DedupeKeyHeld

/** An action on jobs: its implementation and its messages. */
interface JobAct {
  readonly action: Action
  readonly about: string
  readonly examples: Command.Examples
  readonly act: (actions: JobActions, id: JobId) => Effect.Effect<StoredJob, Refusal | DatabaseError>
  readonly report: (job: StoredJob) => string
}

const performEach = ({ act, action, report }: JobAct, ids: ReadonlyArray<JobId>, json: boolean) =>
  Effect.gen(function* () {
    const jobAdmin = yield* JobAdmin
    const search = yield* JobSearch
    const audited = yield* Audited.make
    const actIds = yield* makeGenerator
    yield* actOnEach(ids, json, {
      act: (id) =>
        Effect.gen(function* () {
          // Recent actions in Mission Control can undo it.
          const undo = actIds.plain(yield* Clock.currentTimeMillis)
          const [, after] = yield* Effect.zip(search.get(id), act(jobAdmin.recordingUndo(undo), id)).pipe(
            audited(`job.${action}`, id, ([before, after]) => ({
              id: undo,
              before: JobSummary.of(before),
              ...(action === "delete" ? {} : { after: JobSummary.of(after) })
            }))
          )
          return after
        }),
      report,
      view: (id, job) => ({ id, job: job === undefined ? null : JobView.of(job) })
    })
  })

interface Rehearse {
  readonly rehearse?: number | undefined
}

const rehearseOption: Input.Inputs<Rehearse> = {
  rehearse: Input.optional(
    Input.integer(rehearsalLimits),
    "With a filter: requeue this many jobs first, and the others only if all of them succeed."
  )
}
const noOption: Input.Inputs<Rehearse> = {}

const command = (name: string, job: JobAct) =>
  Command.make({
    about: job.about,
    args: { id: Input.repeated(JobFilterOptions.jobId, "The job's id.") },
    options: {
      ...CommonOptions.database,
      ...JobFilterOptions.options(allowedStates(job.action)),
      ...(job.action === "requeue" ? rehearseOption : noOption),
      dryRun: Input.flag("With a filter: show the matching jobs without changing them."),
      reason: Operator.reason,
      json: CommonOptions.json
    },
    examples: job.examples,
    run: (given) =>
      Effect.gen(function* () {
        const { dryRun, id: ids, json } = given
        const filter = JobFilterOptions.filterOf(given)
        if (isEmpty(filter) === (ids.length === 0)) {
          const message = `Select the jobs to ${name} by id or by a filter such as --queue or --state, not both.`
          return yield* new UsageError({ message })
        }
        if (dryRun && ids.length > 0)
          return yield* new UsageError({ message: "--dry-run requires a filter and cannot be used with ids." })
        if (given.rehearse !== undefined && (dryRun || ids.length > 0))
          return yield* new UsageError({
            message: "--rehearse requires a filter and cannot be used with ids or --dry-run."
          })
        const scope = ids.length > 0 ? undefined : yield* JobsBulk.scopeOf(job.action, filter)
        const work = Effect.gen(function* () {
          if (scope === undefined) return yield* performEach(job, ids, json)
          yield* JobsBulk.perform({ action: job.action, filter: scope, dryRun, rehearse: given.rehearse, json })
        })
        yield* work.pipe(Operator.acting(given.reason), onDatabase(given))
      })
  })

export const runNow = command("run", {
  action: "run-now",
  about: "Make scheduled and retrying jobs due now.",
  examples: {
    "nightshift jobs run <id>": "run a scheduled or retrying job now",
    "nightshift jobs run --kind receipt --state retrying": "do not wait for the retries of these jobs"
  },
  act: (actions, id) => actions.runNow(id),
  report: ({ id }) => `made ${id} due now`
})

export const cancel = command("cancel", {
  action: "cancel",
  about: "Cancel jobs. Waiting jobs are cancelled immediately; running jobs are asked to stop.",
  examples: {
    "nightshift jobs cancel <id> <id>": "cancel two jobs",
    "nightshift jobs cancel --batch <id>": "cancel the jobs of a batch",
    "nightshift jobs cancel --queue mail --state scheduled --dry-run": "show what would be cancelled"
  },
  act: (actions, id) => actions.cancel(id),
  report: ({ id, state }) => (state === "running" ? `asked ${id} to stop` : `cancelled ${id}`)
})

export const requeue = command("requeue", {
  action: "requeue",
  about: "Run finished jobs again from attempt 1. A filter without --state selects dead jobs.",
  examples: {
    "nightshift jobs requeue <id> <id>": "run finished jobs again from attempt 1",
    "nightshift jobs requeue --kind receipt --text ECONNREFUSED": "requeue all jobs with the same error",
    "nightshift jobs requeue --kind receipt --rehearse 5": "requeue 5, then the others if all 5 succeed"
  },
  act: (actions, id) => actions.requeue(id),
  report: ({ id }) => `requeued ${id}`
})

export const remove = command("delete", {
  action: "delete",
  about: "Delete jobs that are not running.",
  examples: {
    "nightshift jobs delete --state done --until 2026-01-01T00:00:00Z": "delete old done jobs"
  },
  act: (actions, id) => actions.remove(id),
  report: ({ id }) => `deleted ${id}`
})
