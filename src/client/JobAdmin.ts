import { hostname } from "node:os"
import { Effect } from "effect"
import { shown } from "../core/Storable.js"
import { runToEnd } from "../queue/admin/OperationRunner.js"
import { previewOf, resolve } from "../queue/admin/OperationScope.js"
import { type Action, type Operation, Operations } from "../queue/admin/Operations.js"
import type { JobFilter as StoredFilter } from "../queue/search/JobFilter.js"
import { JobSearch } from "../queue/search/JobSearch.js"
import { type SortField, sortFields } from "../queue/search/SortField.js"
import type { Engine, Ports } from "./Engine.js"
import * as JobFilter from "./JobFilter.js"
import * as JobView from "./JobView.js"
import * as Listing from "./Listing.js"
import * as OperationView from "./OperationView.js"
import { checkKnown, namesOf } from "./Options.js"
import { InvalidOptionError, OperationStoppedError } from "./ShiftErrors.js"

/** How many jobs to list, and in which order. */
export interface JobListOptions extends Listing.ListOptions {
  /**
   * What to sort by. `created` covers all matching jobs, as do `due` for scheduled and pending jobs and `finished` for dead
   * and done ones. Other orders cover the newest 10,000 matching jobs. [created]
   */
  readonly sort?: SortField | undefined
  /** `asc` for the oldest or smallest first; then set `until` or `limit`, so that new jobs do not prolong the list. [desc] */
  readonly order?: "asc" | "desc" | undefined
}

/** Options of an action on many jobs. */
export interface BulkOptions {
  /** Changes nothing; returns the number of matching jobs and the newest ten. [false] */
  readonly dryRun?: boolean | undefined
  /** Why, for the operators who see the operation in the HTTP API. */
  readonly reason?: string | undefined
}

/** An action on all jobs that match a filter. Resolves when it has ended, or with `dryRun` to what it would do. */
export interface BulkAct {
  (
    filter: JobFilter.JobFilter,
    options: BulkOptions & {
      /** Changes nothing, and shows what would be changed. */
      readonly dryRun: true
    }
  ): Promise<OperationView.BulkPreview>
  (
    filter: JobFilter.JobFilter,
    options?: BulkOptions & {
      /** Changes the jobs. */
      readonly dryRun?: false | undefined
    }
  ): Promise<OperationView.OperationView>
  (filter: JobFilter.JobFilter, options: BulkOptions): Promise<OperationView.OperationView | OperationView.BulkPreview>
}

/** Finds jobs by the filters of the HTTP API, and acts on all of them. */
export interface JobAdmin {
  /**
   * The jobs that match the filter: an async iterable that reads them in pages. Newest first, so that jobs enqueued meanwhile
   * are not part of it. With `order: "asc"` they are, and an iteration may not end while jobs are enqueued: set `until` or
   * `limit`. Every page may reject with SearchTooSlowError, also after others were read, if it takes more than 5 seconds.
   */
  list(filter?: JobFilter.JobFilter, options?: JobListOptions): Listing.Listing<JobView.JobView>
  /** The number of jobs that match the filter. Rejects with SearchTooSlowError if counting takes more than 5 seconds. */
  count(filter?: JobFilter.JobFilter): Promise<number>
  /** Cancels matching jobs. Waiting jobs are cancelled immediately; the handlers of running jobs get an abort signal. */
  readonly cancel: BulkAct
  /** Makes matching jobs pending and due now, from their first attempt. Without a `state`, only dead jobs. */
  readonly requeue: BulkAct
  /** Makes matching jobs due now. Without a `state`, scheduled and retrying jobs. */
  readonly runNow: BulkAct
  /** Deletes matching jobs that are not running. */
  readonly delete: BulkAct
}

const listOptions = namesOf<JobListOptions>({ limit: 0, sort: 0, order: 0 })

const bulkOptions = namesOf<BulkOptions>({ dryRun: 0, reason: 0 })

/** The name in the list of operations. */
const who = () => `client:${hostname()}`

