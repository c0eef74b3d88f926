import { GlobalValue } from "effect"
import { InvalidOptionError } from "../ShiftErrors.js"
import type { ExecutionHandle, ResultOptions, Startable, StartedExecution, StartOptions } from "./ExecutionHandle.js"
import type { ExecutionView } from "./ExecutionView.js"
import type { SignalSchemas } from "./Signals.js"

// Starts, signals and watches the executions of a workflow. Uses the program's only open shift unless another is passed.

/** The part of a shift that workflows use. */
export interface ShiftForWorkflows {
  start<In, Result, Signals>(
    workflow: Startable<In, Result, Signals>,
    payload: NoInfer<In>,
    options?: StartOptions
  ): Promise<StartedExecution<Result, Signals>>
  execution<Result, Signals>(workflow: Startable<never, Result, Signals>, key: string): ExecutionHandle<Result, Signals>
}

/** Selects a shift, for programs with several open ones. */
export interface OnShift {
  /** A shift from connect() or testShift(). [the only open one] */
  readonly shift?: ShiftForWorkflows | undefined
}

/** The executions of a workflow, by key. The id of the execution's job, which `start` returns, works as well. */
export interface Executions<in In, out Result> {
  /** Starts an execution, or returns the existing one with its key. With `tx` it starts when that transaction commits. */
  start(payload: In, options?: StartOptions & OnShift): Promise<StartedExecution<Result>>
  /**
   * Sends a signal to the execution with this key, even before it starts or after it has ended: then the value is kept for
   * the start, or for a retry. The first value is kept, so a repeated call has no effect. No value is `null`.
   */
  signal(key: string, name: string, value?: unknown, options?: OnShift): Promise<"completed" | "repeated">
  /** Cancels an execution and its children. Each undoes its steps; `now` skips that. */
  cancel(
    key: string,
    options?: OnShift & {
      /** Ends the execution and its children immediately, without undoing their steps. [false] */
      readonly now?: boolean | undefined
    }
  ): Promise<{
    /** Number of executions and jobs that were cancelled, including this one. */
    readonly cancelled: number
  }>
  /**
   * Runs a failed or cancelled execution again. Failed and undone steps run again, and failed children are retried; all
   * other results are kept.
   */
  retry(key: string, options?: OnShift): Promise<void>
  /** Starts a new execution with the journal of this one before a step. Returns its id. */
  fork(
    key: string,
    step: string,
    options?: OnShift & {
      /** Key of the new execution. [the old key, `:fork:` and a UUID] */
      readonly as?: string | undefined
    }
  ): Promise<string>
  /** Waits for the result. Rejects with JobDeadError if the execution failed, with JobCancelledError if it was cancelled. */
  result(key: string, options?: OnShift & ResultOptions): Promise<Result>
  /** The execution with its steps, waits and children. */
  show(key: string, options?: OnShift): Promise<ExecutionView>
}

const open = GlobalValue.globalValue("nightshift/client/openShifts", () => new Set<ShiftForWorkflows>())

/** Makes a shift the one that workflows use, until the returned function is called. @internal */
export const opened = (shift: ShiftForWorkflows): (() => void) => {
  open.add(shift)
  return () => void open.delete(shift)
}

const shiftOf = (given: ShiftForWorkflows | undefined): ShiftForWorkflows => {
  if (given !== undefined) return given
  const [only, ...others] = open
  if (only !== undefined && others.length === 0) return only
  throw new InvalidOptionError(
    "shift",
    only === undefined
      ? "No shift is open. Call connect() first."
      : `${open.size} shifts are open. Pass one of them as { shift }.`
  )
}

/** @internal */
export const executionsOf = <In, Result>(
  workflow: () => Startable<In, Result, SignalSchemas>
): Omit<Executions<In, Result>, "name" | "definition"> => {
  const find = (key: string, { shift }: OnShift = {}) => shiftOf(shift).execution(workflow(), key)
  return {
    start: async (payload, { shift, ...options } = {}) => shiftOf(shift).start(workflow(), payload, options),
    signal: async (key, signal, value, on) => find(key, on).signal(signal, value),
    cancel: async (key, { shift, ...options } = {}) => find(key, { shift }).cancel(options),
    retry: async (key, on) => find(key, on).retry(),
    fork: async (key, step, { shift, ...options } = {}) => (await find(key, { shift }).fork(step, options)).execution,
    result: async (key, { shift, ...options } = {}) => find(key, { shift }).result(options),
    show: async (key, on) => find(key, on).status()
  }
}
