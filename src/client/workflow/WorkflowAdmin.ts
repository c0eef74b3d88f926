import { Effect } from "effect"
import type { SignalOutcome, TagChanges, Tags } from "../../queue/workflow/Execution.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type { Engine, Ports } from "../Engine.js"
import { checkKnown, namesOf } from "../Options.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import * as ExecutionList from "./ExecutionList.js"
import type * as ExecutionStream from "./ExecutionStream.js"
import * as ExecutionView from "./ExecutionView.js"
import type { SignalOptions } from "./Signals.js"

/** How to cancel an execution. */
export interface CancelOptions {
  /** Ends the execution and its children immediately, without undoing their steps. [false] */
  readonly now?: boolean | undefined
}

/** Finds executions, and acts on them by their ids: the workflow's name, a slash and the key. */
export interface WorkflowAdmin extends ExecutionList.ExecutionList {
  /** Sends a signal to an execution, like `run.signal`. The value is not validated. */
  signal(execution: string, name: string, value: unknown, options?: SignalOptions): Promise<SignalOutcome>
  /**
   * Cancels an execution and its children. Does nothing, and returns 0, if it has failed or was cancelled. Rejects with
   * JobStateError if it is done, unless `now`.
   */
  cancel(
    execution: string,
    options?: CancelOptions
  ): Promise<{
    /** Number of executions and jobs that were cancelled, including this one. */
    readonly cancelled: number
  }>
  /** Sets tags of an execution, by which it is found, and removes those whose value is null. Returns its tags. */
  tag(execution: string, tags: TagChanges): Promise<Tags>
  /** Runs a failed or cancelled execution again. */
  retry(execution: string): Promise<void>
  /** Starts a new execution with the journal of this one before a step. `as` is its id. [the old id, `:fork:` and a UUID] */
  fork(
    execution: string,
    step: string,
    as?: string
  ): Promise<{
    /** Id of the new execution's job. */
    readonly id: string
    /** Id of the new execution. */
    readonly execution: string
  }>
  /** The chunks of a stream of an execution, as those of `run.stream`. Takes its id or the id of its job. */
  stream<A = unknown>(
    execution: string,
    name: string,
    options?: ExecutionStream.StreamOptions
  ): AsyncIterable<ExecutionStream.StreamChunk<A>>
  /**
   * Lets every release run a pinned execution, or all that are pinned to a release. Returns how many were pinned and have not
   * ended.
   */
  unpin(
    which:
      | {
          /** Id of the execution. */
          readonly execution: string
        }
      | {
          /** The release that executions are pinned to, as `nightshift doctor` and `status()` name it. */
          readonly release: string
        }
  ): Promise<number>
  /** The last value of each name that the execution has set with `step.set`. Takes its id or the id of its job. */
  values(execution: string): Promise<Readonly<Record<string, unknown>>>
  /** The execution with its steps, waits and children. Takes its id or the id of its job. */
  show(execution: string): Promise<ExecutionView.ExecutionView>
}

const signalOptions = namesOf<SignalOptions>({ id: 0 })

/** Throws InvalidOptionError if neither an execution nor a release is named. */
const pinnedOf = (which: { readonly execution?: unknown; readonly release?: unknown } | undefined) => {
  const { execution, release } = which ?? {}
  if (typeof execution === "string" && execution !== "") return { execution }
  if (typeof release === "string" && release !== "") return { release }
  throw new InvalidOptionError(
    "unpin",
    "unpin needs the id of an execution, or the release that executions are pinned to."
  )
}

/** @internal */
export const make = (engine: Engine<Ports>, stream: ExecutionStream.ReadStream): WorkflowAdmin => {
  const inWorkflows = <A, E>(use: (workflows: typeof Workflows.Service) => Effect.Effect<A, E>) =>
    engine.run(Effect.flatMap(Workflows, use))
  return {
    ...ExecutionList.make(engine),
    signal: async (execution, name, value, options = {}) => {
      checkKnown(options, signalOptions, "an option of signal")
      return inWorkflows((port) => port.signal({ execution, name, value, id: options.id }))
    },
    cancel: (execution, options) => inWorkflows((port) => port.cancel(execution, options)),
    tag: (execution, tags) => inWorkflows((port) => port.tag(execution, tags)),
    retry: async (execution) => void (await inWorkflows((port) => port.retry(execution))),
    fork: (execution, step, as) => inWorkflows((port) => port.fork(execution, step, { as })),
    stream: (execution, name, options) => stream(async () => execution, name, options),
    unpin: async (which) => {
      const pinned = pinnedOf(which)
      return inWorkflows((port) => port.unpin(pinned))
    },
    values: (execution) => inWorkflows((port) => port.values(execution)),
    show: async (execution) => ExecutionView.of(await inWorkflows((port) => port.show(execution)))
  }
}
