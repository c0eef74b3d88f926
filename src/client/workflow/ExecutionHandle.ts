import { Cause, Duration, Effect } from "effect"
import type { DurationInput } from "../../core/DurationInput.js"
import { isId } from "../../core/Ids.js"
import { shown } from "../../core/Storable.js"
import * as AskAnswers from "../../queue/workflow/AskAnswer.js"
import type { Ask } from "../../queue/workflow/Asks.js"
import type { SignalOutcome, TagChanges, Tags } from "../../queue/workflow/Execution.js"
import { AskTimedOut } from "../../queue/workflow/WorkflowErrors.js"
import { Workflows } from "../../queue/workflow/Workflows.js"
import type { Engine, Ports } from "../Engine.js"
import type { Enqueueable, EnqueueOptions, JobId } from "../Enqueue.js"
import { ExecutionNotFoundError } from "../ExecutionErrors.js"
import { fromCause } from "../FromCause.js"
import { checkKnown, durationOf, namesOf } from "../Options.js"
import { InvalidOptionError } from "../ShiftErrors.js"
import {
  type AskAnswer,
  type AskName,
  type AskOptions,
  type AskSchemas,
  type AskValue,
  askSchemaOf,
  readAnswer,
  storedAsk
} from "./Asks.js"
import type { ReadStream, StreamChunk, StreamOptions } from "./ExecutionStream.js"
import type { ExecutionView } from "./ExecutionView.js"
import { type SignalName, type SignalSchemas, type SignalValue, stored } from "./Signals.js"
import type { CancelOptions, WorkflowAdmin } from "./WorkflowAdmin.js"

/** How long to wait for a result. */
export interface ResultOptions {
  /** Maximum time to wait. [until the job is done or dead] */
  readonly timeout?: DurationInput | undefined
  /** Stops waiting when it is aborted. */
  readonly signal?: AbortSignal | undefined
}

/** How to fork an execution. */
export interface ForkOptions {
  /** Key of the new execution. [the old key, `:fork:` and a UUID] */
  readonly as?: string | undefined
}

/** When and where an execution starts, and under which key. */
export interface StartOptions
  extends Pick<EnqueueOptions, "queue" | "priority" | "runAt" | "delay" | "meta" | "subject" | "tx"> {
  /** Names the execution instead of the workflow's `key`. */
  readonly key?: string | undefined
  /** Names and values by which the execution is found: `{ customer: "42" }`. Not set on an existing execution. [none] */
  readonly tags?: Tags | undefined
}

/** What a shift uses of a workflow, to start, find and signal its executions. */
export interface WorkflowDefinition<in In, out Result, out Signals, out Asks> {
  /** The job behind the workflow: validates its payloads and results. */
  readonly job: Enqueueable<In, Result>
  /** The option `key` of the workflow. */
  readonly key: ((payload: In) => string) | undefined
  /** The option `signals` of the workflow. */
  readonly signals: Signals | undefined
  /** The option `asks` of the workflow. */
  readonly asks: Asks | undefined
}

/** What `shift.start` and `shift.execution` take: a workflow. */
export interface Startable<in In, out Result, out Signals, out Asks> {
  /** Name of the workflow, which is the first part of its executions' ids. */
  readonly name: string
  /** What a shift uses of the workflow. */
  readonly definition: WorkflowDefinition<In, Result, Signals, Asks>
}

/**
 * One execution of a workflow, which may not have started yet. `shift.start` and `shift.execution` return it.
 *
 * @example
 * ```ts
 * import { type Shift, type Workflow } from "nightshift/client"
 *
 * declare const shift: Shift
 * declare const order: Workflow<{ id: string }, string>
 * const run = await shift.start(order, { id: "A-17" })
 * await run.signal("approval", { by: "ada" })
 * console.log(await run.result({ timeout: "1h" }))
 * ```
 */
