import { Context, Effect, Layer } from "effect"
import * as CoalescingCache from "../../core/CoalescingCache.js"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { JobSearch, type QueueCounts, type SearchTooSlow } from "../../queue/search/JobSearch.js"

/** Job counts, and when they were taken, in epoch milliseconds. */
export interface TakenCounts {
  readonly queues: ReadonlyArray<QueueCounts>
  readonly at: number
}

/** Job counts of all queues, shared by all callers. */
export class CountsCache extends Context.Tag("nightshift/http/CountsCache")<
  CountsCache,
  {
    readonly read: Effect.Effect<TakenCounts, SearchTooSlow | DatabaseError>
    /** The last counts, if any. Does not run a query. */
    readonly last: () => TakenCounts | undefined
  }
>() {
  static readonly layer: Layer.Layer<CountsCache, never, JobSearch> = Layer.effect(
    CountsCache,
    Effect.gen(function* () {
      const search = yield* JobSearch
      const counts = yield* CoalescingCache.refreshed(search.counts, "1 second")
      let last: TakenCounts | undefined
      const read = Effect.map(counts, ({ at, value }) => {
        last = { queues: value, at }
        return last
      })
      return { read, last: () => last }
    })
  )
}
