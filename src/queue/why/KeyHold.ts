import type { JobId } from "../../core/Ids.js"
import type { QueueSettings } from "../settings/QueueSettings.js"

/** Another job of the same key that comes first. */
export interface KeyHold {
  readonly by: JobId
  /** It runs and there is no room beside it, or it is the earlier one of a key whose jobs keep their order. */
  readonly cause: "busy" | "order"
  /** When that one is due itself, in epoch milliseconds; absent where it is due or runs. */
  readonly until: number | undefined
}

/** A job of the key that has begun and is not over. */
export interface BegunJob {
  readonly id: JobId
  readonly running: boolean
  readonly runAt: number
}

export interface KeyFacts {
  readonly id: JobId
  readonly perKey: NonNullable<QueueSettings["perKey"]>
  /** By id. */
  readonly begun: ReadonlyArray<BegunJob>
  /** The first due job of the key's line that has not begun. */
  readonly first: JobId | undefined
  readonly now: number
}

const behind = ({ id, runAt }: BegunJob, now: number): KeyHold => ({
  by: id,
  cause: "order",
  until: runAt > now ? runAt : undefined
})

/**
 * Who of its key keeps a due job from being claimed, by the rules of the claim: no more than may run; in order, whoever has
 * begun comes first; in strict order nobody passes one that waits for its retry.
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
