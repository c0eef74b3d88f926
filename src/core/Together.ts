import { Effect, Exit, type Scope } from "effect"
import * as Batcher from "./Batcher.js"

export interface TogetherOptions<Item, Result, E> {
  /** The weight one item adds to a batch. [1] */
  readonly weight?: (item: Item) => number
  /** Maximum total weight of one batch. */
  readonly maxWeight: number
  /** Returns one result per item, in the order of the items. */
  readonly many: (items: ReadonlyArray<Item>) => Effect.Effect<ReadonlyArray<Result>, E>
  /** Sends a single item. Defaults to `many`. */
  readonly one?: (item: Item) => Effect.Effect<Result, E>
}

/**
 * Sends an item at once if none is in progress. Items that arrive meanwhile are sent together: an idle process does not wait
 * for a fiber of the batcher, and a busy one needs fewer statements.
 */
export const make = <Item, Result, E>({
  many,
  one = (item) => Effect.map(many([item]), ([result]) => result as Result),
  ...limits
}: TogetherOptions<Item, Result, E>): Effect.Effect<(item: Item) => Effect.Effect<Result, E>, never, Scope.Scope> => {
  const sendAll = (items: ReadonlyArray<Item>) =>
    items.length === 1 ? Effect.map(one(items[0] as Item), (result) => [result]) : many(items)
  return Effect.map(
    Batcher.make<Item, Result, E, never>({
      ...limits,
      lanes: 2,
      capacity: Number.POSITIVE_INFINITY,
      isolate: () => false,
      flush: (items) => Effect.map(sendAll(items), (results) => results.map((result) => Exit.succeed(result)))
    }),
    (batcher) => {
      let inProgress = 0
      const ended = Effect.sync(() => {
        inProgress -= 1
      })
      return (item) =>
        Effect.suspend(() => {
          const send = inProgress === 0 ? one(item) : batcher.submit(item)
          inProgress += 1
          return Effect.ensuring(send, ended)
        })
    }
  )
}
