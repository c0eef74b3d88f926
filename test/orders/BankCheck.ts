import { pace } from "../faults/FaultCase.js"
import type { Absence } from "../faults/HistoryChecker.js"

// Compares the bank's book, which step bodies write themselves, with how the executions ended. Like a payment provider, the
// bank accepts a repeated request with the same idempotency key and books it once: a body that was killed between its
// effect and its record runs again, which no engine can prevent.

/** A line of the book. A charge or a refund begins, then takes effect. */
export interface BookEntry {
  readonly event: "charge begins" | "charged" | "refund begins" | "refunded"
  readonly execution: string
  /** The idempotency key of the request. */
  readonly key: string
  /** The key of the charge. */
  readonly payment: string
  readonly pid: number
  readonly at: number
}

/** An execution at the end. */
export interface Ended {
  readonly execution: string
  readonly status: string
  readonly reason: string | null
  /** Names of the steps whose success is in its journal. */
  readonly recorded: ReadonlyArray<string>
}

export interface BankFacts {
  readonly book: ReadonlyArray<BookEntry>
  readonly ended: ReadonlyArray<Ended>
  readonly absences: ReadonlyArray<Absence>
}

export interface BankReport {
  readonly violations: ReadonlyArray<string>
  readonly charges: number
  readonly refunds: number
  /** Requests that were repeated with the same key. */
  readonly repeated: number
  /** Charges of executions that were not done, without a record because their process was killed or stopped. */
  readonly unrecorded: ReadonlyArray<string>
}

/** A process that lives this long after a charge must have recorded it, in milliseconds. */
const recordsWithin = 2_000 * pace

/** Whether the process was killed or stopped before it had to record the entry. */
const wasAbsent = (absences: ReadonlyArray<Absence>, { at, pid }: BookEntry) =>
  absences.some((absence) => absence.pid === pid && absence.to > at && absence.from < at + recordsWithin)

/** A step that was undone charges under a new key when its execution is tried again. */
const afterUndo = /\/after-undo-(\d+)$/
const firstKey = (key: string) => key.replace(afterUndo, "")
const undosBefore = (key: string) => Number(afterUndo.exec(key)?.[1] ?? 0)

const stepOf = ({ execution, key }: BookEntry) => firstKey(key).slice(execution.length + 1)

const groupBy = (entries: ReadonlyArray<BookEntry>, by: (entry: BookEntry) => string) => {
  const groups = new Map<string, Array<BookEntry>>()
  for (const entry of entries) groups.set(by(entry), [...(groups.get(by(entry)) ?? []), entry])
  return groups
}

/** Returns every broken promise about money as a sentence. */
export const check = ({ absences, book, ended }: BankFacts): BankReport => {
  const violations: Array<string> = []
  const unrecorded: Array<string> = []
  const executions = new Map(ended.map((one) => [one.execution, one]))
  const charges = groupBy(
    book.filter(({ event }) => event === "charged"),
    ({ key }) => key
  )
  const refunds = groupBy(
    book.filter(({ event }) => event === "refunded"),
    ({ payment }) => payment
  )
  const lastTries = new Map<string, number>()
  for (const key of charges.keys())
    lastTries.set(firstKey(key), Math.max(undosBefore(key), lastTries.get(firstKey(key)) ?? 0))
  for (const [payment, entries] of charges) {
    const [first] = entries
    if (first === undefined) continue
    const execution = executions.get(first.execution)
    if (execution === undefined) {
      violations.push(`${payment}: charged for ${first.execution}, which does not exist`)
      continue
    }
    const refundKeys = new Set(refunds.get(payment)?.map(({ key }) => key))
    const how = `${execution.status}${execution.reason === null ? "" : ` (${execution.reason})`}`
    const isLastTry = undosBefore(payment) === lastTries.get(firstKey(payment))
    const wanted = execution.status === "done" && isLastTry ? 0 : 1
    const isRecorded = execution.recorded.includes(stepOf(first))
    if (execution.status === "done" && !isRecorded) {
      violations.push(`${payment}: charged, and the journal of ${execution.execution}, which is done, has no such step`)
    }
    if (refundKeys.size === wanted) continue
    if (!isRecorded && refundKeys.size === 0 && entries.every((entry) => wasAbsent(absences, entry))) {
      unrecorded.push(payment)
    } else {
      violations.push(
        `${payment}: ${execution.execution} is ${how} and the charge has ${refundKeys.size} refunds, not ${wanted}` +
          `; the journal ${isRecorded ? "has" : "does not have"} the step`
      )
    }
  }
  for (const [payment, entries] of refunds) {
    const charged = charges.get(payment)?.[0]
    if (charged === undefined || entries.some(({ at }) => at < charged.at)) {
      violations.push(`${payment}: refunded before it was charged`)
    }
  }
  for (const { execution, recorded, status } of ended) {
    const missing = recorded.filter(
      (step) => /^(charge|tax|postage)$/.test(step) && !charges.has(`${execution}/${step}`)
    )
    for (const step of missing)
      violations.push(`${execution}: ${status}, and its recorded step ${step} charged nothing`)
  }
  const total = (groups: ReadonlyMap<string, ReadonlyArray<BookEntry>>) =>
    [...groups.values()].reduce((sum, entries) => sum + entries.length, 0)
  const distinctRefunds = new Set(book.filter(({ event }) => event === "refunded").map(({ key }) => key)).size
  return {
    violations,
    charges: charges.size,
    refunds: distinctRefunds,
    repeated: total(charges) - charges.size + total(refunds) - distinctRefunds,
    unrecorded
  }
}
