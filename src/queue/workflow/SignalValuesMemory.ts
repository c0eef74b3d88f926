import { limits } from "../../core/StoredJob.js"
import type { SignalOutcome } from "./Execution.js"
import type { StoredDeferred } from "./ExecutionRecords.js"
import { bytesOf, signalOf, valueRow } from "./SignalValues.js"
import type { WorkflowTable } from "./WorkflowTableMemory.js"

interface NewValue {
  readonly execution: string
  readonly name: string
  readonly exit: unknown
  readonly id: string | undefined
}

/** Stores a value of a signal, as `complete_deferred()` does. Runs inside a step of the job table. */
export const put = (
  table: typeof WorkflowTable.Service,
  { execution, exit, id, name }: NewValue,
  now: number
): SignalOutcome | "full" => {
  const first = table.deferred(execution, "signal", name)
  const store = (number: number, early: boolean) => {
    const row = valueRow(name, number)
    const fresh = { dueAt: undefined, remaining: undefined, waiting: false, createdAt: now, early }
    const known = table.deferred(execution, row.kind, row.name)
    if (known?.completedAt !== undefined) return
    table.putDeferred({ ...fresh, ...known, ...row, execution, completedAt: now, exit, valueId: id })
  }
  if (first?.completedAt === undefined) {
    store(1, table.executionRow(execution) === undefined)
    return "completed"
  }
  const isOfName = (each: StoredDeferred) =>
    (each.kind === "signal" || each.kind === "value") && signalOf(each) === name
  if (id !== undefined && table.deferredsOf(execution).some((each) => each.valueId === id && isOfName(each)))
    return "repeated"
  const number = (first.arrived ?? 1) + 1
  const arrivedBytes = (first.arrivedBytes ?? 0) + bytesOf(exit)
  if (number > limits.signalValues || arrivedBytes > limits.signalBytes) return "full"
  table.putDeferred({ ...first, arrived: number, arrivedBytes })
  store(number, first.early)
  return "appended"
}
