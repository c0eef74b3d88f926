import { Clock, Context, Duration, Effect, Layer } from "effect"
import type { DatabaseError } from "../../database/DatabaseError.js"
import { JobSearch, type QueueCounts, type SearchTooSlow } from "../../queue/search/JobSearch.js"

/** Counts, and when they were taken; epoch milliseconds. */
export interface TakenCounts {
  readonly queues: ReadonlyArray<QueueCounts>
  readonly at: number
}

/** Counts are taken again when they are this old, and never take more than a twentieth of the time. */
const fresh = { least: Duration.toMillis("1 second"), most: Duration.toMillis("1 minute"), timesCost: 20 }

/** Where counting fails, older counts are still worth having, for so long. */
const useful = Duration.toMillis("5 minutes")

/** The queues' counts for everybody who asks, counted once for all of them. */
export class CountsCache extends Context.Tag("nightshift/http/CountsCache")<
  CountsCache,
  { readonly read: Effect.Effect<TakenCounts, SearchTooSlow | DatabaseError> }
>() {
  static readonly layer: Layer.Layer<CountsCache, never, JobSearch> = Layer.effect(
    CountsCache,
    Effect.gen(function* () {
      const search = yield* JobSearch
      const turn = yield* Effect.makeSemaphore(1)
      let taken: TakenCounts | undefined
      let again = 0

      const count = Effect.gen(function* () {
        const at = yield* Clock.currentTimeMillis
        if (taken !== undefined && at < again) return taken
        const queues = yield* search.counts
        const cost = (yield* Clock.currentTimeMillis) - at
        taken = { queues, at }
        again = at + Math.min(fresh.most, Math.max(fresh.least, cost * fresh.timesCost))
        return taken
      })

      /** Who comes while others count waits for them, and finds what they found. */
      const read = Effect.flatMap(Clock.currentTimeMillis, (now) =>
        taken !== undefined && now < again ? Effect.succeed(taken) : turn.withPermits(1)(count)
      )

      return {
        read: Effect.catchAll(read, (error) =>
          Effect.flatMap(Clock.currentTimeMillis, (now) =>
            taken !== undefined && now - taken.at < useful ? Effect.succeed(taken) : Effect.fail(error)
          )
        )
      }
    })
  )
}
