import type { JobId } from "../../core/Ids.js"
import type { History } from "./History.js"
import type { Call, Change, Run } from "./HistoryEntry.js"

/** One violation found by an invariant. */
export interface Finding {
  /** What happened instead. */
  readonly found: string
  /** The affected job, whose events the report then shows. */
  readonly job?: JobId | undefined
}

/** A property checked at every row change, handler start and reply, and at the end. */
export interface Invariant {
  /** Short name, for `stopAt` and the report. */
  readonly name: string
  /** What must always hold, as a sentence for the report. */
  readonly promise: string
  /** Called for a row change, before it is added to the history. */
  readonly onChange?: (change: Change, history: History) => string | undefined
  /** Called before a handler starts. */
  readonly onRun?: (run: Run, history: History) => string | undefined
  /** Called for the reply of an operation, before it is added to the history. */
  readonly onAnswer?: (call: Call, answer: unknown, history: History) => ReadonlyArray<Finding>
  /** Called once, after the cluster has drained and its pods have stopped. */
  readonly atEnd?: (history: History) => ReadonlyArray<Finding>
}
