import { nameOf } from "../../core/StepName.js"
import { keepAnswers } from "./Asks.js"
import type { Step } from "./Execution.js"
import type { StoredDeferred } from "./ExecutionRecords.js"
import { bytesOf, numberOf, openValues, signalOf, valueRow } from "./SignalValues.js"

const sizeOf = (values: ReadonlyArray<StoredDeferred>) => values.reduce((sum, { exit }) => sum + bytesOf(exit), 0)

/**
 * What is left of the waits of an execution that continues with a new journal: values and asks that its code has not received,
 * and new answers.
 */
export const keptSignals = (
  all: ReadonlyArray<StoredDeferred>,
  steps: ReadonlyArray<Step>,
  now: number
): ReadonlyArray<StoredDeferred> => {
  const values = openValues(all, steps).toSorted((a, b) => numberOf(a) - numberOf(b))
  const asks = all.filter(
    ({ completedAt, kind, name }) =>
      kind === "ask" &&
      (completedAt === undefined
        ? !steps.some((step) => step.name === nameOf("ask", name))
        : completedAt > now - keepAnswers)
  )
  return [
    ...asks,
    ...[...new Set(values.map(signalOf))].flatMap((signal) => {
      const own = values.filter((each) => signalOf(each) === signal)
      return own.map((each, index) => ({
        ...each,
        ...valueRow(signal, index + 1),
        waiting: false,
        dueAt: undefined,
        arrived: index === 0 && own.length > 1 ? own.length : undefined,
        arrivedBytes: index === 0 && own.length > 1 ? sizeOf(own.slice(1)) : undefined
      }))
    })
  ]
}
