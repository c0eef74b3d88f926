import { Context, Effect, Layer, type Scope } from "effect"
import type { PodId } from "../../core/Ids.js"
import type { ClaimedJob } from "../Queue.js"

// Who stores a job and who would run it are often in one process, and the second waits. Then the job need not lie down first
// to be found again: it is stored as taken, and handed over.

/** Jobs of one kind. */
export interface JobGroup {
  readonly kind: string
  readonly version: number
  readonly count: number
}

/** Somebody in this process who runs jobs of a queue. */
export interface HandoffReceiver {
  readonly pod: PodId
  /** Keeps some free for these jobs, if it can run them, and they are free now and nothing else is known to wait for them. */
  readonly reserve: (jobs: JobGroup) => boolean
  /** What was reserved is not needed. */
  readonly release: (jobs: number) => void
  /** Takes what was reserved. False when nobody works here any more. */
  readonly take: (jobs: ReadonlyArray<ClaimedJob>) => boolean
}

/** HandoffReceiver that wait for work in this process, by queue. */
export class DirectHandoff extends Context.Tag("nightshift/queue/DirectHandoff")<
  DirectHandoff,
  {
    /** HandoffReceiver that are kept free for these jobs of the queue; none when it has not so many. */
    readonly reserve: (queue: string, jobs: JobGroup) => HandoffReceiver | undefined
    /** These work on the queue until the Scope closes. */
    readonly join: (queue: string, receiver: HandoffReceiver) => Effect.Effect<void, never, Scope.Scope>
  }
>() {
  static readonly layer: Layer.Layer<DirectHandoff> = Layer.sync(DirectHandoff, () => {
    const joined = new Map<string, ReadonlyArray<HandoffReceiver>>()
    return {
      reserve: (queue, jobs) => joined.get(queue)?.find((receiver) => receiver.reserve(jobs)),
      join: (queue, receiver) =>
        Effect.acquireRelease(
          Effect.sync(() => void joined.set(queue, [...(joined.get(queue) ?? []), receiver])),
          () =>
            Effect.sync(() => {
              const others = joined.get(queue)?.filter((other) => other !== receiver) ?? []
              if (others.length === 0) joined.delete(queue)
              else joined.set(queue, others)
            })
        )
    }
  })
}