export interface ExecutionHandle<Result = unknown, Signals = SignalSchemas, Asks = AskSchemas> {
  /** What names the execution among those of its workflow. */
  readonly key: string
  /** The execution's id: the workflow's name, a slash and the key. The command line and the API take it. */
  readonly execution: string
  /** Waits for the result. Rejects with JobDeadError if the execution failed, with JobCancelledError if it was cancelled. */
  result(options?: ResultOptions): Promise<Result>
  /**
   * Sends a signal, even before the execution starts or after it has ended: then the value is kept for the start, or for a
   * retry. No value is `null`. `completed`: this is the first value, which `step.waitFor` returns. `appended`: a further one,
   * which only `step.next` returns. `repeated`: a value with this `id` was sent before, so nothing was sent.
   */
  signal<Name extends SignalName<Signals>>(name: Name, ...value: SignalValue<Signals, Name>): Promise<SignalOutcome>
  /**
   * The last value that the execution has set under this name with `step.set`. Undefined if it has not set it. Rejects with
   * ExecutionNotFoundError.
   */
  get<A = unknown>(name: string): Promise<A | undefined>
  /**
   * Calls the handler that the code has attached with `step.answer`, and returns its answer when what the handler did is
   * recorded. Wakes an execution that waits. Rejects with AskFailedError if the handler throws, with AskTimeoutError if it has
   * not answered in time, with AskNotAnsweredError if the execution ends first, and with ExecutionEndedError if it had ended.
   */
  ask<Name extends AskName<Asks>>(name: Name, ...value: AskValue<Asks, Name>): Promise<AskAnswer<Asks, Name>>
  /**
   * Cancels the execution and its children. Each undoes its steps; `now` skips that. Does nothing if it has failed or was
   * cancelled. Rejects with JobStateError if it is done, unless `now`.
   */
  cancel(options?: CancelOptions): Promise<{
    /** Number of executions and jobs that were cancelled, including this one. */
    readonly cancelled: number
  }>
  /**
   * Sets tags, by which `shift.workflows.list` finds executions: `{ customer: "42" }`. Null removes a tag. Returns all tags.
   * Rejects with ExecutionNotFoundError if the execution has not started.
   */
  tag(tags: TagChanges): Promise<Tags>
  /**
   * Runs a failed or cancelled execution again. Failed and undone steps run again, and failed children are retried; all
   * other results are kept.
   */
  retry(): Promise<void>
  /** Starts a new execution with the journal of this one before a step. */
  fork(step: string, options?: ForkOptions): Promise<StartedExecution<Result, Signals, Asks>>
  /**
   * The chunks that a step writes with `step.stream`, while it writes them: an async iterable that ends when the step is done.
   * It waits for a step that has not started. If the step is repeated, the chunks begin again with number 0 and a higher
   * `generation`. Throws StreamFailedError if the step failed, and StreamNotFoundError if the execution ends without it.
   *
   * @example
   * ```ts
   * import { type ExecutionHandle } from "nightshift/client"
   *
   * declare const run: ExecutionHandle
   * let text = ""
   * for await (const { number, value } of run.stream<string>("tokens")) {
   *   text = number === 0 ? value : text + value
   * }
   * ```
   */
  stream<A = unknown>(name: string, options?: StreamOptions): AsyncIterable<StreamChunk<A>>
  /** Lets every release run the execution, if the workflow has the option `pin`. Otherwise without effect. */
  unpin(): Promise<void>
  /** The execution as it is stored now: its state and reason, steps, waits and children. Rejects with ExecutionNotFoundError. */
  status(): Promise<ExecutionView>
}

/** A started execution, or the existing one with its key. */
export interface StartedExecution<Result = unknown, Signals = SignalSchemas, Asks = AskSchemas>
  extends ExecutionHandle<Result, Signals, Asks> {
  /** Id of the execution's job. Pass it to `shift.job`, `shift.why` and the other methods of a job. */
  readonly id: JobId<Result>
  /** `started` if it is new, `existing` if an execution with this key was found. */
  readonly outcome: "started" | "existing"
}

/** What the methods of handles use: the services of a shift. @internal */
export interface Host {
  /** Runs Effects of the shift: `engine.run(Effect.flatMap(Workflows, (workflows) => …))`. */
  readonly engine: Engine<Ports>
  readonly admin: WorkflowAdmin
  readonly stream: ReadStream
  /** Runs an Effect. Returns undefined if it has not ended after the timeout, in milliseconds. */
  readonly within: <A, E>(effect: Effect.Effect<A, E, Ports>, timeout: number) => Promise<A | undefined>
  readonly result: <Result>(
    job: Enqueueable<never, Result>,
    id: string,
    options: ResultOptions | undefined
  ) => Promise<Result>
}

const askOptions = namesOf<AskOptions>({ timeout: 0, id: 0 })

