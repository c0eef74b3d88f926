import type { Duration } from "effect"
import type { StoredJob } from "../../core/Job.js"
import type { Fault } from "./Faults.js"
import type { Plan } from "./Plan.js"
import type { Happening } from "./Trace.js"
import type { Violation } from "./Witness.js"

/** What came of a run. */
export interface Report {
  readonly seed: number
  readonly plan: Plan
  /** The faults that struck, in their order. */
  readonly faults: ReadonlyArray<Fault>
  /** Promises that were not kept. */
  readonly violations: ReadonlyArray<Violation>
  /** All that happened, step by step. */
  readonly trace: ReadonlyArray<Happening>
  /** The same for the same seed: a digest of the trace. */
  readonly fingerprint: string
  /** What has become of the jobs. */
  readonly jobs: ReadonlyArray<StoredJob>
  /** How much virtual time passed. */
  readonly lasted: Duration.Duration
}
