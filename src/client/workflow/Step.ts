import type { DurationInput } from "../../core/DurationInput.js"
import type { HandlerLog } from "../../handlers/PromiseContext.js"
import type { TagChanges } from "../../queue/workflow/Execution.js"
import type { DeclaredRateLimit } from "../../rate-limits/LimitOptions.js"
import type { Enqueueable } from "../Enqueue.js"
import type { EventDefinition } from "../EventDefinition.js"
import type { HandlerTransaction } from "../HandlerTransaction.js"
import type { BackoffInput } from "../JobDefinition.js"
import type { InstantInput } from "../Options.js"
import type { StandardSchema } from "../StandardSchema.js"
import type { AskName, AskPayload, AskReturn, AskSchemas } from "./Asks.js"
import type { SignalOutput, SignalSchemas } from "./Signals.js"

/** The argument of a step's code. */
export interface StepContext {
  /**
   * The same in every attempt of this step. Pass it to services that accept an idempotency key, so that a repeated call has
   * no effect. A step that was undone and runs again after a retry gets a new key, because its effect must happen again.
   */
  readonly idempotencyKey: string
  /** The number of this attempt, from 1. */
  readonly attempt: number
  /** Logs with the execution, the job and the step: `log.info("charged", { amount })`. */
  readonly log: HandlerLog
  /**
   * Aborted when the run must stop: shutdown, cancel, timeout or a lost lease. Nothing is recorded then. Also aborted when this
   * attempt times out, which counts as a failure.
   */
  readonly signal: AbortSignal
  /**
   * Reports that the step is alive: its run may take the workflow's `timeout` again from now on. The details, a JSON value of
   * at most 4 KiB, are stored for the next attempt, at most every 5 seconds; without details, the last ones stay.
   *
   * @example
   * ```ts
   * import type { Step } from "nightshift/client"
   *
   * declare const pages: (from: number) => AsyncIterable<number>
   * export const copyPages = (step: Step) =>
   *   step.run("copy", async ({ heartbeat, lastHeartbeat }) => {
   *     for await (const page of pages(Number(lastHeartbeat ?? 0))) heartbeat(page)
   *   })
   * ```
   */
  readonly heartbeat: (details?: unknown) => void
  /** Details of the last heartbeat of an earlier attempt, perhaps in a process that crashed. Undefined if there is none. */
  readonly lastHeartbeat: unknown
}

/** How a step is retried, limited and undone. An undo has the options of its step. */
export interface StepOptions<A> {
  /** Attempts before the step has failed, counting the first. [4] */
  readonly attempts?: number | undefined
  /** Delay after each failed attempt. It survives restarts and takes no slot. [1s, 10s, 1m, then 10m] */
  readonly backoff?: BackoffInput | undefined
  /**
   * Maximum time of one attempt. Then its `signal` is aborted and the attempt has failed, even if the code does not stop. It
   * may be longer than the workflow's `timeout`, which limits a run otherwise. [no limit]
   */
  readonly timeout?: DurationInput | undefined
  /** Maximum time without a heartbeat. Then the attempt ends as with `timeout`. It may be longer, too. [no limit] */
  readonly heartbeatTimeout?: DurationInput | undefined
  /** A rate limit, made by `RateLimit.make`: each attempt takes a token. Waits for one without a slot. */
  readonly limit?: DeclaredRateLimit | undefined
  /** How many steps of this name run at once in all executions of the workflow. Others wait without a slot. [no limit] */
  readonly concurrency?: number | undefined
  /**
   * Undoes the step if the execution later fails or is cancelled. Undos run in reverse order. An undo is recorded and
   * retried like a step, and may wait with `step.sleep` and `step.waitFor`.
   */
  readonly undo?: ((result: A, context: StepContext) => unknown) | undefined
}

/** The argument of the code of a step that writes a stream. */
export interface StreamContext extends StepContext {
  /**
   * Writes a chunk: text, or a JSON value. For code that is not a generator. Resolves when the next chunk may be written, so
   * await it: code that is faster than the database waits. Rejects if the chunk is too large.
   */
  readonly write: (chunk: unknown) => Promise<void>
}

/** What the code of a stream returned: the return value of a generator, or nothing if it returned an async iterable. */
export type StreamValue<Returned> =
  Awaited<Returned> extends AsyncIterator<unknown, infer A, never> | Iterator<unknown, infer A, never>
    ? Awaited<A>
    : Awaited<Returned> extends AsyncIterable<unknown>
      ? undefined
      : Awaited<Returned>

/** The result of a step that wrote a stream. */
export interface StreamResult<out A> {
  /** The generation that was written: 1, unless the step was repeated. */
  readonly generation: number
  /** Number of chunks. */
  readonly count: number
  /** Size of all chunks as JSON. */
  readonly bytes: number
  /** What the code returned. */
  readonly value: A
}

/** The argument of the code of a step in a transaction. */
export interface StepTransactionContext extends StepContext, HandlerTransaction {}