/** Sends an ask and waits for its answer. */
const answerOf = async (
  { engine, within }: Host,
  ask: Omit<Ask, "id">,
  { id = engine.newId(), timeout: given }: AskOptions
): Promise<unknown> => {
  const timeout = given === undefined ? AskAnswers.defaultTimeout : Duration.toMillis(durationOf("timeout", given))
  const sent = { ...ask, id }
  await engine.run(Effect.flatMap(Workflows, (workflows) => workflows.ask(sent)))
  const answer = Effect.flatMap(Workflows, (workflows) => AskAnswers.answerTo(workflows, sent))
  const found = await within(
    Effect.map(answer, (value) => ({ value })),
    timeout
  )
  if (found !== undefined) return found.value
  throw fromCause(Cause.fail(new AskTimedOut({ execution: ask.execution, name: ask.name, id, timeout })))
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

/** The id of the execution with this key. @internal */
export const idOf = (name: string, key: string): string => {
  checkKey(name, key)
  if (!key.startsWith(`${name}/`)) return `${name}/${key}`
  const own = key.slice(name.length + 1)
  throw new InvalidOptionError("key", `${JSON.stringify(key)} is the id of an execution. Pass its key: "${own}".`)
}

const cancelOptions = namesOf<CancelOptions>({ now: 0 })
const forkOptions = namesOf<ForkOptions>({ as: 0 })

/** The handle of the execution with this key. @internal */
export const make = <Result, Signals, Asks>(
  host: Host,
  workflow: Startable<never, Result, Signals, Asks>,
  key: string
): ExecutionHandle<Result, Signals, Asks> => handle(host, workflow, key, idOf(workflow.name, key), undefined)

/** The handle of an execution that is stored. @internal */
export const ofStarted = <Result, Signals, Asks>(
  host: Host,
  workflow: Startable<never, Result, Signals, Asks>,
  {
    execution,
    id,
    outcome
  }: { readonly execution: string; readonly id: string; readonly outcome: "started" | "existing" }
): StartedExecution<Result, Signals, Asks> => {
  const key = execution.slice(workflow.name.length + 1)
  return Object.assign(handle(host, workflow, key, execution, id), { id, outcome })
}

const handle = <Result, Signals, Asks>(
  host: Host,
  workflow: Startable<never, Result, Signals, Asks>,
  key: string,
  execution: string,
  /** The id of its job, if it is known. */
  id: string | undefined
): ExecutionHandle<Result, Signals, Asks> => {
  const { admin } = host
  const { definition, name } = workflow
  /** The id of the execution to act on. The key may be the id of its job, which programs store. */
  const target = async (): Promise<string> => {
    if (id !== undefined || !isId(key)) return execution
    const ofJob = await admin.show(key).catch((error: unknown) => {
      if (error instanceof ExecutionNotFoundError) return undefined
      throw error
    })
    return ofJob?.execution.startsWith(`${name}/`) === true ? ofJob.execution : execution
  }
  return {
    key,
    execution,
    result: async (options) => host.result(definition.job, id ?? (await admin.show(await target())).id, options),
    signal: async (signal, ...[value, options]) => {
      const json = await stored(name, definition.signals as SignalSchemas | undefined, signal, value)
      return admin.signal(await target(), signal, json, options)
    },
    ask: async (ask, ...[value, options = {}]) => {
      checkKnown(options, askOptions, "an option of ask")
      const schema = askSchemaOf(name, definition.asks as AskSchemas | undefined, ask)
      const json = await storedAsk(name, ask, schema, value)
      const answer = await answerOf(host, { execution: await target(), name: ask, value: json }, options)
      return (await readAnswer(name, ask, schema, answer)) as never
    },
    get: async <A>(value: string) => {
      const values = await admin.values(await target())
      return Object.hasOwn(values, value) ? (values[value] as A) : undefined
    },
    cancel: async (options = {}) => {
      checkKnown(options, cancelOptions, "an option of cancel")
      const { cancelled } = await admin.cancel(await target(), options)
      return { cancelled }
    },
    tag: async (tags) => admin.tag(await target(), tags),
    retry: async () => admin.retry(await target()),
    fork: async (step, options = {}) => {
      checkKnown(options, forkOptions, "an option of fork")
      const as = options.as === undefined ? undefined : idOf(name, options.as)
      return ofStarted(host, workflow, { ...(await admin.fork(await target(), step, as)), outcome: "started" })
    },
    stream: (stream, options) => host.stream(target, stream, options),
    unpin: async () => void (await admin.unpin({ execution: await target() })),
    status: async () => admin.show(await target())
  }
}
