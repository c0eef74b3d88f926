import { Effect } from "effect"
import { JobSearch } from "../queue/search/JobSearch.js"
import { SortField } from "../queue/search/JobSort.js"
import type { Engine, Ports } from "./Engine.js"
import * as JobFilter from "./JobFilter.js"
import * as JobView from "./JobView.js"
import * as Listing from "./Listing.js"
import { checkKnown, namesOf } from "./Options.js"
import { InvalidOptionError } from "./ShiftErrors.js"

/** Options of a list of jobs. */
export interface JobListOptions extends Listing.ListOptions {
  /**
   * What to sort by. `created` covers all matching jobs, as do `due` for scheduled and pending jobs and `finished` for dead
   * and done ones. Other orders cover the newest 10,000 matching jobs. [created]
   */
  readonly sort?: SortField | undefined
  /** `asc` for the oldest or smallest first. [desc] */
  readonly order?: "asc" | "desc" | undefined
}

/** Finds jobs by the filters of the HTTP API, and acts on all of them. */
export interface JobAdmin {
  /**
   * The jobs that match the filter: an async iterable that reads them in pages. Newest first, so that jobs enqueued meanwhile
   * are not part of it.
   */
  list(filter?: JobFilter.JobFilter, options?: JobListOptions): Listing.Listing<JobView.JobView>
  /** The number of jobs that match the filter. Rejects with SearchTooSlowError if counting takes more than 5 seconds. */
  count(filter?: JobFilter.JobFilter): Promise<number>
}

const listOptions = namesOf<JobListOptions>({ limit: 0, sort: 0, order: 0 })

const checkChoice = (option: string, given: string | undefined, choices: ReadonlyArray<string>): void => {
  if (given !== undefined && !choices.includes(given))
    throw new InvalidOptionError(
      option,
      `${option} must be one of ${choices.join(", ")}, got ${JSON.stringify(given)}.`
    )
}

export const make = ({ run }: Engine<Ports>): JobAdmin => {
  const list: JobAdmin["list"] = (given = {}, options = {}) => {
    const filter = JobFilter.read(given)
    checkKnown(options, listOptions, "an option of list")
    const { order = "desc", sort: by = "created" } = options
    checkChoice("sort", by, SortField.literals)
    checkChoice("order", order, ["asc", "desc"])
    const sort = { by, descending: order === "desc" }
    return Listing.make(async (request) => {
      const page = await run(Effect.flatMap(JobSearch, (search) => search.list(filter, { ...request, sort })))
      return { items: page.jobs.map(JobView.of), next: page.next }
    }, options)
  }

  return {
    list,
    count: async (given = {}) => {
      const filter = JobFilter.read(given)
      const total = Effect.flatMap(JobSearch, (search) => search.total(filter, Number.MAX_SAFE_INTEGER - 1))
      return (await run(total)).count
    }
  }
}
