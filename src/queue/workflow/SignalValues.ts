import * as StepName from "../../core/StepName.js"
import type { Wait } from "../../core/Suspension.js"
import type { Deferred, Step } from "./Execution.js"
import { isUndo } from "./Undo.js"

// The values of a signal. The first one completes the wait of `step.waitFor`. `step.next` takes all of them, one after another:
// what it took is part of the recorded step.

/** The name of the row of a value of a signal, which the code takes with `step.next`. `number`: from 1, in order of arrival. */
export const valueRow = (signal: string, number: number): Wait =>
  number === 1 ? { kind: "signal", name: signal } : { kind: "value", name: `${signal}#${number}` }

/** The size of a value as JSON. */
export const bytesOf = (value: unknown): number => Buffer.byteLength(JSON.stringify(value ?? null))

const withoutNumber = (name: string): string => name.replace(/#\d+$/, "")

/** The signal of a row of the kind `signal` or `value`. */
export const signalOf = ({ kind, name }: Pick<Deferred, "kind" | "name">): string =>
  kind === "value" ? withoutNumber(name) : name

/** The number of the value of such a row. */
export const numberOf = ({ kind, name }: Pick<Deferred, "kind" | "name">): number =>
  kind === "value" ? Number(/\d+$/.exec(name)?.[0]) : 1

/** Whether the call of `step.next` that is recorded as `step` takes values of the signal. */
const takes = (step: string, signal: string): boolean =>
  StepName.withoutPrefix(step) === signal || StepName.signalOf(step) === signal

/** The waits that the code requested, without the rows of values that `step.next` waits for. */
export const requestedWaits = <A extends Pick<Deferred, "kind" | "name">>(
  waits: ReadonlyArray<A>
): ReadonlyArray<A> => {
  const messages = waits.filter(({ kind }) => kind === "message")
  return waits.filter(
    ({ kind, name }) => kind !== "value" && !(kind === "signal" && messages.some((each) => takes(each.name, name)))
  )
}

/**
 * All waits and signals of an execution, as callers see them. A finished one waits for nothing, even if a wait had not ended
 * before its last run.
 */
export const shownDeferreds = (
  { finishedAt }: { readonly finishedAt: number | undefined },
  deferreds: ReadonlyArray<Deferred>
): ReadonlyArray<Deferred> => {
  const open = new Set(requestedWaits(deferreds.filter(({ completedAt }) => completedAt === undefined)))
  const shown = deferreds.filter(
    (each) => each.kind !== "heartbeat" && (each.completedAt !== undefined || open.has(each))
  )
  return finishedAt === undefined ? shown : shown.map((each) => ({ ...each, waiting: false }))
}

/** The value of a signal that a step took from the mailbox, as its exit says. */
export interface TakenValue {
  readonly signal: string
  readonly number: number
}

export const takenValue = ({ exit, kind }: Pick<Step, "exit" | "kind">): TakenValue | undefined =>
  (kind === "message" || kind === "undo") && typeof exit === "object" && exit !== null && "taken" in exit
    ? (exit.taken as TakenValue)
    : undefined

/** Whether a wait for a signal timed out, as the exit of its step says. A value that arrives later is not received. */
export const isTimedOut = ({ exit }: Pick<Step, "exit">): boolean =>
  typeof exit === "object" && exit !== null && "timedOut" in exit

/** The values of signals that the code can still receive. */
export const openValues = <A extends Deferred>(
  deferreds: ReadonlyArray<A>,
  steps: ReadonlyArray<Step>
): ReadonlyArray<A> => {
  const received = steps
    .filter((step) => (step.kind === "signal" || step.kind === "undo") && !isTimedOut(step))
    .map(({ name }) => name)
  // Signals that a compensation waits for may be recorded with the name of the compensation as a prefix.
  const isReceived = (signal: string) =>
    received.some((name) => name === signal || (isUndo(name) && name.endsWith(`/${signal}`)))
  const taken = new Set(
    steps.flatMap((step) => {
      const value = takenValue(step)
      const row = value === undefined ? undefined : valueRow(value.signal, value.number)
      return row === undefined ? [] : `${row.kind} ${row.name}`
    })
  )
  const mailboxes = new Set(steps.map((step) => takenValue(step)?.signal))
  // Further values of a signal that the code received only with `waitFor` are repetitions.
  const isOpen = (each: A) => {
    const signal = signalOf(each)
    return !taken.has(`${each.kind} ${each.name}`) && (mailboxes.has(signal) || !isReceived(signal))
  }
  return deferreds.filter(
    (each) => (each.kind === "signal" || each.kind === "value") && each.completedAt !== undefined && isOpen(each)
  )
}

/** `unclaimed` of an execution. */
export const unclaimedSignals = (
  deferreds: ReadonlyArray<Deferred>,
  steps: ReadonlyArray<Step>
): ReadonlyArray<string> => [...new Set(openValues(deferreds, steps).map(signalOf))]
