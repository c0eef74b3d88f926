import type { JobId } from "../../core/Ids.js"
import type { Call, Change, History, Run } from "./History.js"

/** Something that should not have been. */
export interface Finding {
  readonly found: string
  readonly job?: JobId | undefined
}

/** A promise that can be seen to be kept. It is asked at every write, run and answer, and when all is over. */
export interface Invariant {
  readonly name: string
  /** What is promised, as a sentence. */
  readonly promise: string
  /** A row is about to be as it was written; the history do not know it yet. */
  readonly onChange?: (change: Change, history: History) => string | undefined
  /** A handler is about to begin. */
  readonly onRun?: (run: Run, history: History) => string | undefined
  /** An call is done; the history do not know its answer yet. */
  readonly onAnswer?: (call: Call, answer: unknown, history: History) => ReadonlyArray<Finding>
  readonly atEnd?: (history: History) => ReadonlyArray<Finding>
}