const checkBulk = (name: string, filter: unknown, options: BulkOptions): void => {
  if (typeof filter === "string")
    throw new InvalidOptionError(
      "filter",
      `jobs.${name} takes a filter like { queue: "mail" }, got ${shown(filter)}. To act on one job, use shift.cancel(id) or shift.requeue(id).`
    )
  // A value that the caller forgot to set must not widen the filter to all jobs.
  const unset = Object.entries(filter ?? {}).find(([, value]) => value === undefined)?.[0]
  if (unset !== undefined)
    throw new InvalidOptionError(
      `filter.${unset}`,
      `filter.${unset} is undefined, so jobs.${name} would not filter by it. Give it a value or leave it out.`
    )
  checkKnown(options, bulkOptions, `an option of jobs.${name}`)
  const { dryRun, reason } = options
  if (dryRun !== undefined && typeof dryRun !== "boolean")
    throw new InvalidOptionError("dryRun", `dryRun must be true or false, got ${shown(dryRun)}.`)
  if (reason !== undefined && typeof reason !== "string")
    throw new InvalidOptionError("reason", `reason must be a string, got ${shown(reason)}.`)
}

const stopped = ({ action, done, error, id, skipped, status }: Operation) => {
  const what = status === "failed" ? "failed" : "was stopped by an operator"
  const why = error === undefined ? "" : ` ${error}`
  const message = `Operation ${id} (${action}) ${what} after it had changed ${done} ${done === 1 ? "job" : "jobs"}.${why}`
  return new OperationStoppedError({ operation: id, done, skipped }, message)
}

const checkChoice = (option: string, given: string | undefined, choices: ReadonlyArray<string>): void => {
  if (given !== undefined && !choices.includes(given))
    throw new InvalidOptionError(
      option,
      `${option} must be one of ${choices.join(", ")}, got ${JSON.stringify(given)}.`
    )
}

/** @internal */
export const make = ({ run }: Engine<Ports>): JobAdmin => {
  const list: JobAdmin["list"] = (given = {}, options = {}) => {
    const filter = JobFilter.read(given)
    checkKnown(options, listOptions, "an option of list")
    const { order = "desc", sort: by = "created" } = options
    checkChoice("sort", by, sortFields)
    checkChoice("order", order, ["asc", "desc"])
    const sort = { by, descending: order === "desc" }
    return Listing.make(async (request) => {
      const page = await run(Effect.flatMap(JobSearch, (search) => search.list(filter, { ...request, sort })))
      return { items: page.jobs.map(JobView.of), next: page.next }
    }, options)
  }

  const begin = (action: Action, filter: StoredFilter, reason: string | undefined) =>
    Effect.gen(function* () {
      const operations = yield* Operations
      const { id } = yield* operations.begin({ action, target: { filter }, who: who(), reason })
      return yield* runToEnd(id)
    })

  const act = (name: Exclude<keyof JobAdmin, "list" | "count">, action: Action): BulkAct => {
    const perform = async (given: JobFilter.JobFilter, options: BulkOptions = {}) => {
      checkBulk(name, given, options)
      const filter = await run(resolve(action, JobFilter.read(given)))
      if (options.dryRun === true)
        return OperationView.ofPreview(
          await run(Effect.flatMap(JobSearch, (search) => previewOf(search, action, filter)))
        )
      const ended = await run(begin(action, filter, options.reason))
      if (ended.status === "done") return OperationView.of(ended)
      throw stopped(ended)
    }
    return perform as BulkAct
  }

  return {
    cancel: act("cancel", "cancel"),
    requeue: act("requeue", "requeue"),
    runNow: act("runNow", "run-now"),
    delete: act("delete", "delete"),
    list,
    count: async (given = {}) => {
      const filter = JobFilter.read(given)
      const total = Effect.flatMap(JobSearch, (search) => search.total(filter, Number.MAX_SAFE_INTEGER - 1))
      return (await run(total)).count
    }
  }
}
