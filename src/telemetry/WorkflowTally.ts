import type { Series } from "./MetricFamily.js"
import * as MetricSpec from "./MetricSpec.js"
import type { Metrics } from "./Metrics.js"

const ended = MetricSpec.counter(
  "workflow_executions_ended_total",
  "Workflow executions that ended in this process: completed, failed or cancelled.",
  ["workflow", "end"]
)
const steps = MetricSpec.counter("workflow_steps_recorded_total", "Workflow steps recorded by this process.", [
  "kind",
  "outcome"
])
const signals = MetricSpec.counter(
  "workflow_signals_total",
  "Signals that this process stored (delivered), or ignored because a value with the same id was stored (repeated).",
  ["outcome"]
)

export type ExecutionEnd = "completed" | "failed" | "cancelled"

/** Workflow names come from users: beyond this many that are not registered, the rest are counted together. */
const maxWorkflows = 500
const others = "(other)"

/** Counters of workflow executions since process start. Plain calls, because every step uses them. */
export class WorkflowTally {
  private readonly series = new Map<string, Series>()
  private readonly workflows = new Set<string>()

  constructor(
    private readonly metrics: typeof Metrics.Service,
    private readonly isRegistered: (workflow: string) => boolean = () => false
  ) {}

  ended(workflow: string, end: ExecutionEnd): void {
    const name = this.isRegistered(workflow) || this.hasRoom(workflow) ? workflow : others
    this.of(`ended ${end} ${name}`, () => this.metrics.series(ended, { workflow: name, end })).add(1)
  }

  private hasRoom(workflow: string): boolean {
    if (this.workflows.size < maxWorkflows) this.workflows.add(workflow)
    return this.workflows.has(workflow)
  }

  /** Both labels have a few fixed values. */
  recorded(kind: string, outcome: string): void {
    this.of(`step ${kind} ${outcome}`, () => this.metrics.series(steps, { kind, outcome })).add(1)
  }

  signalled(outcome: "delivered" | "repeated"): void {
    this.of(`signal ${outcome}`, () => this.metrics.series(signals, { outcome })).add(1)
  }

  private of(key: string, make: () => Series): Series {
    const known = this.series.get(key)
    if (known !== undefined) return known
    const made = make()
    this.series.set(key, made)
    return made
  }
}
