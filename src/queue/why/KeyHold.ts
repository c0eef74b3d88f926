import type { JobId } from "../../core/Ids.js"
import type { QueueSettings } from "../settings/QueueSettings.js"

export interface KeyHold {
  readonly by: JobId
  /** `busy`: the other job is running and the key's limit is reached. `order`: it is an earlier job of an ordered key. */
  readonly cause: "busy" | "order"
  /** When that job is due, in epoch milliseconds; undefined if it is due or running. */
  readonly until: number | undefined
}

/** A job of the key that has started and is not finished. */
export interface StartedJob {
  readonly id: JobId
  readonly running: boolean
  readonly runAt: number
}

export interface KeyFacts {
  readonly id: JobId
  readonly perKey: NonNullable<QueueSettings["perKey"]>
  /** By id. */
  readonly begun: ReadonlyArray<StartedJob>
  /** The key's first due job that has not started. */
  readonly first: JobId | undefined
  readonly now: number
}

const behind = ({ id, runAt }: StartedJob, now: number): KeyHold => ({
  by: id,
  cause: "order",
  until: runAt > now ? runAt : undefined
})

/**
 * Returns the job that keeps a due job of the same key from being claimed, by the rules of the claim: a limit on
 * running jobs; with an order, started jobs go first; with strict order, no job overtakes one that waits for its retry.
 */
export const holdOf = ({ begun, first, id, now, perKey }: KeyFacts): KeyHold | undefined => {
  const running = begun.filter((job) => job.running)
  const [holder] = running
  if (holder !== undefined && running.length >= perKey.concurrency) {
    return { by: holder.id, cause: "busy", until: undefined }
  }
  if (perKey.order === "none") return undefined
  const waiting = begun.filter((job) => !job.running)
  const next = waiting.find(({ runAt }) => runAt <= now)
  if (next !== undefined) return next.id === id ? undefined : behind(next, now)
  const [unfinished] = waiting
  if (perKey.order === "strict" && unfinished !== undefined) return behind(unfinished, now)
  return first === undefined || first === id ? undefined : { by: first, cause: "order", until: undefined }
}
