import type { DurationInput } from "../../core/DurationInput.js"
import type { HandlerLog } from "../../handlers/PromiseContext.js"
import type { Enqueueable } from "../Enqueue.js"
import type { HandlerTransaction } from "../HandlerTransaction.js"
import type { BackoffInput } from "../JobDefinition.js"
import type { StandardSchema } from "../StandardSchema.js"
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
  /** Aborted when the run must stop: shutdown, cancel, timeout or a lost lease. Nothing is recorded then. */
  readonly signal: AbortSignal
}

/** How a step is retried and undone. */
export interface StepOptions<A> {
  /** Attempts before the step has failed, counting the first. [4] */
  readonly attempts?: number | undefined
  /** Delay after each failed attempt. It survives restarts and takes no slot. [1s, 10s, 1m, then 10m] */
  readonly backoff?: BackoffInput | undefined
  /**
   * Undoes the step if the execution later fails or is cancelled. Undos run in reverse order. An undo is recorded and
   * retried like a step, and may wait with `step.sleep` and `step.waitFor`.
   */
  readonly undo?: ((result: A, context: StepContext) => unknown) | undefined
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

/** How long to wait for a signal, and how to validate its value. */
export interface WaitOptions<A> {
  /** Maximum time to wait for the signal; then the result is undefined. [no limit] */
  readonly timeout?: DurationInput | undefined
  /** Validates the value of the signal. */
  readonly schema?: StandardSchema<unknown, A> | undefined
}

/** `step.waitFor` of a workflow that declares its signals. */
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

/** `step.waitFor` of a workflow that declares no signals: it takes any name. */
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

/** `step.waitFor` of a workflow with these signals. */
export type WaitFor<Signals> = string extends keyof Signals ? WaitForAny : WaitForDeclared<Signals>

/** The steps of a workflow. Repeated names are numbered: `charge`, `charge#2`, and so on. */
export interface Step<Signals = SignalSchemas> {
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

  /** Waits for a duration without occupying a slot. */
  sleep(name: string, duration: DurationInput): Promise<void>

  /** Waits for a signal with this name, which may already have arrived. */
  readonly waitFor: WaitFor<Signals>

  /** Runs a child for each item, in parallel, and wakes once when all have ended. Rejects if one of them failed. */
  all<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>
  ): Promise<ReadonlyArray<Result>>

  /** Like `all`, but returns how each child ended. */
  allSettled<Item, Result>(
    name: string,
    items: ReadonlyArray<Item>,
    call: (item: Item, index: number) => ChildCall<Result>
  ): Promise<ReadonlyArray<ChildEnd<Result>>>

  /** Starts a child without waiting for it. It is not cancelled with this execution. */
  start<Result>(name: string, call: ChildCall<Result>): Promise<void>

  /**
   * Marks a change of the code: true for executions that reach it after the change, false for those that passed it before. Keep the
   * old code in the other branch until those have ended.
   */
  patched(name: string): Promise<boolean>
}
