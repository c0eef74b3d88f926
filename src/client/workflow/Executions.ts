import { GlobalValue } from "effect"
import type { DurationInput } from "../../core/DurationInput.js"
import { isId } from "../../core/Ids.js"
import { shown } from "../../core/Storable.js"
import type { Enqueueable, EnqueueOptions, JobId } from "../Enqueue.js"
import { ExecutionNotFoundError, InvalidOptionError } from "../ShiftErrors.js"
import type { ExecutionList } from "./ExecutionList.js"
import type { ExecutionView } from "./ExecutionView.js"

// Starts, signals and watches the executions of a workflow. Uses the program's only open shift unless another is passed.

/** How long to wait for a result. */
export interface ResultOptions {
  /** Maximum time to wait. [until the job is done or dead] */
  readonly timeout?: DurationInput | undefined
  /** Stops waiting when it is aborted. */
  readonly signal?: AbortSignal | undefined
}

/** The part of a shift that workflows use. */
export interface ShiftForWorkflows {
  readonly workflows: WorkflowAdmin
  result<Result>(id: string, options?: ResultOptions): Promise<Result>
}

/** Selects a shift, for programs with several open ones. */
export interface OnShift {
  /** A shift from connect() or testShift(). [the only open one] */
  readonly shift?: ShiftForWorkflows | undefined
}

/** When and where an execution starts, and under which key. */
export interface StartOptions
  extends OnShift,
    Pick<EnqueueOptions, "queue" | "priority" | "runAt" | "delay" | "meta" | "tx"> {
  /** Names the execution instead of the workflow's `key`. */
  readonly key?: string | undefined
}

/** A started execution, or the existing one with this key. */
export interface StartedExecution<Result> {
  /** Id of the execution's job. Pass it to `shift.result` and the other methods of a job. */
  readonly id: JobId<Result>
  /** The execution's id: the workflow's name, a slash and the key. The command line and the API take it. */
  readonly execution: string
  /** What names the execution among those of its workflow, for `signal`, `result` and the other methods. */
  readonly key: string
  /** `started` if it is new, `existing` if an execution with this key was found. */
  readonly outcome: "started" | "existing"
}

/** The executions of a workflow, by key. The id of the execution's job, which `start` returns, works as well. */
export interface Executions<in In, out Result> {
  /** Name of the workflow, which is the first part of its executions' ids. */
  readonly name: string
  /** Starts an execution, or returns the existing one with its key. With `tx` it starts when that transaction commits. */
  start(payload: In, options?: StartOptions): Promise<StartedExecution<Result>>
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

/** Actions of a shift on executions. */
export interface WorkflowAdmin extends ExecutionList {
  /** A random key for an execution whose workflow has no `key` option. */
  newKey(): string
  /** Starts an execution under this id, or returns the existing one. */
  start<In, Result>(
    target: Enqueueable<In, Result>,
    payload: In,
    execution: string,
    options: Omit<StartOptions, "shift" | "key">
  ): Promise<Omit<StartedExecution<Result>, "key">>
  /** Sends a signal to an execution. A repeated signal keeps its first value. */
  signal(execution: string, name: string, value: unknown): Promise<"completed" | "repeated">
  /** Cancels an execution and its children. Rejects with JobStateError if it has ended. */
  cancel(
    execution: string,
    options: {
      /** Ends the execution and its children immediately, without undoing their steps. [false] */
      readonly now?: boolean | undefined
    }
  ): Promise<{
    /** Number of executions and jobs that were cancelled, including this one. */
    readonly cancelled: number
  }>
  /** Runs a failed or cancelled execution again. */
  retry(execution: string): Promise<void>
  /** Starts a new execution with the journal of this one before a step. Returns its id. */
  fork(execution: string, step: string, as: string | undefined): Promise<string>
  /** The execution with its steps, waits and children. Takes its id or the id of its job. */
  show(execution: string): Promise<ExecutionView>
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

/** Throws InvalidOptionError unless the key can name an execution. */
const checkKey = (name: string, key: unknown): void => {
  if (typeof key === "string" && key !== "") return
  throw new InvalidOptionError(
    "key",
    `The key of an execution of "${name}" must be a string that is not empty, got ${shown(key)}.`
  )
}

/** The key that the workflow gives a payload. Undefined without the option `key`. @internal */
export const keyOf = <In>(name: string, option: ((payload: In) => string) | undefined, payload: In) => {
  const key = option?.(payload)
  if (option !== undefined) checkKey(name, key)
  return key
}

/** @internal */
export const executionsOf = <In, Result>(
  name: string,
  target: Enqueueable<In, Result>,
  keyOption: ((payload: In) => string) | undefined
): Omit<Executions<In, Result>, "name"> => {
  const idOf = (key: string) => {
    checkKey(name, key)
    if (!key.startsWith(`${name}/`)) return `${name}/${key}`
    const own = key.slice(name.length + 1)
    throw new InvalidOptionError("key", `${JSON.stringify(key)} is the id of an execution. Pass its key: "${own}".`)
  }
  /** The execution with this key. Also takes the id of its job, which `start` returns and programs store. */
  const find = async ({ workflows }: ShiftForWorkflows, key: string): Promise<string> => {
    const execution = idOf(key)
    if (!isId(key)) return execution
    const ofJob = await workflows.show(key).catch((error: unknown) => {
      if (error instanceof ExecutionNotFoundError) return undefined
      throw error
    })
    return ofJob?.execution.startsWith(`${name}/`) === true ? ofJob.execution : execution
  }
  return {
    start: async (payload, { key: given, shift, ...options } = {}) => {
      // The key may be derived from parts that an invalid payload does not have.
      if (given === undefined && keyOption !== undefined) await target.encode(payload)
      const used = shiftOf(shift)
      const key = given ?? keyOf(name, keyOption, payload) ?? used.workflows.newKey()
      return { ...(await used.workflows.start(target, payload, idOf(key), options)), key }
    },
    signal: async (key, signal, value, { shift } = {}) => {
      const used = shiftOf(shift)
      return used.workflows.signal(await find(used, key), signal, value === undefined ? null : value)
    },
    cancel: async (key, { shift, ...options } = {}) => {
      const used = shiftOf(shift)
      const { cancelled } = await used.workflows.cancel(await find(used, key), options)
      return { cancelled }
    },
    retry: async (key, { shift } = {}) => {
      const used = shiftOf(shift)
      await used.workflows.retry(await find(used, key))
    },
    fork: async (key, step, { as, shift } = {}) => {
      const used = shiftOf(shift)
      return used.workflows.fork(await find(used, key), step, as === undefined ? undefined : idOf(as))
    },
    result: async (key, { shift, ...options } = {}) => {
      const used = shiftOf(shift)
      const { id } = await used.workflows.show(await find(used, key))
      return used.result<Result>(id, options)
    },
    show: async (key, { shift } = {}) => {
      const used = shiftOf(shift)
      return used.workflows.show(await find(used, key))
    }
  }
}
