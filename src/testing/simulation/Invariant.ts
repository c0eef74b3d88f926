import type { JobId } from "../../core/Ids.js"
import type { Act, Change, Facts, Run } from "./Facts.js"

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
  /** A row is about to be as it was written; the facts do not know it yet. */
  readonly onChange?: (change: Change, facts: Facts) => string | undefined
  /** A handler is about to begin. */
  readonly onRun?: (run: Run, facts: Facts) => string | undefined
  /** An act is done; the facts do not know its answer yet. */
  readonly onAnswer?: (act: Act, answer: unknown, facts: Facts) => ReadonlyArray<Finding>
  readonly atEnd?: (facts: Facts) => ReadonlyArray<Finding>
}
