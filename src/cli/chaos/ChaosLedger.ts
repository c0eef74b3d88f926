import { Schema } from "effect"
import { JobId } from "../../core/Ids.js"

// Every job that a chaos run enqueued, and what its caller received for it. The check at the end compares this with
// what the service says.

/** The fields of a job in the API that the check reads. */
export const SeenJob = Schema.Struct({
  id: JobId,
  state: Schema.String,
  attempt: Schema.Int,
  attempts: Schema.Int,
  runAt: Schema.String,
  startedAt: Schema.NullOr(Schema.String),
  finishedAt: Schema.NullOr(Schema.String),
  result: Schema.Unknown
})
export type SeenJob = typeof SeenJob.Type

export interface Entry {
  readonly id: JobId
  /** The result that its handler must return. */
  readonly message: string
  acknowledged: boolean
  /** Cancelled by the run and not requeued. */
  cancelled: boolean
  /** When the run requeued it, its earlier end no longer counts. */
  requeued: boolean
  /** The job when it was first seen finished. */
  ended: SeenJob | undefined
  /** The job at the end of the run: undefined if the service does not know it. */
  last: SeenJob | undefined
}

export const makeEntry = (id: JobId, message: string): Entry => ({
  id,
  message,
  acknowledged: false,
  cancelled: false,
  requeued: false,
  ended: undefined,
  last: undefined
})

const finished = new Set(["done", "dead", "cancelled"])
export const isFinished = ({ state }: SeenJob): boolean => finished.has(state)

/** Whether the job has ended as the run expects. */
export const isSettled = ({ acknowledged, cancelled, last }: Entry): boolean => {
  if (last === undefined) return !acknowledged
  return isFinished(last) && (cancelled || last.state !== "cancelled")
}

const faultsOf = (entry: Entry): ReadonlyArray<string> => {
  const { acknowledged, cancelled, ended, id, last, message, requeued } = entry
  if (last === undefined) return acknowledged ? [`Job ${id} was acknowledged and is lost.`] : []
  const found: Array<string> = []
  if (!isFinished(last)) return [`Job ${id} has not ended: it is ${last.state}. Run: nightshift jobs why ${id}`]
  if (last.state === "dead" || (last.state === "cancelled" && !cancelled)) {
    found.push(`Job ${id} ended as ${last.state}; expected done.`)
  }
  if (last.state === "done" && last.result !== message) {
    found.push(`Job ${id} has the result ${JSON.stringify(last.result)}; expected ${JSON.stringify(message)}.`)
  }
  if (last.attempt > last.attempts) {
    found.push(`Job ${id} used ${last.attempt} attempts; the maximum is ${last.attempts}.`)
  }
  if (last.startedAt !== null && last.startedAt < last.runAt) {
    found.push(`Job ${id} started at ${last.startedAt}, before its time ${last.runAt}.`)
  }
  if (ended !== undefined && !requeued && (ended.state !== last.state || ended.finishedAt !== last.finishedAt)) {
    found.push(`Job ${id} changed after its end: ${ended.state} at ${ended.finishedAt}, then ${last.state}.`)
  }
  return found
}

/** Returns every broken promise as a sentence; empty if all hold. */
export const check = (entries: Iterable<Entry>): ReadonlyArray<string> => [...entries].flatMap(faultsOf)
