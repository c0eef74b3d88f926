import { Clock, Context, Duration, Effect, FiberRef, Layer } from "effect"
import type { BadCursor } from "../../core/BadCursor.js"
import * as CoalescingCache from "../../core/CoalescingCache.js"
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
  type SortRefused,
  type Total
} from "../../queue/search/JobSearch.js"
import * as Sealer from "../../seal/Sealer.js"
import { CountsCache, type TakenCounts } from "./CountsCache.js"

/** Maximum exact count. Counting further could read the whole table. */
const countedUpTo = 10_000

/** Timeout of the count, which only accompanies the page. */
const countTimeout = Duration.millis(500)

/**
 * Maximum age of queue counts used instead of a query. They include estimates, so they are used only far above
 * `countedUpTo`.
 */
const countsMaxAge = Duration.toMillis("2 minutes")
const wellAboveCap = 2 * countedUpTo

export interface CountedPage extends JobPage {
  readonly total: Total
}

/** Whether a filter uses only queue and state, the fields that queue counts have. */
const isOfCounts = ({ queue, state, ...others }: JobFilter) =>
  Object.values(others).every((field) => field === undefined)

/** Number of matching jobs according to the queue counts. */
const countIn = ({ queues }: TakenCounts, filter: JobFilter) => {
  const names = choices(filter.queue)
  const states = choices(filter.state) ?? State.literals
  return queues
    .filter(({ queue }) => names === undefined || names.includes(queue))
    .flatMap(({ counts }) => states.map((state) => counts[state].value))
    .reduce((all, count) => all + count, 0)
}

/** Job lists with totals. Equal concurrent queries are coalesced, and expensive counts are cached. */
export class ListCache extends Context.Tag("nightshift/http/ListCache")<
  ListCache,
  {
    readonly page: (
      filter: JobFilter,
      page: PageRequest
    ) => Effect.Effect<CountedPage, BadCursor | SortRefused | SearchTooSlow | DatabaseError>
    readonly deadGroups: (queue?: string) => Effect.Effect<DeadGroups, SearchTooSlow | DatabaseError>
    /** Drops cached results after an operator's change, so that the change is visible. */
    readonly forget: Effect.Effect<void>
  }
>() {
  static readonly layer: Layer.Layer<ListCache, never, JobSearch | JobOverview | CountsCache> = Layer.effect(
    ListCache,
    Effect.gen(function* () {
      const search = yield* JobSearch
      const overview = yield* JobOverview
      const counts = yield* CountsCache
      const pages = CoalescingCache.make<JobPage>(CoalescingCache.noCaching)
      const totals = CoalescingCache.make<Total>({ maxEntries: 300, longest: "10 seconds" })
      const groups = CoalescingCache.make<DeadGroups>({ maxEntries: 30, longest: "10 seconds" })

      /** Whether the queue counts already show more than the maximum exact count, so a query is not needed. */
      const isWellAboveCap = (filter: JobFilter, now: number) => {
        const taken = counts.last()
        return (
          taken !== undefined &&
          now - taken.at < countsMaxAge &&
          isOfCounts(filter) &&
          countIn(taken, filter) > wellAboveCap
        )
      }

      const total = (filter: JobFilter, atLeast: number) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) =>
          isWellAboveCap(filter, now)
            ? Effect.succeed({ count: countedUpTo, exact: false })
            : totals.get(
                JSON.stringify(filter),
                // Return the page even if counting times out.
                Effect.catchTag(search.total(filter, countedUpTo, countTimeout), "SearchTooSlow", () =>
                  Effect.succeed({ count: atLeast, exact: false })
                )
              )
        )

      return {
        page: (filter, request) =>
          Effect.gen(function* () {
            // Callers with other rights see sealed values differently.
            const mode = yield* FiberRef.get(Sealer.reading)
            const page = yield* pages.get(JSON.stringify([mode, filter, request]), search.list(filter, request))
            const isAll = request.cursor === undefined && page.next === undefined
            if (isAll) return { ...page, total: { count: page.jobs.length, exact: true } }
            const isMore = page.next !== undefined && page.searched === undefined
            return { ...page, total: yield* total(filter, page.jobs.length + (isMore ? 1 : 0)) }
          }),
        deadGroups: (queue) => groups.get(queue ?? "", overview.deadGroups(queue)),
        forget: Effect.all([pages.forget, totals.forget, groups.forget], { discard: true })
      }
    })
  )
}
