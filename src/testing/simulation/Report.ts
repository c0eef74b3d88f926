import type { Duration } from "effect"
import type { StoredJob } from "../../core/StoredJob.js"
import type { Fault } from "./Faults.js"
import type { Violation } from "./HistoryChecker.js"
import type { Plan } from "./Plan.js"
import type { TraceEvent } from "./Trace.js"

/** What came of a run. */
export interface Report {
  readonly seed: number
  readonly plan: Plan
  /** The faults that struck, in their order. */
  readonly faults: ReadonlyArray<Fault>
  /** Promises that were not kept. */
  readonly violations: ReadonlyArray<Violation>
  /** All that happened, step by step. */
  readonly trace: ReadonlyArray<TraceEvent>
  /** The same for the same seed: a digest of the trace. */
  readonly fingerprint: string
  /** What has become of the jobs. */
  readonly jobs: ReadonlyArray<StoredJob>
  /** How much virtual time passed. */
  readonly lasted: Duration.Duration
}
