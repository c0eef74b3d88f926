import type { Duration } from "effect"
import type { StoredJob } from "../../core/StoredJob.js"
import type { Fault } from "./Faults.js"
import type { Violation } from "./HistoryChecker.js"
import type { Plan } from "./Plan.js"
import type { TraceEvent } from "./Trace.js"

/** Result of a run. */
export interface Report {
  readonly seed: number
  readonly plan: Plan
  /** Injected faults, in order. */
  readonly faults: ReadonlyArray<Fault>
  /** Violated invariants. */
  readonly violations: ReadonlyArray<Violation>
  /** All events of the run, in order. */
  readonly trace: ReadonlyArray<TraceEvent>
  /** Hash of the trace; the same seed gives the same value. */
  readonly fingerprint: string
  /** All jobs at the end of the run. */
  readonly jobs: ReadonlyArray<StoredJob>
  /** Elapsed virtual time. */
  readonly lasted: Duration.Duration
}
