import { Clock, Context, Duration, Effect, Layer } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import { State } from "../../core/StoredJob.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { choices } from "../../queue/search/JobFilter.js"
import { type DeadGroups, JobOverview } from "../../queue/search/JobOverview.js"
import {
  type JobFilter,
  type JobPage,
  JobSearch,
  type PageRequest,
  type SearchTooSlow,
  type Total
} from "../../queue/search/JobSearch.js"
import * as CoalescingCache from "../CoalescingCache.js"
import { CountsCache, type TakenCounts } from "./CountsCache.js"

/** Counting on would read the whole table for a number that nobody acts on. */
const countedUpTo = 10_000

/** The same for a count that takes long: the page itself was found. */
const countPatience = Duration.millis(500)

/** Counts of the queues tell for so long what there is plenty of; some are estimates, so it must be far more than is counted. */
const countsTell = Duration.toMillis("2 minutes")
const plenty = 2 * countedUpTo

export interface CountedPage extends JobPage {
  readonly total: Total
}

/** What the queues' counts are by: a filter that says more is not answered by them. */
const isOfCounts = ({ queue, state, ...others }: JobFilter) =>
  Object.values(others).every((field) => field === undefined)

/** How many of the jobs meant there were when the queues were counted. */
const countIn = ({ queues }: TakenCounts, filter: JobFilter) => {
  const names = choices(filter.queue)
  const states = choices(filter.state) ?? State.literals
  return queues
    .filter(({ queue }) => names === undefined || names.includes(queue))
    .flatMap(({ counts }) => states.map((state) => counts[state]))
    .reduce((all, count) => all + count, 0)
}

/** Lists of jobs for everybody who looks: one look for all who ask the same, and counts that took long are kept for a while. */
export class ListCache extends Context.Tag("nightshift/http/ListCache")<
  ListCache,
  {
    readonly page: (
      filter: JobFilter,
      page: PageRequest
    ) => Effect.Effect<CountedPage, BadCursor | SearchTooSlow | DatabaseError>
    readonly deadGroups: (queue?: string) => Effect.Effect<DeadGroups, SearchTooSlow | DatabaseError>
    /** For whoever changes jobs by hand, and wants to see it. */
    readonly forget: Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<ListCache, never, JobSearch | JobOverview | CountsCache> = Layer.effect(
    ListCache,
    Effect.gen(function* () {
      const search = yield* JobSearch
      const overview = yield* JobOverview
      const counts = yield* CountsCache
      const pages = CoalescingCache.make<JobPage>(CoalescingCache.nothing)
      const totals = CoalescingCache.make<Total>({ most: 300, longest: "10 seconds" })
      const groups = CoalescingCache.make<DeadGroups>({ most: 30, longest: "10 seconds" })

      /** Where there are plenty by the queues' counts, counting them once more would tell nothing new. */
      const isPlenty = (filter: JobFilter, now: number) => {
        const taken = counts.last()
        return (
          taken !== undefined && now - taken.at < countsTell && isOfCounts(filter) && countIn(taken, filter) > plenty
        )
      }

      const total = (filter: JobFilter, atLeast: number) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          isPlenty(filter, now)
            ? Effect.succeed({ count: countedUpTo, exact: false })
            : totals.to(
                JSON.stringify(filter),
                // A page that was found in time is worth having although counting the rest would take too long.
                Effect.catchTag(search.total(filter, countedUpTo, countPatience), "SearchTooSlow", () =>
                  Effect.succeed({ count: atLeast, exact: false })
                )
              )
        )

      return {
        page: (filter, request) =>
          Effect.gen(function* () {
            const page = yield* pages.to(JSON.stringify([filter, request]), search.list(filter, request))
            const isAll = request.cursor === undefined && page.next === undefined
            if (isAll) return { ...page, total: { count: page.jobs.length, exact: true } }
            return { ...page, total: yield* total(filter, page.jobs.length + (page.next === undefined ? 0 : 1)) }
          }),
        deadGroups: (queue) => groups.to(queue ?? "", overview.deadGroups(queue)),
        forget: Effect.all([pages.forget, totals.forget, groups.forget], { discard: true })
      }
    })
  )
}
