import type { Duration } from "effect"
import type { StoredJob } from "../../core/StoredJob.js"
import type { Coverage } from "./Coverage.js"
import type { Fault } from "./Faults.js"
import type { Violation } from "./HistoryChecker.js"
import type { Plan } from "./Plan.js"
import { described } from "./PlanText.js"
import { line, type TraceEvent } from "./Trace.js"

/** Result of a run. */
export interface Report {
  /** Number that generated the plan. The same seed gives the same run. */
  readonly seed: number
  /** Actions and faults of the run. Pass it as `plan` to replay them. */
  readonly plan: Plan
  /** Number of jobs that the plan can enqueue. */
  readonly jobCount: number
  /** Injected faults, in order. */
  readonly faults: ReadonlyArray<Fault>
  /** Invariants that the run violated. Empty if it passed. */
  readonly violations: ReadonlyArray<Violation>
  /** All events of the run, in order. */
  readonly trace: ReadonlyArray<TraceEvent>
  /** Hash of the trace; the same seed gives the same value. */
  readonly fingerprint: string
  /** All jobs at the end of the run. */
  readonly jobs: ReadonlyArray<StoredJob>
  /** Which operations were hit by which faults. */
  readonly coverage: Coverage
  /** Elapsed virtual time. */
  readonly lasted: Duration.Duration
}

const indented = (lines: ReadonlyArray<string>) => lines.map((each) => `  ${each}`)

const ofFault = ({ call, kind, nth, who }: Fault) => `${who}: ${call} #${nth} is ${kind}`

const counted = (count: number, one: string, several = `${one}s`) => `${count} ${count === 1 ? one : several}`

const ofPlan = ({ faults, plan }: Report): ReadonlyArray<string> => [
  `fault plan: ${counted(plan.pods, "process", "processes")}, ${counted(plan.steps.length, "step")}, ${counted(faults.length, "fault")}`,
  ...indented(plan.steps.map((step) => line({ at: step.at, who: "plan", what: described(step), jobs: [] }))),
  ...indented(faults.map(ofFault))
]

/** Describes the violations: the invariant, the fault plan, and all trace events of the affected job. */
export const ofViolations = (report: Report): string => {
  const [first] = report.violations
  if (first === undefined) return `seed ${report.seed}: all invariants hold`
  const others = report.violations.slice(1)
  const about = report.trace.filter(({ jobs }) => first.job !== undefined && jobs.includes(first.job))
  return [
    `seed ${report.seed} violates an invariant: ${first.promise}`,
    `  ${first.invariant}: ${first.found}`,
    ...(others.length === 0 ? [] : [`  and ${others.length} more, the next: ${others[0]?.found}`]),
    "",
    ...ofPlan(report),
    ...(about.length === 0 ? [] : ["", "trace of the job", ...indented(about.map(line))])
  ].join("\n")
}

/** Formats the whole trace, one event per line. */
export const ofTrace = ({ trace }: Report): string => trace.map(line).join("\n")
