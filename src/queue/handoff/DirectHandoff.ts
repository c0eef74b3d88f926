import { Context, type Effect, Layer, type Scope } from "effect"
import type { PodId } from "../../core/Ids.js"
import { untilClosed } from "../../core/Registration.js"
import type { ClaimedJob } from "../Queue.js"

// Direct handoff: if the process that enqueues a job also has a free worker for it, the job is stored as already
// claimed and passed to that worker, without a separate claim.

export interface JobGroup {
  readonly kind: string
  readonly version: number
  readonly count: number
}

/** A worker pool of this process that runs jobs of a queue. */
export interface HandoffReceiver {
  readonly pod: PodId
  /**
   * Reserves slots for these jobs. Returns false if it cannot run them, has too few free slots, or other jobs are known
   * to wait for those slots.
   */
  readonly reserve: (jobs: JobGroup) => boolean
  readonly release: (jobs: number) => void
  /** Runs jobs in reserved slots. Returns false if the worker pool has stopped. */
  readonly take: (jobs: ReadonlyArray<ClaimedJob>) => boolean
}

/** Registry of this process's worker pools, by queue. */
export class DirectHandoff extends Context.Tag("nightshift/queue/DirectHandoff")<
  DirectHandoff,
  {
    /** Reserves slots in a pool that serves the queue; undefined if none has enough. */
    readonly reserve: (queue: string, jobs: JobGroup) => HandoffReceiver | undefined
    /** Registers a pool for the queue until the Scope closes. */
    readonly join: (queue: string, receiver: HandoffReceiver) => Effect.Effect<void, never, Scope.Scope>
  }
>() {
  /** Makes the service, without pools. */
  static readonly make = (): typeof DirectHandoff.Service => {
    const joined = new Map<string, ReadonlyArray<HandoffReceiver>>()
    return {
      reserve: (queue, jobs) => joined.get(queue)?.find((receiver) => receiver.reserve(jobs)),
      join: (queue, receiver) =>
        untilClosed(
          () => void joined.set(queue, [...(joined.get(queue) ?? []), receiver]),
          () => {
            const others = joined.get(queue)?.filter((other) => other !== receiver) ?? []
            if (others.length === 0) joined.delete(queue)
            else joined.set(queue, others)
          }
        )
    }
  }

  /** The service of one process. */
  static readonly layer: Layer.Layer<DirectHandoff> = Layer.sync(DirectHandoff, DirectHandoff.make)
}
