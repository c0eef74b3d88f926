import { Context, Effect, Layer, type Scope } from "effect"
import type { PodId } from "../core/Ids.js"
import type { ClaimedJob } from "./Queue.js"

// Who stores a job and who would run it are often in one process, and the second waits. Then the job need not lie down first
// to be found again: it is stored as taken, and handed over.

/** Jobs of one kind. */
export interface Alike {
  readonly kind: string
  readonly version: number
  readonly count: number
}

/** Somebody in this process who runs jobs of a queue. */
export interface Hands {
  readonly pod: PodId
  /** Keeps some free for these jobs, if it can run them, and they are free now and nothing else is known to wait for them. */
  readonly reserve: (jobs: Alike) => boolean
  /** What was reserved is not needed. */
  readonly release: (jobs: number) => void
  /** Takes what was reserved. False when nobody works here any more. */
  readonly take: (jobs: ReadonlyArray<ClaimedJob>) => boolean
}

/** Hands that wait for work in this process, by queue. */
export class FreeHands extends Context.Tag("nightshift/queue/FreeHands")<
  FreeHands,
  {
    /** Hands that are kept free for these jobs of the queue; none when it has not so many. */
    readonly reserve: (queue: string, jobs: Alike) => Hands | undefined
    /** These work on the queue until the Scope closes. */
    readonly join: (queue: string, hands: Hands) => Effect.Effect<void, never, Scope.Scope>
  }
>() {
  static readonly layer: Layer.Layer<FreeHands> = Layer.sync(FreeHands, () => {
    const joined = new Map<string, ReadonlyArray<Hands>>()
    return {
      reserve: (queue, jobs) => joined.get(queue)?.find((hands) => hands.reserve(jobs)),
      join: (queue, hands) =>
        Effect.acquireRelease(
          Effect.sync(() => void joined.set(queue, [...(joined.get(queue) ?? []), hands])),
          () =>
            Effect.sync(() => {
              const others = joined.get(queue)?.filter((other) => other !== hands) ?? []
              if (others.length === 0) joined.delete(queue)
              else joined.set(queue, others)
            })
        )
    }
  })
}