/** A child to start: `otherWorkflow(payload)`, or `child(job, payload)`. */
export interface ChildCall<out Result> {
  /** What to run: a job, or the job behind a workflow. */
  readonly job: Enqueueable<never, Result>
  /** Payload of the child, before it is validated. */
  readonly payload: unknown
  /** The child's execution id; undefined for a plain job or a workflow without a key. */
  readonly execution: string | undefined
  /** Whether the child is an execution of a workflow. */
  readonly isWorkflow: boolean
}

/** How one child ended. A job is `dead` where an execution is `failed`; `deleted` if its row was deleted before this step. */
export type ChildEnd<A> =
  | {
      /** The child succeeded. */
      readonly state: "done"
      /** What the child returned. */
      readonly value: A
    }
  | {
      /** How the child failed. */
      readonly state: "dead" | "failed" | "cancelled" | "deleted"
      /** Message of the child's last error. */
      readonly error: string
    }

/** The argument of the undo of a child. */
export interface ChildUndoContext extends StepContext {
  /** Index of the child's item. */
  readonly index: number
}

/** What happens to the children of a step when the execution is undone or cancelled. */
export interface ChildrenOptions<Result> {
  /**
   * Undoes a child that is done, if the execution fails or is cancelled later, or because another child failed. Called for
   * each, the last one first, with the child's result. Recorded and retried like a step.
   */
  readonly undo?: ((result: Result, context: ChildUndoContext) => unknown) | undefined
  /** `leave`: a cancel of this execution does not cancel children that still run, and does not wait for them. [cancel] */
  readonly onParentCancel?: "cancel" | "leave" | undefined
}

/** What happens to the children of a race. */
export interface RaceOptions<Result> extends ChildrenOptions<Result> {
  /** Whether the other children are cancelled when the first has ended, and undo their steps, or run on. [cancel] */
  readonly losers?: "cancel" | "leave" | undefined
}

/** How long to wait for a signal, and how to validate its value. */
export interface WaitOptions<A> {
  /** Maximum time to wait for the signal; then the result is undefined. [no limit] */
  readonly timeout?: DurationInput | undefined
  /** Validates the value of the signal. */
  readonly schema?: StandardSchema<unknown, A> | undefined
}

/** `step.waitFor` and `step.next` of a workflow that declares its signals. */
export interface WaitForDeclared<Signals> {
  /** Waits for a declared signal. The result is undefined if it has not arrived after the timeout. */
  <Name extends keyof Signals & string>(
    name: Name,
    options: {
      /** Maximum time to wait. Then the result is undefined. */
      readonly timeout: DurationInput
    }
  ): Promise<SignalOutput<Signals, Name> | undefined>
  /** Without a timeout, waits until the signal arrives. */
  <Name extends keyof Signals & string>(
    name: Name,
    options?: Omit<WaitOptions<never>, "schema">
  ): Promise<SignalOutput<Signals, Name>>
}

/** `step.waitFor` and `step.next` of a workflow that declares no signals: they take any name. */
export interface WaitForAny {
  /** Waits for a signal. The result is undefined if it has not arrived after the timeout. */
  <A = unknown>(
    name: string,
    options: WaitOptions<A> & {
      /** Maximum time to wait. Then the result is undefined. */
      readonly timeout: DurationInput
    }
  ): Promise<A | undefined>
  /** Without a timeout, waits until the signal arrives. */
  <A = unknown>(name: string, options?: WaitOptions<A>): Promise<A>
}

/** Which event `step.waitForEvent` waits for. */
export interface EventWaitOptions {
  /** Values that the event must have, by path: `{ "data.order": "A-17" }`. [any event of this name] */
  readonly match?: Readonly<Record<string, string | number | boolean | null>> | undefined
  /** Maximum time to wait. Then the result is undefined. [no limit] */
  readonly timeout?: DurationInput | undefined
}

/** `step.waitForEvent`. */
export interface WaitForEvent {
  /** Waits for an event. The result is undefined if none was published before the timeout. */
  <In, Out>(
    event: EventDefinition<In, Out>,
    options: EventWaitOptions & {
      /** Maximum time to wait. Then the result is undefined. */
      readonly timeout: DurationInput
    }
  ): Promise<Out | undefined>
  /** Without a timeout, waits until an event is published. */
  <In, Out>(event: EventDefinition<In, Out>, options?: EventWaitOptions): Promise<Out>
}

/** `step.waitFor` and `step.next` of a workflow with these signals. */
export type WaitFor<Signals> = string extends keyof Signals ? WaitForAny : WaitForDeclared<Signals>

/** The steps of a workflow. Repeated names are numbered: `charge`, `charge#2`, and so on. */
export interface Step<Signals = SignalSchemas, In = unknown, Asks = AskSchemas> {
  /** The version of the workflow that started this execution. */
  readonly version: number
  /** The execution's id. */
  readonly execution: string

  /** Runs the code and records its result, which a replay returns. After a crash before the record, the code runs again. */
  run<A>(name: string, run: (context: StepContext) => A, options?: StepOptions<Awaited<A>>): Promise<Awaited<A>>

