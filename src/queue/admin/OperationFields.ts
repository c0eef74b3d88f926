import type { Total } from "../search/Total.js"

// Types without Effect: the views of programs that use promises are made from them.

export const actions = ["cancel", "requeue", "run-now", "delete"] as const

/** An operation runs an action, or undoes another operation. */
export type OperationAction = (typeof actions)[number] | "undo"

export const statuses = ["running", "done", "cancelled", "failed"] as const

export type OperationStatus = (typeof statuses)[number]

/** The first jobs of a requeue, which have to succeed before the others follow. */
export interface RehearsalFields {
  /** How many there are to be. */
  readonly jobs: number
  /** Ids of those that were requeued. */
  readonly ids: ReadonlyArray<string>
  /** How many of them are done. */
  readonly succeeded: number
  /** `open`: not all have ended. `passed`: all succeeded, and the others follow. `failed`: the operation has stopped. */
  readonly verdict: "open" | "passed" | "failed"
}

/** An action on many jobs and its progress, without the filter. Times are epoch milliseconds. */
export interface OperationFields {
  /** Names it in the HTTP API, to watch, stop or undo it. */
  readonly id: string
  /** What it does to each job. */
  readonly action: OperationAction
  /** The operation that this one undoes. */
  readonly undoes: string | undefined
  /** Whether the previous state of the jobs is saved, so that the operation can be undone. */
  readonly undoable: boolean
  /** `cancelled`: an operator stopped it. `failed`: it stopped with an error. */
  readonly status: OperationStatus
  /** Who began it: how the caller connected, and its name. */
  readonly who: string
  /** Why, in the words of the caller. */
  readonly reason: string | undefined
  /** When it began. */
  readonly createdAt: number
  /** When its last batch was committed. */
  readonly updatedAt: number
  /** When it ended; undefined while it runs. */
  readonly finishedAt: number | undefined
  /** Number of matching jobs at the start; absent if counting took too long. */
  readonly total: Total | undefined
  /** Jobs that it changed. */
  readonly done: number
  /** Skipped jobs by reason: the state they were in, `not_found`, `dedupe_key_held`, `locked` or `changed`. */
  readonly skipped: Readonly<Record<string, number>>
  /** Jobs that failed with an error. */
  readonly failed: number
  /** The jobs that are requeued first, to see whether they succeed; undefined without a rehearsal. */
  readonly rehearsal: RehearsalFields | undefined
  /** Why the operation stopped early. */
  readonly error: string | undefined
}

/** How many jobs an operation would cover if it began now. */
export interface PreviewFields {
  /** How many there are; counting stops at 100,000, or when it takes too long. */
  readonly matched: Total
  /** Whether they are few enough to be restored within an hour. */
  readonly undoable: boolean
}