  /** Like `run`, in a transaction that also records the result. Writes through `tx` happen exactly once. */
  runInTransaction<A>(
    name: string,
    run: (context: StepTransactionContext) => A,
    options?: StepOptions<Awaited<A>>
  ): Promise<Awaited<A>>

  /**
   * Like `run`, for code that produces chunks: an async generator, code that returns an async iterable, or code that calls
   * `write`. Programs, browsers and commands read the chunks while they are written, in a stream with the name of the step.
   * If the step is repeated, the stream begins again as a new generation.
   *
   * @example
   * ```ts
   * import { type Step } from "nightshift/client"
   *
   * declare const step: Step
   * declare const model: { ask(prompt: string, signal: AbortSignal): AsyncIterable<string> }
   * const { value: text } = await step.stream("tokens", async function* ({ signal }) {
   *   let text = ""
   *   for await (const token of model.ask("hello", signal)) {
   *     yield token
   *     text += token
   *   }
   *   return text
   * })
   * console.log(text)
   * ```
   */
  stream<Returned>(
    name: string,
    run: (context: StreamContext) => Returned,
    options?: StepOptions<StreamResult<StreamValue<Returned>>>
  ): Promise<StreamResult<StreamValue<Returned>>>

  /** Waits for a duration without occupying a slot. */
  sleep(name: string, duration: DurationInput): Promise<void>

  /** Waits until an instant without occupying a slot. One that has passed does not wait. */
  sleepUntil(name: string, instant: InstantInput): Promise<void>

  /** The current time, recorded: a replay returns the same. Calls in parallel branches need different names. ["now"] */
  now(name?: string): Promise<Date>

  /** A UUID of version 7, recorded. Not for secrets. ["uuid"] */
  uuid(name?: string): Promise<string>

  /** A number from 0 up to 1, without 1, recorded. Not for secrets. ["random"] */
  random(name?: string): Promise<number>

  /** Waits for the first value of a signal, which may already have arrived. */
  readonly waitFor: WaitFor<Signals>

  /**
   * Waits for the first event that matches, published since the execution was started, and returns its data. Another wait of the
   * execution for the same event receives the next one.
   */
  readonly waitForEvent: WaitForEvent

  /**
   * Takes the next value of a signal: all its values one after another, in the order of their arrival, each at most once. It
   * takes the first one too, whether or not `waitFor` returned it.
   */
  readonly next: WaitFor<Signals>

  /**
   * Attaches the handler of an ask, which `run.ask(name, value)` calls. It runs when the code waits, at a place in the journal
   * that is recorded: a replay calls it again in the same place, so it may change variables of the code. It must be deterministic
   * like the code, and may use steps. What it returns is the answer, and what it throws is the error of the caller. A second call
   * replaces the handler.
   */
  answer<Name extends AskName<Asks>>(
    name: Name,
    handler: (value: AskPayload<Asks, Name>) => AskReturn<Asks, Name> | Promise<AskReturn<Asks, Name>>
  ): void

  /**
   * Sets a value that `run.get(name)`, the API and Mission Control show: the last one of each name. At most 4 KiB as JSON, and
   * 100 names. Calls can be added to the code of running executions, and removed if the code does not set the name later.
   */
  set(name: string, value: unknown): Promise<void>

  /** Runs a child for each item, in parallel, and wakes once when all have ended. Rejects if one of them failed. */
  all<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>,
    options?: ChildrenOptions<Result>
  ): Promise<ReadonlyArray<Result>>

  /** Like `all`, but returns how each child ended. */
  allSettled<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>,
    options?: ChildrenOptions<Result>
  ): Promise<ReadonlyArray<ChildEnd<Result>>>

  /**
   * Runs a child for each item, and continues with the first that ends. Rejects with ChildrenFailedError if that one failed.
   * The others are cancelled, or left to run.
   */
  race<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>,
    options?: RaceOptions<Result>
  ): Promise<{
    /** Index of the item whose child ended first. */
    readonly index: number
    /** What that child returned. */
    readonly value: Result
  }>

  /** Starts a child without waiting for it. It is not cancelled with this execution. */
  start<Result>(name: string, call: ChildCall<Result>): Promise<void>

  /**
   * Ends the journal, and runs the workflow from its start with this payload, under the same key: for loops that live for
   * years. Steps before the call are not undone later, children that still run are on their own, and signals that were not
   * received are kept. Nothing behind the call runs.
   */
  continueAs(payload: In): Promise<never>

  /**
   * Sets tags of this execution, by which `shift.workflows.list` finds it: `{ customer: "42" }`. Null removes a tag. Recorded as
   * a step with the name `tag`.
   */
  tag(tags: TagChanges): Promise<void>

  /**
   * Marks a change of the code: true for executions that reach it after the change, false for those that passed it before. Keep the
   * old code in the other branch until those have ended.
   */
  patched(name: string): Promise<boolean>
}
